//! Searches that want something else than the nearest rows: those within a range of distances, or
//! a few of each group.
//!
//! A range is searched as one: what lies beyond it is not looked for. Groups look at the nearest rows
//! and pass some over; where too few are left they look at more, four times as many each time, until
//! there are enough or no more rows, and at no more than [`MOST_GROUPED`].

use std::collections::HashMap;

use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use super::pinned_snapshot::PinnedSnapshot;
use super::search::{SearchHit, VectorSearch, one};
use super::{Collection, CollectionError};
use crate::value::Value;

/// The most rows that are put into groups for one query. Groups that come up seldom would else be
/// looked for among all rows.
pub const MOST_GROUPED: usize = 65_536;

/// Which of the rows near a query are wanted. The search's `k` counts rows, or groups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Selection {
    /// The distances that they have.
    pub within: DistanceRange,
    /// A few rows of each group; all unless given.
    pub groups: Option<Grouping>,
}

/// Rows that belong together because a field has the same value. Rows without a value are a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The field, by its position in the output of the search: integers, bools or texts.
    pub output: usize,
    /// Rows of each group.
    pub size: usize,
    /// Whether to look further for groups that have fewer.
    pub fill: bool,
}

/// What makes rows a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    Null,
    Bool(bool),
    Integer(i64),
    Text(String),
}

impl GroupKey {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::VarChar(text) => Some(Self::Text(text.clone())),
            Value::Timestamptz(instant) => Some(Self::Integer(*instant)),
            other => other.as_ref().integer().map(Self::Integer),
        }
    }
}

impl Collection {
    /// For each query the nearest of the rows that are wanted, nearest first; those of a group stand
    /// together, where the nearest of them would.
    ///
    /// # Errors
    /// As [`search`](Self::search), and [`CollectionError::Field`] for groups by a field of another
    /// type.
    pub fn search_selected(
        &self,
        search: &VectorSearch<'_>,
        queries: VectorSet<'_>,
        selection: &Selection,
    ) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        self.search_selected_as_of(search, queries, (selection, None))
    }

    /// As [`search_selected`](Self::search_selected), of a moment that is held, or of now.
    ///
    /// # Errors
    /// As [`search_selected`](Self::search_selected).
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn search_selected_as_of(
        &self,
        search: &VectorSearch<'_>,
        queries: VectorSet<'_>,
        (selection, held): (&Selection, Option<&PinnedSnapshot>),
    ) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        let first = self.search_as_of(search, queries, (selection.within, held))?;
        match selection.groups {
            None => Ok(first),
            Some(groups) => {
                self.group_from(search, queries, (selection.within, groups, held), first)
            }
        }
    }

    /// The groups of the nearest rows of each query, and of rows further away where those are too
    /// few.
    pub(super) fn group_from(
        &self,
        search: &VectorSearch<'_>,
        queries: VectorSet<'_>,
        (within, groups, held): (DistanceRange, Grouping, Option<&PinnedSnapshot>),
        first: Vec<Vec<SearchHit>>,
    ) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        let each = first.into_iter().enumerate().map(|(at, mut hits)| {
            let mut looked_at = search.k;
            loop {
                let is_last = hits.len() < looked_at || looked_at >= MOST_GROUPED;
                let (found, enough) = grouped(search, groups, hits)?;
                if enough || is_last {
                    return Ok(found);
                }
                looked_at = looked_at.saturating_mul(4).clamp(64, MOST_GROUPED);
                let list = search.list.map(|list| list.max(looked_at));
                let wider = VectorSearch { k: looked_at, list, ..search.clone() };
                hits = self.search_as_of(&wider, one(queries, at), (within, held))?.remove(0);
            }
        });
        each.collect()
    }
}

/// The first rows of the first groups, group by group, and whether no further row would change them.
fn grouped(
    search: &VectorSearch<'_>,
    groups: Grouping,
    hits: Vec<SearchHit>,
) -> Result<(Vec<SearchHit>, bool), CollectionError> {
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    let mut found: Vec<Vec<SearchHit>> = Vec::new();
    for hit in hits {
        let key = GroupKey::of(&hit.row.values[groups.output]);
        let key = key.ok_or_else(|| CollectionError::Field {
            wanted: "field of integers, bools or texts to group by, named",
            field: search.output[groups.output].to_owned(),
        })?;
        let place = match places.get(&key) {
            Some(place) => *place,
            None if found.len() == search.k => continue,
            None => {
                places.insert(key, found.len());
                found.push(Vec::new());
                found.len() - 1
            }
        };
        if found[place].len() < groups.size {
            found[place].push(hit);
        }
    }
    let full = !groups.fill || found.iter().all(|group| group.len() == groups.size);
    let enough = found.len() == search.k && full;
    Ok((found.into_iter().flatten().collect(), enough))
}
