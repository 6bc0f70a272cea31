//! Which threads of a pool cannot search.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many of the threads of a pool have no driver.
pub(super) struct Outage {
    threads: usize,
    without: AtomicUsize,
}

impl Outage {
    pub(super) fn none(threads: usize) -> Arc<Self> {
        Arc::new(Self { threads, without: AtomicUsize::new(0) })
    }

    pub(super) fn begin(&self) {
        self.without.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.without.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_whole(&self) -> bool {
        self.without.load(Ordering::SeqCst) == self.threads
    }
}
