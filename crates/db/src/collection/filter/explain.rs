//! How a filter is answered, and by what it was found out: for whoever wonders why it takes so long.
//!
//! The filter is estimated first, and then run with nothing taken from the answers that are kept.

use std::fmt;

use roaring::RoaringTreemap;

use super::condition::{IndexedCondition, column_of};
use super::filter_result_cache::are_tested;
use super::matching::{Filter, ResolvedFilter, Scope, selected};
use super::prefilter::{FilterRowSource, PrefilterAnswer};
use crate::collection::formats::Formats;
use crate::collection::partitions::partition_numbers;
use crate::collection::{Collection, CollectionError};
use crate::expr::{Leaf, Predicate};
use crate::scalar::{MatchEstimate, ScalarView};

/// How the rows of a filter were found.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPlan {
    /// The filter as it is understood, with a bracket around every operator.
    pub expression: String,
    /// Live rows of the partitions that were asked for.
    pub rows: u64,
    /// How many rows match, as the indexes guess before they are asked which.
    pub estimate: MatchEstimate,
    /// What was done first.
    pub source: FilterRowSource,
    /// The conditions in the order in which indexes were asked for them.
    pub conditions: Vec<ConditionPlan>,
    /// Rows that match for sure.
    pub certain: u64,
    /// Rows that were read, since only their values tell.
    pub rows_read: u64,
    /// Rows that match.
    pub matches: u64,
    /// How each vector field would be searched among them.
    pub searches: Vec<SearchPlan>,
}

/// How one condition was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionPlan {
    /// The field, with a path where it leads into it; several fields that are calculated with or
    /// compared with each other have no name.
    pub field: Option<String>,
    /// What is asked of it: `==`, `range`, `in`, `like`, `is null`, `contains` and so on.
    pub operation: &'static str,
    /// Whether the rows are wanted of which it is false.
    pub negated: bool,
    /// By what.
    pub answered: PrefilterAnswer,
    /// How many rows match it, negated or not, among all that live.
    pub estimate: MatchEstimate,
}

/// How a vector field is searched among the rows that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPlan {
    /// The field.
    pub field: String,
    /// Rows that match and are in the graph; none where there is no graph.
    pub linked: Option<u64>,
    /// Rows that match and are compared exactly with each query.
    pub exact: u64,
    /// How those in the graph are found.
    pub walk: Walk,
}

/// How rows of a graph are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// None is looked for there.
    None,
    /// The codes of all of them are compared with the query, and the best are read.
    List,
    /// By walking through the graph, rows that do not match included.
    Graph,
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::List => "list",
            Self::Graph => "graph",
        })
    }
}

impl Collection {
    /// Runs a filter and tells how: among the rows of the named partitions, or of all.
    ///
    /// # Errors
    /// [`CollectionError::Filter`], [`CollectionError::Catalog`] for a partition that there is
    /// not, or a failed read.
    pub fn explain(
        &self,
        filter: Filter<'_>,
        partitions: Option<&[&str]>,
    ) -> Result<FilterPlan, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let bound = self.filters.bound(&filter.expression, &formats.schema, &filter.templates)?;
        let numbers = partition_numbers(&entry, partitions)?;
        let moment = self.moment_for(&entry, Some(&bound));
        let scope = Scope {
            entry: &entry,
            formats: &formats,
            moment: &moment,
            partitions: numbers.as_deref(),
            rows: None,
        };
        let live = moment.live.among(numbers.as_deref()).len();
        let all = moment.live.among(None);
        let view = moment.scalars.as_ref();
        let guess = Guess { formats: &formats, view, all: &all, live: all.len() };
        let estimate = guess.within(guess.of(&bound.predicate, false), live);
        let ResolvedFilter { rows, source, asked, certain, rows_read } =
            selected(&scope, &bound, u64::MAX)?;
        let conditions = asked.iter().map(|asked| ConditionPlan {
            field: column_of(asked.leaf).map(|column| name_of(column, &formats)),
            operation: operation(asked.leaf),
            negated: asked.negated,
            answered: asked.answered,
            estimate: guess.of_leaf(asked.leaf, asked.negated),
        });
        let fields = self.components.fields.iter();
        let searches = fields.map(|field| match field.graph() {
            None => SearchPlan {
                field: field.name.clone(),
                linked: None,
                exact: rows.len(),
                walk: Walk::None,
            },
            Some(graph) => {
                let exact = rows.intersection_len(&graph.pending());
                let allow = graph.allow(&rows);
                let walk = match () {
                    () if allow.is_empty() => Walk::None,
                    () if are_tested(allow.len(), &graph) => Walk::Graph,
                    () if graph.scans(&allow) => Walk::List,
                    () => Walk::Graph,
                };
                SearchPlan { field: field.name.clone(), linked: Some(allow.len()), exact, walk }
            }
        });
        Ok(FilterPlan {
            expression: crate::expr::explicit(&filter.expression)?,
            rows: live,
            estimate,
            source,
            conditions: conditions.collect(),
            certain,
            rows_read,
            matches: rows.len(),
            searches: searches.collect(),
        })
    }
}

