//! Resident pages: copies of the pages that searches use most, as many as the accountant grants.
//!
//! While there is room, every page that a search reads stays. Then one stays only in place of a
//! cooler one ([`AccessFrequency`]), so that pages which many searches pass, as those around the entry points,
//! find their way in, and reads that do not come again push nothing out. Nobody waits for any of
//! it: where two threads would keep a page at once, one of them does not.
//!
//! The generation that follows shares the frames of the pages that did not change: it takes no
//! memory of its own while searches of the one before end. A frame that no generation's cache
//! leads to any more is free for another page.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::access_frequency::AccessFrequency;
use super::frames::{Frames, FreeFrames as FramePool};
use crate::memory::{Accountant, OverLimit, Pool, Reservation};
use crate::search::{AllPages, EpochGuard, ResidentPages};
use crate::types::PageId;

const ABSENT: u32 = u32::MAX;
const FILLING: u32 = u32::MAX - 1;

/// Resident pages that one which asks to stay is compared with, and how many pages are looked
/// through for them at most.
const COMPARED: usize = 8;
const LOOKED_AT: u32 = 1024;

/// Bytes for each page of the index: its frame and its heat; and for each frame, its holders.
const ENTRY_BYTES: u64 = 5;
const FRAME_BYTES: u64 = 4;

/// The pages of one generation in memory.
///
/// Invariant: a frame's number is published in `frame_of` after its bytes were written, and this
/// cache is one of the frame's holders while it leads there.
pub(super) struct PageCache {
    frames: Arc<Frames>,
    frame_of: Box<[AtomicU32]>,
    heat: AccessFrequency,
    /// Each is counted when it is in place: one that goes before that makes them fewer than none.
    pages: AtomicI64,
    /// Pages that had to make room for others.
    displaced: AtomicU64,
    /// How many are taking pages away: no search may rely on all of them then.
    shrinking: AtomicU32,
    _table: Option<Reservation>,
}

impl PageCache {
    /// A cache of up to `pages` of the index's `total` pages, with address space for all of them
    /// and `spare` more in later generations.
    pub(super) fn new(
        accountant: &Arc<Accountant>,
        page_bytes: usize,
        total: u32,
        (pages, spare): (u32, u32),
    ) -> Result<Self, OverLimit> {
        let pages = pages.min(total);
        let room = room(page_bytes, total.saturating_add(spare)).max(pages);
        let table = accountant.reserve_free(Pool::PageCache, Self::table_bytes(total, room))?;
        let bytes = u64::from(pages) * page_bytes as u64;
        let held = accountant.reserve_free(Pool::PageCache, bytes)?;
        let frames = Arc::new(Frames::new(page_bytes, pages, room, held));
        Ok(Self::over(frames, AccessFrequency::new(total), Some(table)))
    }

    fn over(frames: Arc<Frames>, heat: AccessFrequency, table: Option<Reservation>) -> Self {
        Self {
            frame_of: (0..heat.pages()).map(|_| AtomicU32::new(ABSENT)).collect(),
            frames,
            heat,
            pages: AtomicI64::new(0),
            displaced: AtomicU64::new(0),
            shrinking: AtomicU32::new(0),
            _table: table,
        }
    }

