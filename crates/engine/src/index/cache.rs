//! Resident pages: copies of pages that searches read, kept while the accountant has room.
//!
//! Admission is first come, first kept: the pages around the entry points are read by every
//! search and so are among the first. Nothing is evicted. A resident page is borrowed without
//! a lock.
//!
//! The generation that follows shares the frames of the pages that did not change: it takes no
//! memory of its own while searches of the one before end. A frame that no generation's cache
//! holds any more is free for another page.
#![expect(unsafe_code, reason = "frames are written by one thread, then read by many")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::io::AlignedBuf;
use crate::memory::{Accountant, OverLimit, Pool, Reservation};
use crate::search::ResidentPages;
use crate::types::PageId;

const ABSENT: u32 = u32::MAX;
const FILLING: u32 = u32::MAX - 1;

/// Memory for pages, shared by the caches of successive generations.
///
/// Invariant: a frame with a holder is not written; one without is free, or was handed out by
/// [`take`](Self::take) to a thread that makes its cache the first holder.
struct Frames {
    bytes: AlignedBuf,
    page_bytes: usize,
    /// Caches that hold a frame.
    holders: Box<[AtomicU32]>,
    /// Frames that were used and are free again.
    free: Mutex<Vec<u32>>,
    /// Frames from here on were never used.
    untouched: AtomicU32,
    /// Frames that memory is reserved for, at most as many as there are.
    granted: AtomicU32,
    held: Mutex<Vec<Reservation>>,
}

impl Frames {
    /// A frame that nobody holds.
    fn take(&self) -> Option<u32> {
        let granted = self.granted.load(Ordering::Relaxed);
        let next = |next: u32| (next < granted).then_some(next + 1);
        if let Ok(frame) = self.untouched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            return Some(frame);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn release(&self, frame: u32) {
        if self.holders[frame as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
        }
    }
}

/// The pages of one generation in memory.
///
/// Invariant: a frame's number is published in `frame_of` after its bytes were written, and the
/// bytes are not written again while this cache lives, which holds the frame.
pub(super) struct PageCache {
    frames: Arc<Frames>,
    frame_of: Box<[AtomicU32]>,
    pages: AtomicU32,
}

impl PageCache {
    /// A cache of up to `pages` of the index's `total` pages, with address space for `spare`
    /// more in later generations; `None` where none fits.
    pub(super) fn new(
        accountant: &Arc<Accountant>,
        page_bytes: usize,
        total: u32,
        (pages, spare): (u32, u32),
    ) -> Result<Option<Self>, OverLimit> {
        let pages = pages.min(total);
        if pages == 0 {
            return Ok(None);
        }
        let held =
            accountant.reserve(Pool::PageCache, Self::bytes_for(page_bytes, total, pages))?;
        let room = pages.saturating_add(spare);
        let frames = Frames {
            bytes: AlignedBuf::zeroed(room as usize * page_bytes),
            page_bytes,
            holders: (0..room).map(|_| AtomicU32::new(0)).collect(),
            free: Mutex::default(),
            untouched: AtomicU32::new(0),
            granted: AtomicU32::new(pages),
            held: Mutex::new(vec![held]),
        };
        Ok(Some(Self::over(Arc::new(frames), total)))
    }

    fn over(frames: Arc<Frames>, total: u32) -> Self {
        let frame_of = (0..total).map(|_| AtomicU32::new(ABSENT)).collect();
        Self { frames, frame_of, pages: AtomicU32::new(0) }
    }

    /// The cache of the generation that follows, of `total` pages, which shares the frames of
    /// the pages that are not `changed`. `granted` is memory for further pages.
    pub(super) fn successor(
        &self,
        total: u32,
        changed: &dyn Fn(PageId) -> bool,
        granted: Option<Reservation>,
    ) -> Self {
        let next = Self::over(Arc::clone(&self.frames), total);
        for (page, (here, there)) in (0..).zip(self.frame_of.iter().zip(&next.frame_of)) {
            let frame = here.load(Ordering::Acquire);
            if frame < FILLING && !changed(PageId(page)) {
                // This cache holds the frame, so that it does not become free meanwhile.
                self.frames.holders[frame as usize].fetch_add(1, Ordering::AcqRel);
                there.store(frame, Ordering::Release);
                next.pages.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(granted) = granted {
            let more = granted.bytes() / self.frames.page_bytes as u64;
            let room = self.frames.holders.len() as u64;
            let grow = |now: u32| Some((u64::from(now) + more).min(room) as u32);
            let grown = &self.frames.granted;
            let _ = grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
            self.frames.held.lock().unwrap_or_else(PoisonError::into_inner).push(granted);
        }
        next
    }

    /// Pages that memory is reserved for.
    pub(super) fn granted(&self) -> u32 {
        self.frames.granted.load(Ordering::Relaxed)
    }

    /// Bytes that a cache of `pages` takes, its table over all `total` pages included.
    pub(super) fn bytes_for(page_bytes: usize, total: u32, pages: u32) -> u64 {
        u64::from(pages) * (page_bytes as u64 + 4) + u64::from(total) * 4
    }

    /// Pages that fit into `bytes`.
    pub(super) fn pages_in(bytes: u64, page_bytes: usize, total: u32) -> u32 {
        let pages = bytes.saturating_sub(u64::from(total) * 4) / (page_bytes as u64 + 4);
        u32::try_from(pages).unwrap_or(u32::MAX).min(total)
    }

    /// Pages held.
    pub(super) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Relaxed)
    }