fn name_of(column: &crate::expr::ColumnRef, formats: &Formats) -> String {
    let mut name = formats.schema.fields()[column.field].spec.name.clone();
    column.path.iter().for_each(|step| name.push_str(&step.to_string()));
    name
}

fn operation(leaf: &Leaf) -> &'static str {
    match leaf {
        Leaf::Compare(_, comparison, _) => comparison.sign(),
        Leaf::Range(..) => "range",
        Leaf::In(..) => "in",
        Leaf::Like(..) => "like",
        Leaf::IsNull(_) => "is null",
        Leaf::Contains(..) => "contains",
        Leaf::Computed(..) => "computed",
    }
}

/// Guesses how many rows match, as if conditions had nothing to do with each other.
struct Guess<'a> {
    formats: &'a Formats,
    view: Option<&'a ScalarView>,
    all: &'a RoaringTreemap,
    /// Rows that live.
    live: u64,
}

impl Guess<'_> {
    fn of(&self, predicate: &Predicate, negated: bool) -> MatchEstimate {
        match predicate {
            Predicate::Const(value) if *value != negated => self.exactly(self.live),
            Predicate::Const(_) => self.exactly(0),
            Predicate::Not(inner) => self.of(inner, !negated),
            Predicate::Leaf(leaf) => self.of_leaf(leaf, negated),
            Predicate::And(terms) | Predicate::Or(terms) => {
                let all = matches!(predicate, Predicate::And(_)) != negated;
                let terms = terms.iter().map(|term| self.of(term, negated));
                if all {
                    terms.fold(self.exactly(self.live), |a, b| self.both(a, b))
                } else {
                    terms.fold(self.exactly(0), |a, b| self.either(a, b))
                }
            }
        }
    }

    fn of_leaf(&self, leaf: &Leaf, negated: bool) -> MatchEstimate {
        let unknown = MatchEstimate { least: 0, most: self.live, guess: self.live / 2 };
        self.asked(leaf, negated).unwrap_or(unknown)
    }

    fn asked(&self, leaf: &Leaf, negated: bool) -> Option<MatchEstimate> {
        let condition = IndexedCondition::of(leaf, self.formats)?;
        let (view, all) = (self.view?, self.live);
        let estimate = |predicate| view.estimate(predicate, self.all).ok();
        let mut found = estimate(&condition.predicate)?;
        if !condition.whole {
            found.least = 0;
        }
        if negated == condition.negated {
            return Some(found);
        }
        let null = estimate(&condition.null)?;
        let left = |a: u64, b: u64| all.saturating_sub(a).saturating_sub(b);
        Some(MatchEstimate {
            least: left(found.most, null.most),
            most: left(found.least, null.least),
            guess: left(found.guess, null.guess),
        })
    }

    fn exactly(&self, rows: u64) -> MatchEstimate {
        MatchEstimate { least: rows, most: rows, guess: rows }
    }

    fn both(&self, a: MatchEstimate, b: MatchEstimate) -> MatchEstimate {
        MatchEstimate {
            least: (a.least + b.least).saturating_sub(self.live),
            most: a.most.min(b.most),
            guess: self.share(a.guess, b.guess),
        }
    }

    fn either(&self, a: MatchEstimate, b: MatchEstimate) -> MatchEstimate {
        MatchEstimate {
            least: a.least.max(b.least),
            most: (a.most + b.most).min(self.live),
            guess: a.guess + b.guess - self.share(a.guess, b.guess).min(b.guess),
        }
    }

    /// The part of `a` that `b` has of all rows.
    fn share(&self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) / u128::from(self.live.max(1))) as u64
    }

    /// The same among some rows.
    fn within(&self, of: MatchEstimate, rows: u64) -> MatchEstimate {
        MatchEstimate {
            least: of.least.saturating_sub(self.live - rows),
            most: of.most.min(rows),
            guess: self.share(of.guess, rows),
        }
    }
}
