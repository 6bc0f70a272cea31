//! Searching a graph as of one moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pipeann_engine::index::{Answer, QueryError};
use pipeann_engine::search::{DistanceRange, SearchParams, SearchStats};
use pipeann_engine::update::AllowList;
use roaring::RoaringTreemap;

use super::{FieldIndex, FieldIndexError};
use crate::ids::RowId;

/// What is asked of the graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphSearch<'a> {
    /// How many rows are wanted; at least 1.
    pub k: usize,
    /// Length of the candidate list, raised to `k` where it is shorter.
    pub list: usize,
    /// Distances that are answered. Where they have an end the list is as long as what lies within
    /// needs, and [`SearchStats::cut_short`] tells that the longest list allowed was too short.
    pub within: DistanceRange,
    /// The rows that live, or those of them that are wanted.
    pub among: &'a RoaringTreemap,
    /// What [`FieldIndex::allow`] says of `among`, where these are not all rows that live.
    pub allow: Option<&'a AllowList>,
}

/// A row found, with its exact distance; smaller is nearer, for every metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphHit {
    /// The distance.
    pub distance: f32,
    /// The row.
    pub row: RowId,
}

impl GraphSearch<'_> {
    fn params(&self, k: usize, list: usize) -> SearchParams {
        let list = list.max(k).min(SearchParams::LIST_MAX);
        SearchParams { k, list, within: self.within, ..SearchParams::default() }
    }
}

/// What was found, nearest first, and what finding it took.
pub type GraphOutcome = Result<(Vec<GraphHit>, SearchStats), FieldIndexError>;

impl FieldIndex {
    /// The nodes of those of these rows that are in the graph, for searches among them only.
    pub fn allow(&self, rows: &RoaringTreemap) -> AllowList {
        // Bitmap by bitmap, which is several times as fast as one row after the other.
        let count = rows.len();
        let rows = rows.bitmaps().flat_map(|(high, lows)| {
            lows.iter().map(move |low| RowId(u64::from(high) << 32 | u64::from(low)))
        });
        self.graph.among(rows, count)
    }

    /// The same where most rows in the graph are wanted, about `expected`: rows are tested as they
    /// are met.
    pub fn allow_tested(rows: &Arc<RoaringTreemap>, expected: u64) -> AllowList {
        let rows = Arc::clone(rows);
        AllowList::tested(expected, move |row| rows.contains(row.0))
    }

    /// Whether a search among these ranks all of them by code instead of walking the graph.
    pub fn scans(&self, allow: &AllowList) -> bool {
        self.graph.scans(allow)
    }

    /// The nearest rows of the graph, nearest first, and what finding them took. Rows that were
    /// told gone are not among them.
    ///
    /// # Errors
    /// [`FieldIndexError::Search`].
    pub fn search(&self, query: &[u8], search: GraphSearch<'_>) -> GraphOutcome {
        self.search_together(&[(query, search)]).remove(0)
    }

    /// As [`search`](Self::search), for several queries at once, which have `among` and `allow` in
    /// common.
    pub fn search_together(&self, queries: &[(&[u8], GraphSearch<'_>)]) -> Vec<GraphOutcome> {
        let Some((_, GraphSearch { allow, .. })) = queries.first() else { return Vec::new() };
        if allow.is_some_and(|allow| allow.is_empty()) {
            return queries.iter().map(|_| Ok(Default::default())).collect();
        }
        self.searched.store(true, Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
        let wanted = queries.iter().filter(|(_, search)| search.k > 0);
        let wanted: Vec<_> = wanted.map(|(query, s)| (*query, s.params(s.k, s.list))).collect();
        // Where nodes were numbered anew, or the queue broke, each is searched alone.
        let first = self.graph.search_together(&wanted, *allow).unwrap_or_default();
        let mut first = first.into_iter();
        let each = queries.iter().map(|&(query, search)| match search.k {
            0 => Ok(Default::default()),
            _ => self.settled(query, search, first.next()),
        });
        each.collect()
    }

    /// To be called now and then: returns memory that is kept for searches if there was none since
    /// the last time, and says whether it did.
    pub fn trim(&self) -> bool {
        !self.asked.swap(false, Ordering::Relaxed) && self.graph.drop_spare_drivers()
    }

    /// The rows that are wanted, given the outcome of a first search if there was one.
    fn settled(
        &self,
        query: &[u8],
        search: GraphSearch<'_>,
        mut first: Option<Result<Answer, QueryError>>,
    ) -> GraphOutcome {
        let mut stats = SearchStats::default();
        // Rows that do not live take places in the answer.
        let (mut k, mut list) = (search.k, search.list);
        let mut allow = search.allow.cloned();
        loop {
            let again = || self.graph.search(query, &search.params(k, list), allow.as_ref());
            let answer = match first.take().unwrap_or_else(again) {
                Err(QueryError::Renumbered) => {
                    allow = Some(self.allow(search.among));
                    continue;
                }
                Ok(answer) if answer.stats.in_vain > 0 => {
                    stats += answer.stats;
                    allow = Some(self.allow(search.among));
                    continue;
                }
                Ok(answer)
                    if answer.stats.cut_short > 0
                        && let Some(longer) = search.params(k, list).longer() =>
                {
                    stats += SearchStats { cut_short: 0, ..answer.stats };
                    list = longer.list;
                    continue;
                }
                answer => answer?,
            };
            stats += answer.stats;
            let wanted = answer.hits.iter().filter(|hit| search.among.contains(hit.row.0));
            let hits: Vec<GraphHit> = wanted
                .map(|hit| GraphHit { distance: hit.distance, row: hit.row })
                .take(search.k)
                .collect();
            if hits.len() == search.k || answer.hits.len() < k || k >= SearchParams::LIST_MAX {
                return Ok((hits, stats));
            }
            k = (2 * k).min(SearchParams::LIST_MAX);
        }
    }
}
