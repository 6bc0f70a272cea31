//! The pages of an index: where each stands on disk, whether it is what it should be, and which
//! are in memory. Searches borrow them through the index; the thread that reads pages ahead of
//! searches has a share of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::cache::PageCache;
use super::error::OpenError;
use crate::format::{Identity, PartitionEntry, RecordLayout, check_page};
use crate::io::{Backend, Device, IoError, QueueOptions, Wait};
use crate::memory::Accountant;
use crate::search::{Owned, ReadFailure};
use crate::types::PageId;

/// The row map of one partition, open.
pub(super) struct RowMapFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// The pages of one partition.
pub(super) struct Partition {
    pub(super) first_page: u32,
    /// Physical page of each logical page.
    pub(super) page_map: Vec<u32>,
    pub(super) device: Device,
    /// Node of each row; absent where row ids are node ids.
    pub(super) row_map: Option<RowMapFile>,
    /// First physical page and path of each segment, for messages.
    pub(super) segments: Vec<(u32, PathBuf)>,
}

impl Partition {
    /// One that others hold.
    pub(super) fn elsewhere(entry: &PartitionEntry) -> Self {
        let (page_map, device, row_map, segments) =
            (Vec::new(), Device::new(Vec::new()), None, Vec::new());
        Self { first_page: entry.first_page, page_map, device, row_map, segments }
    }
}

/// See the module's description.
pub(super) struct PageFiles {
    pub(super) identity: Identity,
    pub(super) layout: RecordLayout,
    /// Logical pages.
    pub(super) count: u32,
    /// Those that can be read here; all where there is none.
    pub(super) owned: Option<Owned>,
    /// Those for which searches are to begin here; none where that does not matter.
    pub(super) home: Option<Owned>,
    pub(super) partitions: Vec<Partition>,
    /// Made when there is memory for pages, at first or later.
    pub(super) cache: OnceLock<PageCache>,
    pub(super) backend: Arc<dyn Backend>,
}

/// Reads in flight where all that is absent is read at once.
const LOAD_DEPTH: usize = 64;

impl PageFiles {
    /// Makes the cache, of as many pages as fit into so many bytes. Whether there are some, and it
    /// is there now.
    pub(super) fn make_cache(&self, accountant: &Arc<Accountant>, bytes: u64) -> bool {
        let page_bytes = self.layout.page_bytes();
        let pages = PageCache::pages_in(bytes, page_bytes, (self.count, self.here()));
        if pages == 0 {
            return false;
        }
        let made = PageCache::new(accountant, page_bytes, self.count, (pages, 0));
        made.is_ok_and(|cache| self.cache.set(cache).is_ok())
    }

    /// Number of pages that can be read here.
    pub(super) fn here(&self) -> u32 {
        let here = self.owned.as_ref().map_or(self.count.into(), Owned::pages);
        u32::try_from(here).expect("no more than there are pages")
    }

    /// Whether a page can be read here.
    pub(super) fn is_here(&self, page: u32) -> bool {
        self.owned.as_ref().map_or(page < self.count, |owned| owned.holds(PageId(page)))
    }

    /// The pages that can be read here.
    pub(super) fn all_here(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count).filter(|page| self.is_here(*page))
    }

    /// The partitions that can be read here.
    pub(super) fn partitions_here(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| self.is_here(partition.first_page))
    }

    fn partition_of(&self, page: PageId) -> &Partition {
        let at = self.partitions.partition_point(|p| p.first_page <= page.0) - 1;
        &self.partitions[at]
    }

    fn physical(&self, page: PageId) -> (&Partition, u32) {
        let partition = self.partition_of(page);
        (partition, partition.page_map[(page.0 - partition.first_page) as usize])
    }

    /// The file that holds a page and the page's offset in it, for messages.
    fn file_of(&self, page: PageId) -> (&Path, u64) {
        let (partition, physical) = self.physical(page);
        let at = partition.segments.partition_point(|(first, _)| *first <= physical).max(1) - 1;
        let (first, path) = &partition.segments[at];
        (path, u64::from(physical - first) * self.layout.page_bytes() as u64)
    }

    /// Device and byte offset of a page.
    #[inline]
    pub(super) fn locate(&self, page: PageId) -> (&Device, u64) {
        let (partition, physical) = self.physical(page);
        (&partition.device, u64::from(physical) * self.layout.page_bytes() as u64)
    }

    /// Checks a page that was read.
    pub(super) fn check(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        check_page(bytes, &self.identity, page).map_err(|e| {
            let (file, offset) = self.file_of(page);
            ReadFailure::damaged(format!("{} at byte {offset}: {e}", file.display()))
        })
    }

    /// Describes a failed read.
    pub(super) fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        let (file, offset) = self.file_of(page);
        let why = format!("{} at byte {offset}, page {}: {error}", file.display(), page.0);
        ReadFailure { why, fault: error.fault() }
    }

    /// How a queue is made that reads so many pages at a time.
    pub(super) fn queue_options(&self, depth: usize) -> QueueOptions {
        QueueOptions {
            depth,
            buffers: depth,
            buffer_bytes: self.layout.page_bytes(),
            sqpoll: false,
            wait: Wait::Sleep,
        }
    }

    /// Reads pages into the cache.
    ///
    /// # Errors
    /// The first page that cannot be read or is damaged.
    pub(super) fn load(&self, mut pages: impl Iterator<Item = u32>) -> Result<(), OpenError> {
        let page_bytes = self.layout.page_bytes();
        let mut queue = self.backend.queue(&self.queue_options(LOAD_DEPTH))?;
        let mut completions = Vec::with_capacity(LOAD_DEPTH);
        loop {
            while let Some(buffer) = queue.take_buffer() {
                let Some(page) = pages.next() else {
                    queue.return_buffer(buffer);
                    break;
                };
                let (device, offset) = self.locate(PageId(page));
                queue.push_read(device, offset, page_bytes, buffer, u64::from(page))?;
            }
            if queue.in_flight() == 0 {
                return Ok(());
            }
            completions.clear();
            queue.wait(&mut completions)?;
            for c in &completions {
                c.result.as_ref().map_err(Clone::clone)?;
                let page = PageId(c.tag as u32);
                let bytes = queue.buffer(c.buffer);
                self.check(page, bytes).map_err(|e| OpenError::Damaged(e.why))?;
                if let Some(cache) = self.cache.get() {
                    cache.load(page, bytes);
                }
                queue.return_buffer(c.buffer);
            }
        }
    }
}
