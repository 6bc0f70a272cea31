//! Which pages of an open index are in memory, how many a limit leaves room for, and what happens
//! when it is changed while searches run.

use std::time::Duration;

use super::Index;
use super::cache::PageCache;
use super::open_options::Resident;
use crate::memory::{OverLimit, Pool};

/// Which pages are in memory, and how much that saves. Counts are those of all searches since the
/// index was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Pages of the index.
    pub pages: u32,
    /// Pages in memory.
    pub resident: u32,
    /// Pages that memory is reserved for.
    pub room: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages that made room for others which are used more.
    pub displaced: u64,
    /// Pages that searches found in memory.
    pub from_memory: u64,
    /// Pages that searches read.
    pub read: u64,
    /// Pages that came into memory ahead of searches.
    pub warmed: u64,
    /// Whether more are coming.
    pub warming: bool,
    /// Pages that could not be read ahead of searches; one that needs them says why.
    pub unreadable: u32,
}

impl PageStats {
    /// Bytes of the pages in memory.
    pub fn resident_bytes(&self) -> u64 {
        u64::from(self.resident) * self.page_bytes
    }

    /// The share of the pages which searches used that was in memory; `None` before the first.
    pub fn share_from_memory(&self) -> Option<f64> {
        let uses = self.from_memory + self.read;
        (uses > 0).then(|| self.from_memory as f64 / uses as f64)
    }
}

impl Index {
    /// Which pages are in memory, and how many were found there.
    pub fn page_stats(&self) -> PageStats {
        let cache = self.pages.cache.get();
        PageStats {
            pages: self.pages(),
            resident: self.resident_pages(),
            room: cache.map_or(0, PageCache::granted),
            page_bytes: self.layout().page_bytes() as u64,
            displaced: cache.map_or(0, PageCache::displaced),
            from_memory: self.dial.pages_found(),
            read: self.dial.pages_read(),
            warmed: self.dial.pages_warmed(),
            warming: self.warming.is_under_way(),
            unreadable: self.warming.unreadable(),
        }
    }

    /// Waits until no page is being read ahead of searches: all are in memory then that can be,
    /// or there is no room for more. False where that takes longer than `at_most`.
    pub fn wait_warm(&self, at_most: Duration) -> bool {
        self.warming.wait(at_most)
    }

    /// Pages that a limit of so many bytes would leave room for, were this index alone under it.
    pub fn pages_under(&self, limit_bytes: u64) -> u32 {
        let free = limit_bytes.saturating_sub(self.floor().total());
        let shape = (self.pages(), self.pages.here());
        PageCache::pages_in(free, self.layout().page_bytes(), shape)
    }

    /// The least limit in bytes under which every page stays in memory.
    pub fn bytes_for_all_pages(&self) -> u64 {
        let page_bytes = self.layout().page_bytes();
        let (pages, here) = (self.pages(), self.pages.here());
        self.floor().total() + PageCache::bytes_for(page_bytes, pages, here)
    }

    /// Changes the limit of the accountant, for all that share it, and fits the pages of this
    /// index to it while searches go on. A lower limit gives pages back, and has done so when this
    /// returns; under a higher one the pages that searches read stay from now on. `None` lifts the
    /// limit: what is in memory stays, and more comes only where the index was opened to hold all.
    /// Where there is room, absent pages are read behind this, unless the index was opened without
    /// [`warm`](super::OpenOptions::warm).
    ///
    /// Waits for the steps under way of searches, so it is not called from within one's answer.
    ///
    /// # Errors
    /// [`OverLimit`], with the number needed, where the limit is below what is held beside the
    /// pages of this index. The limit stays as it was then.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) -> Result<(), OverLimit> {
        // Who divides memory just now knows the limit of before.
        let _undivided = self.accountant.keep_divided();
        let _alone = self.dial.change_alone();
        let page_bytes = self.layout().page_bytes() as u64;
        let granted = self.pages.cache.get().map_or(0, PageCache::granted);
        let beside = self.accountant.held_bytes() - u64::from(granted) * page_bytes;
        if let Some(limit_bytes) = limit_bytes
            && limit_bytes < beside
        {
            let floor = self.floor().total().min(beside);
            let (asked_bytes, held_bytes) = (floor, beside - floor);
            return Err(OverLimit { pool: Pool::Codes, asked_bytes, held_bytes, limit_bytes });
        }
        self.accountant.set_limit_bytes(limit_bytes);
        let room = self.pages.cache.get().map_or(u32::MAX, PageCache::room);
        let all = u64::from(self.pages.here().min(room));
        let wanted = match self.accountant.limit_bytes() {
            None if self.dial.resident() == Resident::All => all,
            None => u64::from(granted),
            Some(limit_bytes) => {
                let free = limit_bytes.saturating_sub(beside);
                free.saturating_sub(self.dial.leave_bytes()) / page_bytes
            }
        };
        let wanted = u32::try_from(wanted.min(all)).unwrap_or(u32::MAX);
        match self.pages.cache.get() {
            Some(cache) if wanted < granted => {
                cache.shrink(wanted, None);
            }
            Some(cache) if wanted > granted => {
                let more = u64::from(wanted - granted) * page_bytes;
                // Where somebody else was faster, it is as if the limit were lower.
                if let Ok(held) = self.accountant.reserve_free(Pool::PageCache, more) {
                    cache.grow(held);
                }
            }
            Some(_) => {}
            // Where the first limit left no room for pages, or there was none.
            None if self.accountant.limit_bytes().is_some() => {
                let free = self.accountant.free_bytes().saturating_sub(self.dial.leave_bytes());
                self.pages.make_cache(&self.accountant, free);
            }
            None => {}
        }
        self.warming.wake();
        Ok(())
    }
}
