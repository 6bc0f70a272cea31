//! Epoch guards: who borrows memory that may be given another use, and when none does any more.
//!
//! A search holds an [`EpochGuard`] for as long as it looks at resident pages: for a step or a few,
//! never while it waits for a read. Memory that nothing leads to any more is written again, or
//! given back, two epochs later: an epoch ends only when the guards of the one before it have
//! ended, so none is left that could have found the way to that memory. Taking a guard costs two
//! atomic operations, whatever number of pages is borrowed under it, and waits for nobody.
//!
//! The order of all operations is total (`SeqCst`). Whoever makes memory unreachable does so
//! before it asks for the epoch; whoever borrows has its guard before it looks for the memory.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

#[cfg(debug_assertions)]
thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread has a lease. Whoever waits for leases to end must not.
#[cfg(debug_assertions)]
pub(crate) fn has_lease() -> bool {
    HELD.get() > 0
}

/// Counters of leases. Threads share one rarely, so that they do not wait for its cache line.
const SHARDS: usize = 16;

/// Leases on one piece of memory.
#[derive(Debug, Default)]
pub struct EpochGuards {
    epoch: AtomicU64,
    /// By parity of the epoch in which they were taken.
    taken: [Shard; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU32; 2]);

impl EpochGuards {
    /// A lease for the thread or driver of this number.
    pub fn lease(&self, holder: usize) -> EpochGuard<'_> {
        let shard = &self.taken[holder % SHARDS].0;
        loop {
            let epoch = self.epoch.load(SeqCst);
            let taken = &shard[epoch as usize % 2];
            taken.fetch_add(1, SeqCst);
            let lease = EpochGuard { on: Some((self, taken)) };
            #[cfg(debug_assertions)]
            HELD.set(HELD.get() + 1);
            if self.epoch.load(SeqCst) == epoch {
                return lease;
            }
        }
    }

    /// The epoch now. What became unreachable before this call is borrowed by nobody from two
    /// epochs later on.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Begins the next epoch where no lease of the last one is left; returns the epoch then.
    pub fn advance(&self) -> u64 {
        let epoch = self.epoch.load(SeqCst);
        let before = (epoch as usize + 1) % 2;
        if self.taken.iter().all(|shard| shard.0[before].load(SeqCst) == 0) {
            // Where another thread was faster, its epoch will do.
            let _ = self.epoch.compare_exchange(epoch, epoch + 1, SeqCst, SeqCst);
        }
        self.epoch.load(SeqCst)
    }
}

/// While it lives, nothing borrowed under it is written or given back.
#[derive(Debug)]
pub struct EpochGuard<'a> {
    on: Option<(&'a EpochGuards, &'a AtomicU32)>,
}

impl EpochGuard<'_> {
    /// A lease on nothing, of which nothing can be borrowed that may be given another use.
    pub const fn none() -> Self {
        Self { on: None }
    }

    /// Whether this is a lease on the memory that `leases` are taken on.
    #[inline]
    pub fn is_on(&self, leases: &EpochGuards) -> bool {
        self.on.is_some_and(|(on, _)| std::ptr::eq(on, leases))
    }
}

impl Drop for EpochGuard<'_> {
    fn drop(&mut self) {
        if let Some((_, taken)) = self.on {
            taken.fetch_sub(1, SeqCst);
            #[cfg(debug_assertions)]
            HELD.set(HELD.get().checked_sub(1).expect("a lease ends on its thread"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_epochs_pass_only_when_all_leases_of_before_have_ended() {
        let leases = EpochGuards::default();
        let begun = leases.epoch();
        let (first, second) = (leases.lease(0), leases.lease(17));
        assert!(first.is_on(&leases) && !first.is_on(&EpochGuards::default()));
        for _ in 0..4 {
            leases.advance();
        }
        assert_eq!(leases.epoch(), begun + 1, "those of the epoch before have ended, these not");
        let later = leases.lease(0);
        drop(first);
        leases.advance();
        assert_eq!(leases.epoch(), begun + 1, "one is left");
        drop(second);
        leases.advance();
        assert_eq!(leases.epoch(), begun + 2, "a lease taken later does not count");
        leases.advance();
        assert_eq!(leases.epoch(), begun + 2);
        drop(later);
        leases.advance();
        assert_eq!(leases.epoch(), begun + 3);
    }

    #[test]
    fn a_lease_on_nothing_is_on_no_memory() {
        assert!(!EpochGuard::none().is_on(&EpochGuards::default()));
    }
}