    /// The cache of the generation that follows, of `total` pages, which shares the frames of
    /// the pages that are not `changed`. `granted` is memory for further pages.
    pub(super) fn successor(
        &self,
        total: u32,
        changed: &dyn Fn(PageId) -> bool,
        granted: Option<Reservation>,
    ) -> Self {
        let next = Self::over(Arc::clone(&self.frames), self.heat.successor(total), None);
        {
            // No page goes meanwhile.
            let _pool = self.frames.pool();
            for (page, (here, there)) in (0..).zip(self.frame_of.iter().zip(&next.frame_of)) {
                let frame = here.load(Ordering::SeqCst);
                if frame < FILLING && !changed(PageId(page)) {
                    self.frames.share(frame);
                    there.store(frame, Ordering::SeqCst);
                    next.pages.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        if let Some(granted) = granted {
            next.grow(granted);
        }
        next
    }

    /// Has memory for more pages, as many as `granted` is for.
    pub(super) fn grow(&self, granted: Reservation) {
        let more = granted.bytes() / self.frames.page_bytes() as u64;
        self.frames.grow(u32::try_from(more).unwrap_or(u32::MAX), granted);
    }

    /// Keeps no more than `pages` and gives the memory of the others back. Waits for the steps of
    /// searches that are under way, as long as `patience` lasts. Whether it is done; else what was
    /// in memory may be gone, and its memory is kept for others.
    pub(super) fn shrink(&self, pages: u32, patience: Option<Duration>) -> bool {
        self.shrinking.fetch_add(1, Ordering::SeqCst);
        let done = self.frames.shrink(pages, patience, |pool| {
            for entry in &self.frame_of {
                let frame = entry.load(Ordering::SeqCst);
                if frame < FILLING && frame >= pages {
                    self.let_go(entry, frame, pool);
                }
            }
        });
        self.shrinking.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Pages that memory is reserved for.
    pub(super) fn granted(&self) -> u32 {
        self.frames.granted()
    }

    /// Pages that memory can be reserved for.
    pub(super) fn room(&self) -> u32 {
        self.frames.room()
    }

    /// Bytes of the tables of a cache over `total` pages, with frames for up to `room` of them.
    pub(super) fn table_bytes(total: u32, room: u32) -> u64 {
        u64::from(total) * ENTRY_BYTES + u64::from(room) * FRAME_BYTES
    }

    /// Bytes that a cache of `pages` takes, its tables over all `total` pages included.
    pub(super) fn bytes_for(page_bytes: usize, total: u32, pages: u32) -> u64 {
        u64::from(pages) * page_bytes as u64 + Self::table_bytes(total, total)
    }

    /// Pages that fit into `bytes`, of the `here` that can be read of all `total` ones.
    pub(super) fn pages_in(bytes: u64, page_bytes: usize, (total, here): (u32, u32)) -> u32 {
        let pages = bytes.saturating_sub(Self::table_bytes(total, total)) / page_bytes as u64;
        u32::try_from(pages).unwrap_or(u32::MAX).min(here)
    }

    /// Pages held.
    pub(super) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire).max(0) as u32
    }

    /// Pages that had to make room for others.
    pub(super) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    /// How much each page is used.
    #[inline]
    pub(super) fn heat(&self) -> &AccessFrequency {
        &self.heat
    }

    pub(super) fn lease(&self, holder: usize) -> EpochGuard<'_> {
        self.frames.leases().lease(holder)
    }

    /// Whether every page is held, and stays while a lease lasts that was taken before.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.pages() as usize == self.frame_of.len() && self.shrinking.load(Ordering::SeqCst) == 0
    }

