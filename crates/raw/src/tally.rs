//! Falling asleep without losing a wake-up.
//!
//! What one side does for the other is counted. Who wants to sleep says up to which count, looks at
//! the count once more, and only then sleeps; who counts looks afterwards whether somebody sleeps.
//! Between their two steps both have a sequentially consistent fence, so at least one of the two sees
//! the other. A sleeper
//! may ask for several things at once, so that it is not woken for each.

use super::sync::{AtomicU64, Ordering, fence};

/// Nobody sleeps.
const AWAKE: u64 = u64::MAX;

/// See the module's description. One side sleeps, any number of others count.
#[derive(Debug)]
pub(crate) struct OpTally {
    count: AtomicU64,
    /// The count from which on the sleeper is to be woken.
    wake_at: AtomicU64,
}

impl OpTally {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0), wake_at: AtomicU64::new(AWAKE) }
    }

    /// Counts what was done, after it was done. Whether the sleeper has to be woken; who is told so
    /// has to do it, since others are not told any more.
    pub(crate) fn add(&self, done: u64) -> bool {
        let count = self.count.fetch_add(done, Ordering::AcqRel) + done;
        fence(Ordering::SeqCst);
        let due = count >= self.wake_at.load(Ordering::Relaxed);
        if due {
            // It may want to sleep until later already: it is woken then, and says so again.
            self.wake_at.store(AWAKE, Ordering::Relaxed);
        }
        due
    }

    /// What was counted so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Sleeps unless the count has reached `until`. `sleep` may end early.
    pub(crate) fn rest(&self, until: u64, sleep: impl FnOnce()) {
        self.wake_at.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.count() < until {
            sleep();
        }
        self.wake_at.store(AWAKE, Ordering::Relaxed);
    }
}