    /// The pages, where every one of them is held.
    #[inline]
    pub(super) fn whole(&self) -> Option<&dyn ResidentPages> {
        (self.pages() as usize == self.frame_of.len()).then_some(self as &dyn ResidentPages)
    }

    #[inline]
    pub(super) fn get(&self, page: PageId) -> Option<&[u8]> {
        let frame = self.frame_of.get(page.0 as usize)?.load(Ordering::Acquire);
        if frame >= FILLING {
            return None;
        }
        let at = frame as usize * self.frames.page_bytes;
        let bytes = self.frames.page_bytes;
        // SAFETY: the frame's number was published after its bytes were written, and they are
        // not written again while this cache, which holds the frame, lives; `frame` is one of
        // the frames allocated.
        Some(unsafe { std::slice::from_raw_parts(self.frames.bytes.as_ptr().add(at), bytes) })
    }

    /// Keeps a copy of a page where there is room.
    pub(super) fn admit(&self, page: PageId, bytes: &[u8]) {
        let frames = &self.frames;
        debug_assert_eq!(bytes.len(), frames.page_bytes);
        let Some(entry) = self.frame_of.get(page.0 as usize) else { return };
        if entry.load(Ordering::Relaxed) != ABSENT {
            return;
        }
        let claimed =
            entry.compare_exchange(ABSENT, FILLING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !claimed {
            return;
        }
        let Some(frame) = frames.take() else {
            entry.store(ABSENT, Ordering::Relaxed);
            return;
        };
        let at = frame as usize * frames.page_bytes;
        // SAFETY: `frame` was handed to this thread alone and lies within the allocation; no
        // reader sees it before the store below, and former ones have let go of it before it
        // became free.
        unsafe {
            let to = frames.bytes.as_ptr().add(at).cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, frames.page_bytes);
        }
        frames.holders[frame as usize].fetch_add(1, Ordering::AcqRel);
        self.pages.fetch_add(1, Ordering::Relaxed);
        entry.store(frame, Ordering::Release);
    }
}

impl ResidentPages for PageCache {
    #[inline]
    fn page(&self, page: PageId) -> Option<&[u8]> {
        self.get(page)
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        for entry in &mut self.frame_of {
            let frame = *entry.get_mut();
            if frame < FILLING {
                self.frames.release(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(accountant: &Arc<Accountant>, total: u32, pages: u32) -> PageCache {
        PageCache::new(accountant, 4096, total, (pages, 2)).unwrap().unwrap()
    }

    #[test]
    fn keeps_what_fits_and_counts_it() {
        let accountant = Accountant::new(None);
        let cache = cache(&accountant, 10, 2);
        assert_eq!(accountant.pool_bytes(Pool::PageCache), 2 * 4100 + 40);
        for page in 0..5 {
            cache.admit(PageId(page), &[page as u8 + 1; 4096]);
            cache.admit(PageId(page), &[99; 4096]);
        }
        assert_eq!(cache.pages(), 2);
        assert_eq!(cache.get(PageId(0)), Some(&[1; 4096][..]));
        assert_eq!(cache.get(PageId(1)), Some(&[2; 4096][..]));
        assert_eq!(cache.get(PageId(2)), None);
        assert_eq!(cache.get(PageId(1000)), None);
        drop(cache);
        assert_eq!(accountant.held_bytes(), 0);
    }

    #[test]
    fn a_successor_shares_what_did_not_change_and_takes_over_the_rest() {
        let accountant = Accountant::new(None);
        let old = cache(&accountant, 4, 3);
        (0..3).for_each(|page| old.admit(PageId(page), &[page as u8 + 1; 4096]));
        let granted = accountant.reserve(Pool::PageCache, 4096).unwrap();
        let next = old.successor(5, &|page| page.0 == 1, Some(granted));
        assert_eq!(next.get(PageId(0)).map(<[u8]>::as_ptr), old.get(PageId(0)).map(<[u8]>::as_ptr));
        assert_eq!((next.pages(), next.get(PageId(1))), (2, None));
        // The memory granted is for one page; the old generation still has its own.
        next.admit(PageId(4), &[40; 4096]);
        next.admit(PageId(1), &[20; 4096]);
        assert_eq!((next.get(PageId(4)), next.get(PageId(1))), (Some(&[40; 4096][..]), None));
        assert_eq!(old.get(PageId(1)), Some(&[2; 4096][..]));
        drop(old);
        next.admit(PageId(1), &[20; 4096]);
        assert_eq!(next.get(PageId(1)), Some(&[20; 4096][..]));
        assert_eq!(next.get(PageId(2)), Some(&[3; 4096][..]));
        drop(next);
        assert_eq!(accountant.held_bytes(), 0);
    }

    #[test]
    fn readers_see_whole_pages_only() {
        let accountant = Accountant::new(None);
        let cache = cache(&accountant, 64, 64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for page in 0..64 {
                        cache.admit(PageId(page), &[page as u8; 4096]);
                        if let Some(bytes) = cache.get(PageId(page)) {
                            assert!(bytes.iter().all(|&b| b == page as u8));
                        }
                    }
                });
            }
        });
        assert_eq!(cache.pages(), 64);
    }
}
