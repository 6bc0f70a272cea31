//! The pre-filter: which rows match a filter as far as scalar indexes tell, those that do (the
//! exact set) and those that may (the candidate set).
//!
//! The logic has three values, and only what is true counts in the end. So negation is pushed down
//! to the conditions, which by De Morgan's laws holds for three values too; and of a negated
//! condition those rows are true that are neither among its rows nor null. Above that, `and` and
//! `or` are intersection and union of both sets, and keep the promise that no row is missing from
//! those that may match, and that all of the others do.

use std::collections::BTreeMap;
use std::fmt;

use roaring::RoaringTreemap;

use super::condition::IndexedCondition;
use crate::asker;
use crate::collection::formats::Formats;
use crate::expr::{Leaf, Predicate};
use crate::scalar::{self, Postings, ScalarError, ScalarView};
use crate::schema::FieldId;

/// Where the rows of a filter are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRowSource {
    /// Every row matches, or none does.
    Constant,
    /// Among the rows of a few primary keys.
    Keys,
    /// In scalar indexes.
    Indexes,
    /// In no index: each row is read.
    Scan,
}

impl fmt::Display for FilterRowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "constant",
            Self::Keys => "keys",
            Self::Indexes => "indexes",
            Self::Scan => "scan",
        })
    }
}

impl fmt::Display for PrefilterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "index",
            Self::IndexRoughly => "index, then rows",
            Self::NoIndex => "rows",
        })
    }
}

/// What asking for a condition costs at least, in bytes compared.
const TERM_WORK: usize = 1024;

/// What is known of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::collection) struct CandidateSets {
    /// These match.
    pub(in crate::collection) exact: RoaringTreemap,
    /// No other row matches; those that match for sure are among them.
    pub(in crate::collection) candidates: RoaringTreemap,
}

impl CandidateSets {
    /// All of these match.
    pub(in crate::collection) fn all(rows: &RoaringTreemap) -> Self {
        Self { exact: rows.clone(), candidates: rows.clone() }
    }

    /// Nothing is known of these rows.
    pub(in crate::collection) fn nothing(rows: &RoaringTreemap) -> Self {
        Self { exact: RoaringTreemap::new(), candidates: rows.clone() }
    }

    /// The rows that have to be looked at.
    pub(in crate::collection) fn open(&self) -> RoaringTreemap {
        &self.candidates - &self.exact
    }
}

/// How a condition was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefilterAnswer {
    /// By an index, exactly.
    Index,
    /// By an index that names rows too many, which have to be looked at.
    IndexRoughly,
    /// By no index.
    NoIndex,
}

/// A condition that was asked for.
pub(in crate::collection) struct AskedLeaf<'f> {
    pub(in crate::collection) leaf: &'f Leaf,
    /// Whether the rows were wanted of which it is false.
    pub(in crate::collection) negated: bool,
    pub(in crate::collection) answered: PrefilterAnswer,
}

/// What the indexes of one moment know of these rows, and the conditions in the order in which they
/// were asked for.
pub(in crate::collection) fn prefilter<'f>(
    view: &ScalarView,
    formats: &Formats,
    predicate: &'f Predicate,
    among: &RoaringTreemap,
) -> (CandidateSets, Vec<AskedLeaf<'f>>) {
    let mut narrowing = Narrowing { view, formats, asked: Vec::new() };
    let known = narrowing.known(predicate, false, among);
    (known, narrowing.asked)
}

/// Conditions on one field that are asked for at once.
struct FieldConditions<'f> {
    asked: scalar::KeyPredicate,
    /// Each with whether it is negated.
    leaves: Vec<(&'f Leaf, bool)>,
}

/// The condition that a term is, and whether it is negated.
fn leaf_of(term: &Predicate, negated: bool) -> Option<(&Leaf, bool)> {
    match term {
        Predicate::Leaf(leaf) => Some((leaf, negated)),
        Predicate::Not(inner) => leaf_of(inner, !negated),
        _ => None,
    }
}

/// What is asked for the rows that the predicate of a condition matches, or of which it is false
/// where it is `negated`, where an index names just these.
fn exactly(condition: &IndexedCondition, negated: bool) -> Option<scalar::KeyPredicate> {
    let asked = &condition.predicate;
    match (condition.whole && asked.is_exact(), negated) {
        (false, _) => None,
        (true, false) => Some(asked.clone()),
        (true, true) => asked.opposite(),
    }
}

fn known_of(found: &Postings) -> CandidateSets {
    if found.exact { CandidateSets::all(&found.rows) } else { CandidateSets::nothing(&found.rows) }
}

/// Damage is noted where it was met, and costs the looking at rows until then.
fn noted<T>(found: Result<T, ScalarError>) -> Option<T> {
    found.inspect_err(|error| tracing::warn!("rows are looked at instead: {error}")).ok()
}

struct Narrowing<'a, 'f> {
    view: &'a ScalarView,
    formats: &'a Formats,
    asked: Vec<AskedLeaf<'f>>,
}

