//! The pages of an index as a part of a memory limit that others share.
//!
//! An index that keeps as many pages as a limit leaves room for ([`Resident::Remaining`]) gives
//! them back when somebody else needs the memory, and gets more where its pages are used more than
//! those of others. Generations that follow each other are one holder: they share frames, and it
//! is the cache of the newest that lets go of them.
//!
//! [`Resident::Remaining`]: super::Resident::Remaining

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use super::cache::PageCache;
use super::dial::MemoryDial;
use super::pages::PageFiles;
use crate::memory::{Accountant, Elastic, Pool};

/// How long whoever needs memory waits for searches to let go of pages. Steps of searches take
/// microseconds; what takes longer is a search of an older generation, or the thread that waits.
const PATIENCE: Duration = Duration::from_millis(200);
/// Pages used between two looks at how memory is divided: so many for each that there is room for.
const USES: u64 = 2;
const LEAST_USES: u64 = 4096;

/// See the module's description.
struct SharedOpening {
    accountant: Arc<Accountant>,
    dial: MemoryDial,
    newest: Mutex<Weak<PageFiles>>,
    /// Pages used up to which memory is well divided.
    well_until: AtomicU64,
    /// Whether there is room since the last time that somebody asked.
    grown: AtomicBool,
}

impl SharedOpening {
    fn new(accountant: &Arc<Accountant>, dial: &MemoryDial, pages: Weak<PageFiles>) -> Arc<Self> {
        let share = Arc::new(Self {
            accountant: Arc::clone(accountant),
            dial: dial.clone(),
            newest: Mutex::new(pages),
            well_until: AtomicU64::new(LEAST_USES),
            grown: AtomicBool::new(false),
        });
        let holder: Weak<dyn Elastic> = Arc::downgrade(&(Arc::clone(&share) as Arc<dyn Elastic>));
        accountant.add_elastic(holder);
        share
    }

    /// Has memory divided anew now and then, as pages are used. To be called when a search ends,
    /// waits for nobody; true where there is room for further pages since the last time.
    fn note(&self) -> bool {
        let used = self.dial.pages_used();
        if used >= self.well_until.load(Relaxed)
            && let Some(newest) = self.newest_at_once()
        {
            let granted = |pages: Arc<PageFiles>| pages.cache.get().map_or(0, PageCache::granted);
            let room = newest.upgrade().map_or(0, granted);
            drop(newest);
            let after = (USES * u64::from(room)).max(LEAST_USES);
            self.well_until.store(used + after, Relaxed);
            self.accountant.balance_behind();
        }
        self.grown.load(Relaxed) && self.grown.swap(false, Relaxed)
    }

    /// For a search, which may have a lease: whoever holds this may wait for that.
    fn newest_at_once(&self) -> Option<MutexGuard<'_, Weak<PageFiles>>> {
        match self.newest.try_lock() {
            Ok(newest) => Some(newest),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn with<R>(&self, look: impl FnOnce(&PageFiles) -> R) -> Option<R> {
        let newest = lock(&self.newest);
        newest.upgrade().map(|pages| look(&pages))
    }

    /// As [`with`](Self::with), alone among those who change how much memory the pages have; not
    /// where somebody else takes long.
    fn alone<R>(&self, change: impl FnOnce(&PageFiles) -> R) -> Option<R> {
        self.with(|pages| {
            let _alone = self.dial.change_alone_within(PATIENCE)?;
            Some(change(pages))
        })?
    }
}

/// An open index as a holder of pages. When this is dropped, nobody looks at its pages any more.
pub(super) struct Membership {
    share: Arc<SharedOpening>,
    pages: Weak<PageFiles>,
}

impl Membership {
    /// Registers the pages of an index that was opened.
    pub(super) fn new(
        accountant: &Arc<Accountant>,
        dial: &MemoryDial,
        pages: &Arc<PageFiles>,
    ) -> Self {
        let pages = Arc::downgrade(pages);
        Self { share: SharedOpening::new(accountant, dial, pages.clone()), pages }
    }

    /// The same for the generation that follows.
    pub(super) fn follow(&self, pages: &Arc<PageFiles>) -> Self {
        let (share, pages) = (Arc::clone(&self.share), Arc::downgrade(pages));
        *lock(&share.newest) = pages.clone();
        Self { share, pages }
    }

    /// As [`SharedOpening::note`].
    pub(super) fn note(&self) -> bool {
        self.share.note()
    }

    /// The room that [`note`](Self::note) has told of is still to be looked at.
    pub(super) fn note_again(&self) {
        self.share.grown.store(true, Relaxed);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut newest = lock(&self.share.newest);
        if newest.ptr_eq(&self.pages) {
            *newest = Weak::new();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Elastic for SharedOpening {
    fn held_bytes(&self) -> u64 {
        let held = |pages: &PageFiles| {
            let granted = pages.cache.get().map_or(0, PageCache::granted);
            u64::from(granted) * pages.layout.page_bytes() as u64
        };
        self.with(held).unwrap_or(0)
    }

    fn wanted_bytes(&self) -> u64 {
        let wanted = |pages: &PageFiles| {
            let most = pages.cache.get().map_or(pages.here(), |c| c.room().min(pages.here()));
            u64::from(most) * pages.layout.page_bytes() as u64
        };
        self.with(wanted).unwrap_or(0)
    }

    fn leaves_bytes(&self) -> u64 {
        self.dial.leave_bytes()
    }

    fn uses(&self) -> u64 {
        self.dial.pages_used()
    }

    fn give_back(&self, bytes: u64) -> u64 {
        let give = |pages: &PageFiles| {
            let Some(cache) = pages.cache.get() else { return 0 };
            let page_bytes = pages.layout.page_bytes() as u64;
            let granted = cache.granted();
            let fewer = u32::try_from(bytes.div_ceil(page_bytes)).unwrap_or(u32::MAX);
            let done = cache.shrink(granted.saturating_sub(fewer), Some(PATIENCE));
            if done { u64::from(granted - cache.granted()) * page_bytes } else { 0 }
        };
        self.alone(give).unwrap_or(0)
    }

    fn take(&self, bytes: u64) {
        let take = |pages: &PageFiles| {
            let page_bytes = pages.layout.page_bytes();
            let Some(cache) = pages.cache.get() else {
                return pages.make_cache(&self.accountant, bytes);
            };
            let missing = u64::from(cache.room().min(pages.here()).saturating_sub(cache.granted()));
            let more = (bytes / page_bytes as u64).min(missing) * page_bytes as u64;
            match self.accountant.reserve_free(Pool::PageCache, more) {
                Ok(held) if more > 0 => {
                    cache.grow(held);
                    true
                }
                _ => false,
            }
        };
        if self.alone(take) == Some(true) {
            self.grown.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::open_options::OpenOptions;
    use crate::search::SearchStats;

    #[test]
    fn a_search_that_ends_does_not_wait_for_pages_that_give_way() {
        let (accountant, dial) = (Accountant::new(None), MemoryDial::new(&OpenOptions::default()));
        let share = SharedOpening::new(&accountant, &dial, Weak::new());
        dial.note(&SearchStats { reads: LEAST_USES, ..SearchStats::default() });
        // As whoever takes pages back does while he waits for searches to let go of them.
        let giving = lock(&share.newest);
        assert!(!share.note());
        assert_eq!(share.well_until.load(Relaxed), LEAST_USES, "the next one looks");
        drop(giving);
        assert!(!share.note());
        assert_eq!(share.well_until.load(Relaxed), 2 * LEAST_USES);
    }
}
