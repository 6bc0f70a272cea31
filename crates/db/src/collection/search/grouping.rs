//! Searches that want a few rows of each group instead of the nearest rows.
//!
//! Groups look at the nearest rows
//! and pass some over; where too few are left they look at more, four times as many each time, until
//! there are enough or no more rows, and at no more than [`MOST_GROUPED`].

use std::collections::HashMap;

use pipeann_engine::types::VectorSet;

use super::answer::{BatchProgress, SearchHit};
use super::costs::CostCounters;
use super::nearest::one;
use super::request::{Grouping, SearchRequest};
use crate::asker;
use crate::collection::read::rows::{FoundRow, ReadView, RowReading};
use crate::collection::{Collection, CollectionError};
use crate::ids::RowId;
use crate::value::Value;

/// The most rows that are put into groups for one query. Groups that come up seldom would else be
/// looked for among all rows.
pub const MOST_GROUPED: usize = 65_536;

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
    /// The groups of the nearest rows of each query, and of rows further away where those are too
    /// few; those of a group stand together, where the nearest of them would.
    ///
    /// # Errors
    /// As [`search`](Self::search), and [`CollectionError::Field`] for groups by a field of another
    /// type.
    pub(in crate::collection) fn group_from(
        &self,
        request: &SearchRequest<'_>,
        groups: Grouping,
        first: Vec<Vec<SearchHit>>,
        costs: &CostCounters,
    ) -> Result<Vec<Vec<SearchHit>>, CollectionError> {
        let field = &*request.output[groups.output];
        let is_last = |hits: usize, looked_at| hits < looked_at || looked_at >= MOST_GROUPED;
        let each = first.into_iter().enumerate().map(|(at, hits)| {
            let mut looked_at = request.k;
            let mut ends = is_last(hits.len(), looked_at);
            let (mut found, enough) = grouped(hits, request.k, groups, field)?;
            if enough || ends {
                return Ok(found);
            }
            // Of rows that are looked at for their groups alone nothing else is read.
            let alone = Grouping { output: 0, ..groups };
            while !ends {
                looked_at = looked_at.saturating_mul(4).clamp(64, MOST_GROUPED);
                // Most of them are no part of the answer.
                (found, ends) = asker::in_passing(|| {
                    let query = one(request.vectors.as_set(), at);
                    let hits = self.wider(request, query, looked_at, field, costs)?;
                    let is_last = is_last(hits.len(), looked_at);
                    let (found, enough) = grouped(hits, request.k, alone, field)?;
                    Ok::<_, CollectionError>((found, enough || is_last))
                })?;
            }
            self.with_output(request, found)
        });
        each.collect()
    }

    /// The `k` nearest rows of one query, with the field that makes groups.
    fn wider(
        &self,
        request: &SearchRequest<'_>,
        query: VectorSet<'_>,
        k: usize,
        field: &str,
        costs: &CostCounters,
    ) -> Result<Vec<SearchHit>, CollectionError> {
        let list = request.list.map(|list| list.max(k));
        let (vectors, output) = (query.into(), [field].into());
        let wider = SearchRequest { k, list, vectors, output, ..request.borrowed() };
        let mut hits = Vec::new();
        self.answer_each(&[&wider], costs, &mut |progress| {
            if let BatchProgress::Answered(_, mut answer) = progress {
                hits = answer.hits.remove(0);
            }
        })?;
        Ok(hits)
    }

    /// The hits with the fields that a request asks for, but for rows that have been deleted meanwhile.
    fn with_output(
        &self,
        request: &SearchRequest<'_>,
        hits: Vec<SearchHit>,
    ) -> Result<Vec<SearchHit>, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let sources = self.sources(&formats, &request.output)?;
        let held = request.moment.as_deref();
        let when = ReadView { entry: &entry, filter: None, held };
        let read = self.at_one_moment(
            when,
            || (),
            |(), moment| {
                let rows = hits.iter().map(|hit| hit.row.row);
                let live: Vec<RowId> = rows.filter(|row| moment.live.contains(*row)).collect();
                self.read(&RowReading { formats: &formats, moment, sources: &sources }, &live)
            },
        )?;
        let mut read: HashMap<RowId, FoundRow> =
            read.into_iter().map(|row| (row.row, row)).collect();
        let whole = |hit: SearchHit| Some(SearchHit { row: read.remove(&hit.row.row)?, ..hit });
        Ok(hits.into_iter().filter_map(whole).collect())
    }
}

/// The first rows of the first groups, group by group, and whether no further row would change them.
fn grouped(
    hits: Vec<SearchHit>,
    k: usize,
    groups: Grouping,
    field: &str,
) -> Result<(Vec<SearchHit>, bool), CollectionError> {
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    let mut found: Vec<Vec<SearchHit>> = Vec::new();
    for hit in hits {
        let key = GroupKey::of(&hit.row.values[groups.output]);
        let key = key.ok_or_else(|| CollectionError::Field {
            wanted: "field of integers, bools or texts to group by, named",
            field: field.to_owned(),
        })?;
        let place = match places.get(&key) {
            Some(place) => *place,
            None if found.len() == k => continue,
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
    let enough = found.len() == k && full;
    Ok((found.into_iter().flatten().collect(), enough))
}
