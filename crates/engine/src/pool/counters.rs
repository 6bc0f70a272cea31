//! What a pool has done, counted by its threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sums since the pool began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Queries begun here.
    pub begun: u64,
    /// Searches that came from elsewhere.
    pub came: u64,
    /// Expansions for searches that are kept elsewhere.
    pub expanded: u64,
    /// Searches that left.
    pub left: u64,
    /// Searches that ended here, with an answer or without.
    pub ended: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) begun: AtomicU64,
    pub(super) came: AtomicU64,
    pub(super) expanded: AtomicU64,
    pub(super) left: AtomicU64,
    pub(super) ended: AtomicU64,
}

impl Counters {
    pub(super) fn sums(&self) -> PoolCounts {
        let Self { begun, came, expanded, left, ended } = self;
        let [begun, came, expanded, left, ended] =
            [begun, came, expanded, left, ended].map(|counter| counter.load(Ordering::Relaxed));
        PoolCounts { begun, came, expanded, left, ended }
    }
}
