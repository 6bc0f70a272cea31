//! The clock that a server of several goes by: its own, or the store's where that is far from it.
//!
//! What a leader puts is stamped by it, rows age by it, and so does the log that is kept for a time. A server
//! whose clock is a day ahead would have all of that a day early, and leave timestamps that no other
//! server's reach. The store is the one clock that all servers see: it is asked by an object that is put.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pipeann_db::catalog::UnixMs;
use pipeann_store::{ClusterStore, ObjectsError, ShardGenerations};

use crate::work::SHARD;

/// What a store rounds to, what a put takes, and what clocks that are kept right differ by.
const FAR_MS: i64 = 5_000;

type Clock = Arc<dyn Fn() -> UnixMs + Send + Sync>;

/// See the module's description.
pub(crate) struct StoreClock {
    own: Clock,
    /// What is added to the own one; 0 where that is right.
    behind_ms: AtomicI64,
}

impl StoreClock {
    pub(crate) fn new(own: Clock) -> Self {
        Self { own, behind_ms: AtomicI64::new(0) }
    }

    /// The time.
    pub(crate) fn now(&self) -> UnixMs {
        UnixMs((self.own)().0.saturating_add_signed(self.behind_ms.load(Ordering::Relaxed)))
    }

    /// Compares the own clock with that of the store. Until the store answers again, what was found before
    /// counts.
    pub(crate) fn look(&self, store: &ClusterStore) -> Result<(), ObjectsError> {
        let before = (self.own)().0;
        let store_ms = ShardGenerations::new(store, SHARD).time()?;
        // The store's time is one of those in between.
        let behind = behind(before, (self.own)().0, store_ms);
        let last = self.behind_ms.swap(behind, Ordering::Relaxed);
        if behind != 0 && behind.abs_diff(last) >= FAR_MS.unsigned_abs() {
            tracing::warn!(
                "this server's clock is {:.1} s {} the store's, whose time it goes by: set it right",
                behind.abs() as f64 / 1e3,
                if behind < 0 { "ahead of" } else { "behind" }
            );
        }
        Ok(())
    }
}

/// By how much a clock that showed `before` and then `after` is behind one that showed `other` in between;
/// 0 where that is little.
fn behind(before: u64, after: u64, other: u64) -> i64 {
    let by = |from: u64| i64::try_from(i128::from(other) - i128::from(from)).unwrap_or(i64::MAX);
    if by(after) > FAR_MS {
        by(after)
    } else if by(before) < -FAR_MS {
        by(before)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_clock_that_is_near_is_gone_by() {
        let day = 86_400_000;
        assert_eq!(behind(1_000, 1_200, 1_100), 0);
        assert_eq!(behind(6_000, 6_100, 1_000), 0, "it rounds to seconds");
        assert_eq!(behind(0, 30_000, 31_000), 0, "it has answered late");
        assert_eq!(behind(day, day + 10, 10_000), 10_000 - day as i64);
        assert_eq!(behind(10_000, 10_010, day), day as i64 - 10_010);
    }

    #[test]
    fn a_clock_that_is_far_from_the_store_is_set_right_until_it_is_near() {
        let home = tempfile::tempdir().unwrap();
        let url = format!("file://{}", home.path().display());
        let store = ClusterStore::open(&url, "test").unwrap();
        let true_ms = || ShardGenerations::new(&store, SHARD).time().unwrap();
        let shown = Arc::new(AtomicU64::new(true_ms() + 86_400_000));
        let hand = Arc::clone(&shown);
        let clock = StoreClock::new(Arc::new(move || UnixMs(hand.load(Ordering::Relaxed))));
        let far = |clock: &StoreClock| clock.now().0.abs_diff(true_ms());
        assert!(far(&clock) > 80_000_000, "nobody has looked");
        clock.look(&store).unwrap();
        assert!(far(&clock) < 60_000);
        shown.store(true_ms() - 3_600_000, Ordering::Relaxed);
        clock.look(&store).unwrap();
        assert!(far(&clock) < 60_000);
        let right = true_ms();
        shown.store(right, Ordering::Relaxed);
        clock.look(&store).unwrap();
        assert_eq!(clock.now(), UnixMs(right));
    }
}
