//! What a search answers: one type from the collection to the doors.

use std::time::Duration;

use super::costs::SearchCosts;
use crate::collection::read::rows::FoundRow;

/// A row found by a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// Exact distance; smaller is nearer, for every metric.
    pub distance: f32,
    /// The row.
    pub row: FoundRow,
}

/// What was found, and what it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchAnswer {
    /// The hits of each query.
    pub hits: Vec<Vec<SearchHit>>,
    /// What was done for it, and for searches of the same batch until then.
    pub costs: SearchCosts,
    /// Where its time went, where a scheduler has done it.
    pub stages: Stages,
}

/// Where the time of a search went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Waiting for a thread.
    pub queue: Duration,
    /// Finding rows, its own and those of searches done together with it before.
    pub search: Duration,
    /// Reading rows, its own and theirs.
    pub rows: Duration,
    /// Searches that were done together, itself included.
    pub joined: usize,
}

/// How far several searches have come.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchProgress {
    /// The rows near the queries of the next few searches are found, and are read now.
    Found,
    /// The search in this place is answered.
    Answered(usize, SearchAnswer),
}
