//! Resident pages: copies of pages that searches read, kept while the accountant has room.
//!
//! Admission is first come, first kept: the pages around the entry points are read by every
//! search and so are among the first. Nothing is evicted. A resident page is borrowed without
//! a lock.
#![expect(unsafe_code, reason = "frames are written once by one thread, then read by many")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::io::AlignedBuf;
use crate::memory::{Accountant, OverLimit, Pool, Reservation};
use crate::types::PageId;

const ABSENT: u32 = u32::MAX;
const FILLING: u32 = u32::MAX - 1;

/// See the module's description.
///
/// Invariant: a frame's number is published in `frame_of` after its bytes were written, and the
/// bytes are never written again.
pub(super) struct PageCache {
    frames: AlignedBuf,
    page_bytes: usize,
    frame_of: Box<[AtomicU32]>,
    capacity: u32,
    used: AtomicU32,
    _held: Reservation,
}

impl PageCache {
    /// A cache of up to `pages` of the index's `total` pages; `None` where none fits.
    pub(super) fn new(
        accountant: &Arc<Accountant>,
        page_bytes: usize,
        total: u32,
        pages: u32,
    ) -> Result<Option<Self>, OverLimit> {
        let pages = pages.min(total);
        if pages == 0 {
            return Ok(None);
        }
        let bytes = Self::bytes_for(page_bytes, total, pages);
        let held = accountant.reserve(Pool::PageCache, bytes)?;
        Ok(Some(Self {
            frames: AlignedBuf::zeroed(pages as usize * page_bytes),
            page_bytes,
            frame_of: (0..total).map(|_| AtomicU32::new(ABSENT)).collect(),
            capacity: pages,
            used: AtomicU32::new(0),
            _held: held,
        }))
    }

    /// Bytes that a cache of `pages` takes, its table over all `total` pages included.
    pub(super) fn bytes_for(page_bytes: usize, total: u32, pages: u32) -> u64 {
        pages as u64 * page_bytes as u64 + u64::from(total) * 4
    }

    /// Pages that fit into `bytes`.
    pub(super) fn pages_in(bytes: u64, page_bytes: usize, total: u32) -> u32 {
        let pages = bytes.saturating_sub(u64::from(total) * 4) / page_bytes as u64;
        u32::try_from(pages).unwrap_or(u32::MAX).min(total)
    }

    /// Pages held.
    pub(super) fn pages(&self) -> u32 {
        self.used.load(Ordering::Relaxed).min(self.capacity)
    }

    #[inline]
    pub(super) fn get(&self, page: PageId) -> Option<&[u8]> {
        let frame = self.frame_of.get(page.0 as usize)?.load(Ordering::Acquire);
        if frame >= FILLING {
            return None;
        }
        let at = frame as usize * self.page_bytes;
        // SAFETY: the frame's number was published after its bytes were written, and they are
        // not written again while the cache lives; `frame` is below the capacity allocated.
        Some(unsafe { std::slice::from_raw_parts(self.frames.as_ptr().add(at), self.page_bytes) })
    }

    /// Keeps a copy of a page where there is room.
    pub(super) fn admit(&self, page: PageId, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.page_bytes);
        if self.used.load(Ordering::Relaxed) >= self.capacity {
            return;
        }
        let Some(entry) = self.frame_of.get(page.0 as usize) else { return };
        let claimed =
            entry.compare_exchange(ABSENT, FILLING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !claimed {
            return;
        }
        let frame = self.used.fetch_add(1, Ordering::Relaxed);
        if frame >= self.capacity {
            self.used.fetch_sub(1, Ordering::Relaxed);
            entry.store(ABSENT, Ordering::Relaxed);
            return;
        }
        let at = frame as usize * self.page_bytes;
        // SAFETY: `frame` was handed to this thread alone and lies within the allocation; no
        // reader sees it before the store below.
        unsafe {
            let to = self.frames.as_ptr().add(at).cast_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, self.page_bytes);
        }
        entry.store(frame, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_fits_and_counts_it() {
        let accountant = Accountant::new(None);
        let cache = PageCache::new(&accountant, 4096, 10, 2).unwrap().unwrap();
        assert_eq!(accountant.pool_bytes(Pool::PageCache), 2 * 4096 + 40);
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
    fn readers_see_whole_pages_only() {
        let accountant = Accountant::new(None);
        let cache = PageCache::new(&accountant, 4096, 64, 64).unwrap().unwrap();
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
