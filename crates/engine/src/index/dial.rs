//! The memory dial of an open index: what its opening asked for, who changes how much memory pages
//! have, and how often searches found them there.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::open_options::{OpenOptions, Resident};
use crate::search::SearchStats;

/// Between two looks at whether others are done.
const PAUSE: Duration = Duration::from_micros(200);

/// How an index uses memory beyond its floor. Shared by successive generations.
#[derive(Clone)]
pub(super) struct MemoryDial(Arc<DialSettings>);

struct DialSettings {
    resident: Resident,
    leave_bytes: u64,
    /// Held by who changes how much memory pages have.
    changing: Mutex<()>,
    /// Whether pages are read ahead of searches.
    warm: bool,
    from_memory: AtomicU64,
    read: AtomicU64,
    warmed: AtomicU64,
}

impl MemoryDial {
    pub(super) fn new(options: &OpenOptions) -> Self {
        Self(Arc::new(DialSettings {
            resident: options.resident,
            leave_bytes: options.leave_bytes,
            changing: Mutex::default(),
            warm: options.warm,
            from_memory: AtomicU64::new(0),
            read: AtomicU64::new(0),
            warmed: AtomicU64::new(0),
        }))
    }

    /// Notes what a search that ended has used.
    pub(super) fn note(&self, stats: &SearchStats) {
        self.0.from_memory.fetch_add(stats.resident_pages, Relaxed);
        self.0.read.fetch_add(stats.reads, Relaxed);
    }

    /// Bytes of a limit that pages leave to others.
    pub(super) fn leave_bytes(&self) -> u64 {
        self.0.leave_bytes
    }

    /// Which pages the opening asked for.
    pub(super) fn resident(&self) -> Resident {
        self.0.resident
    }

    /// Keeps others from changing how much memory pages have.
    pub(super) fn change_alone(&self) -> MutexGuard<'_, ()> {
        self.0.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`change_alone`](Self::change_alone). `None` where one of them takes
    /// longer.
    pub(super) fn change_alone_within(&self, patience: Duration) -> Option<MutexGuard<'_, ()>> {
        let until = Instant::now() + patience;
        loop {
            match self.0.changing.try_lock() {
                Ok(alone) => return Some(alone),
                Err(TryLockError::Poisoned(e)) => return Some(e.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Pages that searches which ended have used.
    pub(super) fn pages_used(&self) -> u64 {
        self.pages_found() + self.pages_read()
    }

    /// Of these, pages that were in memory.
    pub(super) fn pages_found(&self) -> u64 {
        self.0.from_memory.load(Relaxed)
    }

    /// Of these, pages that were read.
    pub(super) fn pages_read(&self) -> u64 {
        self.0.read.load(Relaxed)
    }

    /// Pages that came into memory ahead of searches.
    pub(super) fn pages_warmed(&self) -> u64 {
        self.0.warmed.load(Relaxed)
    }

    /// Whether pages are read ahead of searches.
    pub(super) fn warms(&self) -> bool {
        self.0.warm
    }

    /// Notes a page that came into memory ahead of searches.
    pub(super) fn note_warmed(&self) {
        self.0.warmed.fetch_add(1, Relaxed);
    }
}
