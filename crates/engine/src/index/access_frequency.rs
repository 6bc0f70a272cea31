//! Access frequency: how much each page is used, in counts that are halved now and then, so that
//! what was used much long ago makes room.
//!
//! A byte a page, of all pages, resident or not: a page that is read again and again is known for
//! it when it asks to stay. Counts of threads that meet may get lost, since a lost one changes
//! nothing and the line of a counter is not fought over; a full one is not written any more.
//!
//! All counts are halved at the same moment, or those of pages that were halved early would look
//! cooler than others. It is done for a few pages at a time when one of them is looked at, so that
//! no search does all of it.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::types::PageId;

/// See the module's description.
pub(super) struct AccessFrequency {
    counts: Box<[AtomicU8]>,
    /// How often the counts of so many pages were halved.
    halved: Box<[AtomicU32]>,
    /// How often they are to be.
    halvings: AtomicU32,
    /// Uses of pages in all.
    uses: AtomicU64,
}

/// Uses for each page of the index between two halvings.
const USES_PER_PAGE: u64 = 16;
/// Pages whose counts are halved in one go.
const TOGETHER: usize = 512;

impl AccessFrequency {
    pub(super) fn new(pages: u32) -> Self {
        let pages = pages as usize;
        Self {
            counts: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            halved: (0..pages.div_ceil(TOGETHER)).map(|_| AtomicU32::new(0)).collect(),
            halvings: AtomicU32::new(0),
            uses: AtomicU64::new(0),
        }
    }

    /// Pages that are counted.
    pub(super) fn pages(&self) -> u32 {
        self.counts.len() as u32
    }

    /// The heat of the generation that follows, in which pages have the numbers they had.
    pub(super) fn successor(&self, pages: u32) -> Self {
        let next = Self::new(pages);
        for (page, count) in (0..).zip(&next.counts) {
            count.store(self.of(PageId(page)), Relaxed);
        }
        next
    }

    /// Counts a use of a page.
    #[inline]
    pub(super) fn touch(&self, page: PageId) {
        let now = self.of(page);
        if now < u8::MAX
            && let Some(count) = self.counts.get(page.0 as usize)
        {
            count.store(now + 1, Relaxed);
        }
    }

    /// Uses of a page, of late.
    #[inline]
    pub(super) fn of(&self, page: PageId) -> u8 {
        let Some(count) = self.counts.get(page.0 as usize) else { return 0 };
        let (halved, due) = (&self.halved[page.0 as usize / TOGETHER], self.halvings.load(Relaxed));
        let done = halved.load(Relaxed);
        if done != due && halved.compare_exchange(done, due, Relaxed, Relaxed).is_ok() {
            self.halve(page.0 as usize / TOGETHER, due.wrapping_sub(done));
        }
        count.load(Relaxed)
    }

    #[cold]
    fn halve(&self, which: usize, times: u32) {
        let from = which * TOGETHER;
        for count in self.counts.iter().skip(from).take(TOGETHER) {
            count.store(count.load(Relaxed).checked_shr(times).unwrap_or(0), Relaxed);
        }
    }

    /// Told that pages were used so many times.
    pub(super) fn passed(&self, uses: u64) {
        let period = (self.counts.len() as u64 * USES_PER_PAGE).max(1);
        let before = self.uses.fetch_add(uses, Relaxed);
        let (had, has) = (before / period, (before + uses) / period);
        if has > had {
            self.halvings.fetch_add((has - had) as u32, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(heat: &AccessFrequency) -> [u8; 4] {
        [0, 1, 600, 9999].map(|page| heat.of(PageId(page)))
    }

    #[test]
    fn counts_stop_at_the_most_they_hold_and_are_halved_together() {
        let heat = AccessFrequency::new(1000);
        (0..300).for_each(|_| heat.touch(PageId(1)));
        (0..9).for_each(|_| heat.touch(PageId(600)));
        heat.touch(PageId(9999));
        assert_eq!(all(&heat), [0, 255, 9, 0]);
        heat.passed(1000 * USES_PER_PAGE - 1);
        assert_eq!(all(&heat), [0, 255, 9, 0]);
        heat.passed(1);
        assert_eq!(all(&heat), [0, 127, 4, 0]);
        heat.touch(PageId(600));
        heat.passed(2000 * USES_PER_PAGE);
        assert_eq!(all(&heat), [0, 31, 1, 0]);
        assert_eq!(heat.successor(2).of(PageId(1)), 31);
    }

    #[test]
    fn after_a_long_time_nothing_is_left() {
        let heat = AccessFrequency::new(3);
        (0..200).for_each(|_| heat.touch(PageId(2)));
        heat.passed(1000 * USES_PER_PAGE);
        assert_eq!(heat.of(PageId(2)), 0);
    }
}
