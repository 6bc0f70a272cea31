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
    /// Of those that left, how long their states were.
    pub state_bytes: StateSizes,
}

/// How many states had which length: each bucket those of at most so many bytes that are in none before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateSizes([u64; StateSizes::AT_MOST.len() + 1]);

impl StateSizes {
    /// Bytes of the states in a bucket at most; what is longer is in one more.
    pub const AT_MOST: [usize; 8] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 65_536];

    fn bucket(bytes: usize) -> usize {
        Self::AT_MOST.partition_point(|most| *most < bytes)
    }

    /// How many are in each bucket, those beyond the last length behind them.
    pub fn buckets(&self) -> &[u64] {
        &self.0
    }

    /// Those of both.
    pub fn and(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(of, more)| *of += more);
        self
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) begun: AtomicU64,
    pub(super) came: AtomicU64,
    pub(super) expanded: AtomicU64,
    pub(super) left: AtomicU64,
    pub(super) ended: AtomicU64,
    state_bytes: [AtomicU64; StateSizes::AT_MOST.len() + 1],
}

impl Counters {
    /// A state of so many bytes leaves.
    pub(super) fn leaves(&self, bytes: usize) {
        self.state_bytes[StateSizes::bucket(bytes)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sums(&self) -> PoolCounts {
        let Self { begun, came, expanded, left, ended, state_bytes } = self;
        let [begun, came, expanded, left, ended] =
            [begun, came, expanded, left, ended].map(|counter| counter.load(Ordering::Relaxed));
        let buckets = state_bytes.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        PoolCounts { begun, came, expanded, left, ended, state_bytes: StateSizes(buckets) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_in_the_first_bucket_that_has_room_for_it() {
        let counters = Counters::default();
        for bytes in [0, 256, 257, 65_536, 65_537] {
            counters.leaves(bytes);
        }
        let found = counters.sums().state_bytes;
        assert_eq!(found.buckets(), [2, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(found.and(found).buckets(), [4, 2, 0, 0, 0, 0, 0, 2, 2]);
    }
}
