//! Searching a graph as of one moment.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pipeann_engine::index::{Answer, QueryError};
use pipeann_engine::search::{QueryJob, SearchError, SearchParams, SearchStats};
use pipeann_engine::update::AllowList;
use roaring::RoaringTreemap;

use super::{FieldIndex, FieldIndexError};
use crate::ids::RowId;

/// Rows that are taken from a bitmap at once, which is several times as fast as one by one.
const AT_ONCE: usize = 256;

/// The rows that a search of a graph answers.
#[derive(Clone, Copy, Debug)]
pub struct AllowedRows<'a> {
    /// The rows that live, or those of them that are wanted.
    pub rows: &'a RoaringTreemap,
    /// What [`FieldIndex::allow`] says of them, where these are not all rows that live.
    pub nodes: Option<&'a AllowList>,
}

/// Whether somebody still waits for what is searched.
#[derive(Clone, Copy)]
pub struct StillWanted<'a> {
    /// As it is at the moment; waits for nothing.
    pub now: &'a (dyn Fn() -> bool + Sync),
    /// The same between two searches; may wait while others have their turn.
    pub between: &'a (dyn Fn() -> bool + Sync),
}

/// A row found, with its exact distance; smaller is nearer, for every metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphHit {
    /// The distance.
    pub distance: f32,
    /// The row.
    pub row: RowId,
}

/// What was found, nearest first, and what finding it took.
pub type GraphOutcome = Result<(Vec<GraphHit>, SearchStats), FieldIndexError>;

impl FieldIndex {
    /// The nodes of those of these rows that are in the graph, for searches among them only.
    pub fn allow(&self, rows: &RoaringTreemap) -> AllowList {
        self.graph.among(rows.len(), |batch| {
            let (mut lows, mut ids) = ([0; AT_ONCE], [RowId(0); AT_ONCE]);
            for (high, bitmap) in rows.bitmaps() {
                let mut left = bitmap.iter();
                loop {
                    let lows = left.next_many(&mut lows);
                    if lows.is_empty() {
                        break;
                    }
                    for (id, low) in ids.iter_mut().zip(&*lows) {
                        *id = RowId(u64::from(high) << 32 | u64::from(*low));
                    }
                    batch(&ids[..lows.len()]);
                }
            }
        })
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

    /// For each query the nearest rows of the graph, nearest first, and what finding them took. Rows
    /// that were told gone are not among them. Where distances have an end the list is as long as what
    /// lies within needs, and [`SearchStats::cut_short`] tells that the longest list allowed was too
    /// short.
    ///
    /// Where nobody waits any more it ends soon, and what has no answer by then ends as
    /// [`SearchError::Stopped`].
    ///
    /// # Errors
    /// Of each query, [`FieldIndexError::Search`].
    pub fn search_together(
        &self,
        jobs: &[QueryJob<'_>],
        among: AllowedRows<'_>,
        wanted: StillWanted<'_>,
    ) -> Vec<GraphOutcome> {
        let is_none = among.nodes.is_some_and(|nodes| nodes.is_empty());
        if is_none || jobs.is_empty() {
            return jobs.iter().map(|_| Ok(Default::default())).collect();
        }
        self.searched.store(true, Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
        let some = match jobs.iter().all(is_wanted) {
            true => Cow::Borrowed(jobs),
            false => jobs.iter().copied().filter(is_wanted).collect(),
        };
        // Where nodes were numbered anew, or the queue broke, each is searched alone.
        let gone = || !(wanted.now)();
        let first = self.graph.search_together_until(&some, among.nodes, &gone);
        let first = first.unwrap_or_default();
        let mut first = first.into_iter();
        let each = jobs.iter().map(|job| match is_wanted(job) {
            false => Ok(Default::default()),
            true => self.settled(job, among, first.next(), wanted),
        });
        each.collect()
    }

    /// To be called now and then: returns memory that is kept for searches if there was none since
    /// the last time, and that of links; and says whether it did.
    pub fn trim(&self) -> bool {
        let rests = !self.asked.swap(false, Ordering::Relaxed);
        self.drop_kept_links() | (rests && self.graph.drop_spare_drivers())
    }

    fn search_alone(
        &self,
        job: QueryJob<'_>,
        among: Option<&AllowList>,
        wanted: StillWanted<'_>,
    ) -> Result<Answer, QueryError> {
        let gone = || !(wanted.now)();
        self.graph.search_together_until(&[job], among, &gone)?.remove(0)
    }

    /// The rows that are wanted, given the outcome of a first search if there was one.
    fn settled(
        &self,
        job: &QueryJob<'_>,
        among: AllowedRows<'_>,
        mut first: Option<Result<Answer, QueryError>>,
        wanted: StillWanted<'_>,
    ) -> GraphOutcome {
        let mut stats = SearchStats::default();
        // Rows that do not live take places in the answer.
        let mut params = Cow::Borrowed(job.params);
        let mut allow = among.nodes.cloned();
        loop {
            let found = match first.take() {
                Some(found) => found,
                None if (wanted.between)() => {
                    let job = QueryJob { params: &params, ..*job };
                    self.search_alone(job, allow.as_ref(), wanted)
                }
                None => Err(SearchError::Stopped.into()),
            };
            let answer = match found {
                Err(QueryError::Renumbered) => {
                    allow = Some(self.allow(among.rows));
                    continue;
                }
                Ok(answer) if answer.stats.in_vain > 0 => {
                    stats += answer.stats;
                    allow = Some(self.allow(among.rows));
                    continue;
                }
                Ok(answer)
                    if answer.stats.cut_short > 0
                        && let Some(longer) = params.longer() =>
                {
                    stats += SearchStats { cut_short: 0, ..answer.stats };
                    params = Cow::Owned(longer);
                    continue;
                }
                answer => answer?,
            };
            stats += answer.stats;
            let live = answer.hits.iter().filter(|hit| among.rows.contains(hit.row.0));
            let hits: Vec<GraphHit> = live
                .map(|hit| GraphHit { distance: hit.distance, row: hit.row })
                .take(job.params.k)
                .collect();
            let k = params.k;
            if hits.len() == job.params.k || answer.hits.len() < k || k >= SearchParams::LIST_MAX {
                return Ok((hits, stats));
            }
            let wider = params.to_mut();
            wider.k = (2 * k).min(SearchParams::LIST_MAX);
            wider.list = wider.list.max(wider.k);
        }
    }
}

/// Whether a query wants any rows.
fn is_wanted(job: &QueryJob<'_>) -> bool {
    job.params.k > 0
}