    /// All pages, where every one of them is held.
    #[inline]
    pub(super) fn all<'p>(&'p self, lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        self.is_whole().then(|| AllPages::new(self, lease))
    }

    /// Whether a page is held at the moment.
    pub(super) fn holds(&self, page: PageId) -> bool {
        let entry = self.frame_of.get(page.0 as usize);
        entry.is_some_and(|frame| frame.load(Ordering::Relaxed) < FILLING)
    }

    #[inline]
    pub(super) fn get<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        let frame = self.frame_of.get(page.0 as usize)?.load(Ordering::SeqCst);
        if frame < FILLING { self.frames.read(lease, frame) } else { None }
    }

    /// Keeps a copy of a page where there is room, or in place of a page that is used less.
    pub(super) fn admit(&self, page: PageId, bytes: &[u8]) {
        self.put(page, bytes, || {
            let mut pool = self.frames.pool_at_once()?;
            self.place_for(page, &mut pool)
        });
    }

    /// As [`admit`](Self::admit), and waits for other threads that do so.
    pub(super) fn load(&self, page: PageId, bytes: &[u8]) {
        self.put(page, bytes, || self.place_for(page, &mut self.frames.pool()));
    }

    /// Keeps a copy of a page where there is room, and displaces none for it. Whether it is held
    /// then.
    pub(super) fn fill(&self, page: PageId, bytes: &[u8]) -> bool {
        self.put(page, bytes, || self.place_in_room(&mut self.frames.pool()));
        self.holds(page)
    }

    /// Whether there is room for a page without another one going for it, at once or as soon as
    /// nobody looks at what was there.
    pub(super) fn has_room(&self) -> bool {
        self.frames.pool().has_room(self.frame_of.len())
    }

    /// Waits until what pages have left is free for others.
    pub(super) fn settle(&self) {
        self.frames.wait_for_leases(None);
    }

    /// The same for so long at most; whether it is.
    pub(super) fn settle_within(&self, patience: Duration) -> bool {
        self.frames.wait_for_leases(Some(Instant::now() + patience))
    }

    /// Keeps a copy of a page in the frame that is found for it.
    fn put(&self, page: PageId, bytes: &[u8], place: impl FnOnce() -> Option<u32>) {
        let Some(entry) = self.frame_of.get(page.0 as usize) else { return };
        if entry.load(Ordering::Relaxed) != ABSENT {
            return;
        }
        // From here until the page is in place, memory does not shrink.
        let _lease = self.lease(page.0 as usize);
        let (was, now) = (Ordering::Relaxed, Ordering::Relaxed);
        if entry.compare_exchange(ABSENT, FILLING, was, now).is_err() {
            return;
        }
        match place() {
            Some(frame) => {
                self.frames.write(frame, bytes);
                entry.store(frame, Ordering::SeqCst);
                self.pages.fetch_add(1, Ordering::SeqCst);
            }
            None => entry.store(ABSENT, Ordering::Relaxed),
        }
    }

    /// A frame that no page has and none was promised.
    fn place_in_room(&self, pool: &mut FramePool) -> Option<u32> {
        if !pool.has_room(self.frame_of.len()) {
            return None;
        }
        pool.take_untouched().or_else(|| pool.take_free(self.frames.leases()))
    }

    /// A frame for a page; `None` where all are better used.
    fn place_for(&self, page: PageId, pool: &mut FramePool) -> Option<u32> {
        if let Some(frame) = pool.take_untouched() {
            return Some(frame);
        }
        let room_for_all = pool.granted() as usize >= self.frame_of.len();
        let free = pool.take_free(self.frames.leases());
        if free.is_some() && (room_for_all || !pool.is_short()) {
            return free;
        }
        // A page that goes makes room a moment later: when nobody can be looking at it any more.
        // Until then the room of one that went before is used, if there is some.
        let may_go = free.is_some() || pool.may_float() && !room_for_all;
        let heat = self.heat.of(page);
        let cooler = if may_go { self.cooler_than(heat, &mut pool.hand) } else { None };
        match (cooler, free) {
            (Some((entry, frame)), free) => {
                self.let_go(entry, frame, pool);
                self.displaced.fetch_add(1, Ordering::Relaxed);
                pool.note_displaced(free.is_some());
                free
            }
            (None, Some(frame)) => {
                pool.put_back(frame);
                None
            }
            (None, None) => None,
        }
    }

    /// The coolest of some pages, if it is cooler than `heat`.
    fn cooler_than(&self, heat: u8, hand: &mut u32) -> Option<(&AtomicU32, u32)> {
        let total = self.frame_of.len() as u32;
        let (mut coolest, mut limit, mut compared) = (None, heat, 0);
        for _ in 0..total.min(LOOKED_AT) {
            *hand = if *hand + 1 < total { *hand + 1 } else { 0 };
            let entry = &self.frame_of[*hand as usize];
            let frame = entry.load(Ordering::Relaxed);
            // What an older generation holds as well makes no room.
            if frame >= FILLING || self.frames.is_shared(frame) {
                continue;
            }
            let its = self.heat.of(PageId(*hand));
            if its < limit {
                (coolest, limit) = (Some((entry, frame)), its);
            }
            compared += 1;
            if compared == COMPARED {
                break;
            }
        }
        coolest
    }

    /// Leads to a page no more. The pool is locked, so no other thread does so too.
    fn let_go(&self, entry: &AtomicU32, frame: u32, pool: &mut FramePool) {
        entry.store(ABSENT, Ordering::SeqCst);
        self.pages.fetch_sub(1, Ordering::Relaxed);
        self.frames.release(frame, pool);
    }
}

/// Frames of an index of so many pages: no more than the machine has memory for.
fn room(page_bytes: usize, pages: u32) -> u32 {
    let most = crate::memory::physical_bytes() / page_bytes as u64;
    pages.min(u32::try_from(most).unwrap_or(u32::MAX))
}

impl ResidentPages for PageCache {
    #[inline]
    fn page<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        self.get(lease, page)
    }

    #[inline]
    fn used(&self, page: PageId) {
        self.heat.touch(page);
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let mut pool = self.frames.pool();
        for entry in &mut self.frame_of {
            let frame = *entry.get_mut();
            if frame < FILLING {
                self.frames.release(frame, &mut pool);
            }
        }
    }
}

#[cfg(test)]
mod tests;
