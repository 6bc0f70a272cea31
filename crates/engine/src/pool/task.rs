//! What a pool is asked to do, and what it tells of it.

use std::time::Instant;

use crate::index::QueryError;
use crate::search::{
    Expansion, Frontier, FrontierError, Hit, SearchError, SearchParams, SearchStats,
};

/// What a pool is asked to do.
#[derive(Debug)]
pub enum Task {
    /// A query, to be begun: the bytes of one vector, and how it is searched.
    Query(Vec<u8>, Box<SearchParams>),
    /// The same among the rows that pass a filter.
    Filtered(Vec<u8>, Box<SearchParams>, Vec<u8>),
    /// A search from elsewhere, to be gone on with.
    State(Vec<u8>),
    /// Nodes to be expanded once, for a search whose list is kept elsewhere.
    Expand(Box<Frontier>),
    /// What cannot be done, for this reason: its end is told like that of others.
    Refused(String),
}

/// What became of a task.
#[derive(Debug)]
pub enum End {
    /// Up to `k` hits, nearest first, and what the whole search has cost.
    Found(Vec<Hit>, SearchStats),
    /// What an expansion gave, and what it has cost.
    Expanded(Expansion, SearchStats),
    /// It goes on where a partition is.
    Elsewhere {
        /// The partition.
        partition: u32,
        /// The search.
        state: Vec<u8>,
        /// What it has cost so far.
        stats: SearchStats,
    },
    /// There is no answer.
    Failed(PoolError),
}

/// Why a task has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The query cannot be asked of this index. The caller has to change it.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The nodes cannot be expanded here.
    #[error(transparent)]
    Frontier(#[from] FrontierError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// It was none that can be done.
    #[error("{0}")]
    Refused(String),
    /// Its time was over before it could begin or go on.
    #[error("the deadline has passed")]
    Deadline,
    /// The pool is closing.
    #[error("the server is closing")]
    Closing,
}

/// Told of each end, on a thread of the pool.
pub trait Sink: Send + Sync {
    /// The task of this ticket has ended. Must not wait: a thread of the pool does.
    fn ended(&self, ticket: u64, end: End);
}

/// A task that waits, and what it is known by.
#[derive(Debug)]
pub(super) struct WaitingTasks {
    pub(super) ticket: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) task: Task,
}
