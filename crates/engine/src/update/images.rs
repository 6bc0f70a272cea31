//! Page images at hand: those that one search has read, and a small cache for work that goes
//! through the pages in order.

use std::sync::Arc;

use super::error::UpdateError;
use super::page_table::PageTable;
use crate::format::RecordLayout;
use crate::index::Index;
use crate::io::{Completion, Queue, QueueOptions, Wait};
use crate::memory::{Accountant, Pool, Reservation};
use crate::search::{EpochGuard, PageSource, SearchError};
use crate::types::PageId;

/// Images of pages of the generation on disk. They have passed their checksums.
pub(super) trait Images {
    /// The image of `page`, where it is at hand.
    fn image(&self, page: PageId) -> Option<&[u8]>;
}

/// Some images, and beside them the pages that are in memory.
pub(super) struct WithResident<'a> {
    images: &'a dyn Images,
    index: &'a Index,
    lease: EpochGuard<'a>,
}

impl<'a> WithResident<'a> {
    pub(super) fn new(images: &'a dyn Images, index: &'a Index) -> Self {
        Self { images, index, lease: index.lease(0) }
    }
}

impl Images for WithResident<'_> {
    fn image(&self, page: PageId) -> Option<&[u8]> {
        self.images.image(page).or_else(|| self.index.page_held(&self.lease, page))
    }
}

/// The pages that a search has looked at, with copies of them. Kept for reuse.
#[derive(Default)]
pub(super) struct SeenPages {
    /// Where the copy of a page begins.
    at: PageTable<usize>,
    pages: Vec<PageId>,
    bytes: Vec<u8>,
    page_bytes: usize,
}

impl SeenPages {
    pub(super) fn clear(&mut self, page_bytes: usize) {
        self.at.clear();
        self.pages.clear();
        self.bytes.clear();
        self.page_bytes = page_bytes;
    }

    /// Notes a page that needs no copy.
    pub(super) fn note(&mut self, page: PageId) {
        if !self.pages.contains(&page) {
            self.pages.push(page);
        }
    }

    /// Keeps a copy of a page.
    pub(super) fn add(&mut self, page: PageId, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.page_bytes, "a whole page");
        if self.at.contains_key(&page.0) {
            return;
        }
        self.note(page);
        self.at.insert(page.0, self.bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Pages in the order in which they were looked at first.
    pub(super) fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

impl Images for SeenPages {
    fn image(&self, page: PageId) -> Option<&[u8]> {
        let &at = self.at.get(&page.0)?;
        Some(&self.bytes[at..at + self.page_bytes])
    }
}

/// Memory for scratch of upkeep, counted by the accountant while this lives: as much as is wanted,
/// but under a limit a small part of it and of what is left. What is done with less is slower.
pub(super) struct Spare {
    bytes: usize,
    _held: Option<Reservation>,
}

impl Spare {
    /// The parts of a limit, and of what is free of it, that are taken at most.
    const SHARE_OF_LIMIT: u64 = 16;
    const SHARE_OF_FREE: u64 = 4;
    /// So much is taken in any case, and not counted.
    const LEAST: u64 = 1 << 20;

    pub(super) fn take(accountant: &Arc<Accountant>, wanted: usize) -> Self {
        let share = accountant.limit_bytes().map_or(u64::MAX, |limit| {
            (limit / Self::SHARE_OF_LIMIT).min(accountant.available_bytes() / Self::SHARE_OF_FREE)
        });
        let bytes = share.min(wanted as u64);
        if bytes > Self::LEAST
            && let Ok(held) = accountant.reserve(Pool::Pending, bytes)
        {
            return Self { bytes: bytes as usize, _held: Some(held) };
        }
        Self { bytes: Self::LEAST as usize, _held: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Reads pages in batches and remembers the last ones: the two halves of the cache take turns,
/// and what was not asked for since the last turn is dropped.
pub(super) struct PageReader {
    queue: Box<dyn Queue>,
    recent: PageTable<Box<[u8]>>,
    older: PageTable<Box<[u8]>>,
    half: usize,
    depth: usize,
    page_bytes: usize,
    reads: u64,
}

/// Reads in flight of a [`PageReader`].
const DEPTH: usize = 64;

impl PageReader {
    /// A reader that remembers up to `cache_bytes` of pages, a few at least.
    pub(super) fn new(index: &Index, cache_bytes: usize) -> Result<Self, UpdateError> {
        let page_bytes = RecordLayout::page_bytes(index.layout());
        let queue = index.backend().queue(&QueueOptions {
            depth: DEPTH,
            buffers: DEPTH,
            buffer_bytes: page_bytes,
            sqpoll: false,
            wait: Wait::Sleep,
        })?;
        let half = (cache_bytes / page_bytes / 2).max(256);
        let (recent, older) = (PageTable::default(), PageTable::default());
        Ok(Self { queue, recent, older, half, depth: DEPTH, page_bytes, reads: 0 })
    }

    /// Pages read so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads
    }

    /// Brings `pages` to hand, as many of them as the cache holds in one turn; later ones are
    /// left out. Those that are in memory are copied, since they need not stay there.
    ///
    /// # Errors
    /// A page that cannot be read or is damaged.
    pub(super) fn load(&mut self, index: &Index, pages: &[PageId]) -> Result<(), UpdateError> {
        if self.recent.len() + pages.len() > self.half {
            self.older = std::mem::take(&mut self.recent);
        }
        let lease = index.lease(0);
        let mut missing = Vec::new();
        for &page in pages.iter().take(self.half) {
            if page.0 >= index.pages() || self.recent.contains_key(&page.0) {
                continue;
            }
            let resident = || index.page_held(&lease, page).map(Box::from);
            match self.older.remove(&page.0).or_else(resident) {
                Some(image) => drop(self.recent.insert(page.0, image)),
                None => missing.push(page),
            }
        }
        drop(lease);
        missing.sort_unstable();
        missing.dedup();
        self.read(index, &missing)
    }

    fn read(&mut self, index: &Index, pages: &[PageId]) -> Result<(), UpdateError> {
        let mut rest = pages.iter();
        let mut completions: Vec<Completion> = Vec::with_capacity(self.depth);
        let mut failure = None;
        loop {
            while failure.is_none()
                && rest.len() > 0
                && let Some(buffer) = self.queue.take_buffer()
            {
                let &page = rest.next().expect("there is a rest");
                let (device, offset) = index.locate(page);
                let tag = u64::from(page.0);
                self.queue.push_read(device, offset, self.page_bytes, buffer, tag)?;
                self.reads += 1;
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            completions.clear();
            self.queue.wait(&mut completions)?;
            for done in &completions {
                let page = PageId(done.tag as u32);
                let bytes = self.queue.buffer(done.buffer);
                let outcome = match &done.result {
                    Ok(_) => index.check(page, bytes),
                    Err(e) => Err(index.describe(page, e)),
                };
                match outcome {
                    Ok(()) => drop(self.recent.insert(page.0, Box::from(bytes))),
                    Err(e) => failure = Some(SearchError::Unreadable(e)),
                }
                self.queue.return_buffer(done.buffer);
            }
        }
        failure.map_or(Ok(()), |e| Err(e.into()))
    }
}

impl Images for PageReader {
    fn image(&self, page: PageId) -> Option<&[u8]> {
        self.recent.get(&page.0).or_else(|| self.older.get(&page.0)).map(|image| &**image)
    }
}