impl<'f> Narrowing<'_, 'f> {
    /// What is known of the rows `among` which the predicate is wanted to be true, or false where
    /// it is `negated`.
    fn known(
        &mut self,
        predicate: &'f Predicate,
        negated: bool,
        among: &RoaringTreemap,
    ) -> CandidateSets {
        if !asker::worked(TERM_WORK) {
            // Whoever asked gets no answer.
            return CandidateSets::default();
        }
        match predicate {
            Predicate::Const(value) if *value != negated => CandidateSets::all(among),
            Predicate::Const(_) => CandidateSets::default(),
            Predicate::Not(inner) => self.known(inner, !negated, among),
            Predicate::And(terms) if negated => self.any(terms, negated, among),
            Predicate::And(terms) => self.all(terms, negated, among),
            Predicate::Or(terms) if negated => self.all(terms, negated, among),
            Predicate::Or(terms) => self.any(terms, negated, among),
            Predicate::Leaf(leaf) => self.leaf(leaf, negated, among),
        }
    }

    fn all(
        &mut self,
        terms: &'f [Predicate],
        negated: bool,
        among: &RoaringTreemap,
    ) -> CandidateSets {
        let mut known = CandidateSets::all(among);
        let (joined, others) = self.joined(terms, negated);
        let mut meet = |next: &mut dyn FnMut(&RoaringTreemap) -> CandidateSets| {
            if !known.candidates.is_empty() {
                let next = next(&known.candidates);
                known = CandidateSets {
                    exact: std::mem::take(&mut known.exact) & next.exact,
                    candidates: next.candidates,
                };
            }
        };
        for joined in joined {
            meet(&mut |among| self.asked_at_once(&joined, among));
        }
        for term in others {
            meet(&mut |among| self.known(term, negated, among));
        }
        known
    }

    /// Of terms that all are to be true, or false where they are `negated`: those that can be asked
    /// exactly, all about the value of one field at once, and the others.
    fn joined(
        &self,
        terms: &'f [Predicate],
        negated: bool,
    ) -> (Vec<FieldConditions<'f>>, Vec<&'f Predicate>) {
        let (mut joined, mut others): (Vec<FieldConditions<'f>>, _) = (Vec::new(), Vec::new());
        // Where those of a field's value stand, and what they ask.
        let mut by_field: BTreeMap<FieldId, (usize, Vec<scalar::KeyPredicate>)> = BTreeMap::new();
        for term in terms {
            if !asker::worked(TERM_WORK) {
                break;
            }
            let exact = leaf_of(term, negated).and_then(|(leaf, negated)| {
                let condition = IndexedCondition::of(leaf, self.formats)?;
                Some((leaf, negated, exactly(&condition, negated != condition.negated)?))
            });
            let Some((leaf, negated, asked)) = exact else {
                others.push(term);
                continue;
            };
            let field = asked.valued_field();
            if let Some((at, of_field)) = field.and_then(|field| by_field.get_mut(&field)) {
                of_field.push(asked);
                joined[*at].leaves.push((leaf, negated));
                continue;
            }
            if let Some(field) = field {
                by_field.insert(field, (joined.len(), vec![asked.clone()]));
            }
            joined.push(FieldConditions { asked, leaves: vec![(leaf, negated)] });
        }
        for (at, of_field) in by_field.into_values().filter(|(_, of_field)| of_field.len() > 1) {
            let all = scalar::KeyPredicate::all(&of_field);
            joined[at].asked = all.expect("they are about the values of one field");
        }
        (joined, others)
    }

    fn asked_at_once(
        &mut self,
        joined: &FieldConditions<'f>,
        among: &RoaringTreemap,
    ) -> CandidateSets {
        let found = noted(self.view.postings(&joined.asked, among));
        let answered = match &found {
            None => PrefilterAnswer::NoIndex,
            Some(found) if found.exact => PrefilterAnswer::Index,
            Some(_) => PrefilterAnswer::IndexRoughly,
        };
        let leaves = joined.leaves.iter();
        self.asked.extend(leaves.map(|&(leaf, negated)| AskedLeaf { leaf, negated, answered }));
        found.map_or_else(|| CandidateSets::nothing(among), |found| known_of(&found))
    }

    fn any(
        &mut self,
        terms: &'f [Predicate],
        negated: bool,
        among: &RoaringTreemap,
    ) -> CandidateSets {
        let (mut known, mut left) = (CandidateSets::default(), among.clone());
        for term in terms {
            if left.is_empty() {
                break;
            }
            let next = self.known(term, negated, &left);
            left -= &next.exact;
            known.exact |= next.exact;
            known.candidates |= next.candidates;
        }
        known
    }

    fn leaf(&mut self, leaf: &'f Leaf, negated: bool, among: &RoaringTreemap) -> CandidateSets {
        let condition = IndexedCondition::of(leaf, self.formats);
        let known = condition.and_then(|condition| {
            let negated = negated != condition.negated;
            noted(self.asked_of_index(&condition, negated, among))
        });
        let (known, answered) = match known {
            Some((known, true)) => (known, PrefilterAnswer::Index),
            Some((known, false)) => (known, PrefilterAnswer::IndexRoughly),
            None => (CandidateSets::nothing(among), PrefilterAnswer::NoIndex),
        };
        self.asked.push(AskedLeaf { leaf, negated, answered });
        known
    }

    /// What the index knows, and whether that is all there is to know.
    fn asked_of_index(
        &self,
        condition: &IndexedCondition,
        negated: bool,
        among: &RoaringTreemap,
    ) -> Result<(CandidateSets, bool), ScalarError> {
        if let Some(asked) = exactly(condition, negated) {
            let found = self.view.postings(&asked, among)?;
            return Ok((known_of(&found), found.exact));
        }
        let found = self.view.postings(&condition.predicate, among)?;
        let exact = found.exact && condition.whole;
        let known = match negated {
            false if exact => known_of(&found),
            false => CandidateSets::nothing(&found.rows),
            true => {
                let valued = among - self.view.postings(&condition.null, among)?.rows;
                let sure = &valued - found.rows;
                CandidateSets { candidates: if exact { sure.clone() } else { valued }, exact: sure }
            }
        };
        Ok((known, exact))
    }
}
