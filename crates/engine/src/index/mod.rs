//! An index on disk, opened for searching.
//!
//! Ties the rooms together: the manifest and its files become the resident parts of a
//! [`GraphView`], pages are found through the page map, and queries run on drivers that are kept
//! for reuse. An open index holds its files open, so it keeps answering from the generation that
//! it opened when a build replaces the directory. Opening reads whole only the page map, the head
//! index and checksums; codes stream in beside that and behind the first searches.

mod batch;
mod cache;
mod codes;
mod dial;
mod error;
mod frames;
mod heat;
mod live;
mod open;
mod rows;
mod succeed;
mod verify;

#[cfg(test)]
mod tests;

pub(crate) use batch::check_vector;
pub use batch::{Answer, BatchOptions, Cursor};
pub use dial::PageStats;
pub use error::{OpenError, QueryError};
pub(crate) use open::read_manifest;
pub use open::{OpenOptions, Resident};
pub(crate) use succeed::{SuccessorMemory, SuccessorSize, successor_floor};
pub use verify::{Damage, VerifyReport};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::format::{Identity, Manifest, RecordLayout, check_page};
use crate::graph::HeadIndex;
use crate::io::{Backend, Device, IoError};
use crate::memory::{Accountant, Pool, Reservation};
use crate::quant::Codebook;
use crate::search::{
    AllPages, CodeAccess, Driver, GraphView, Lease, Load, Overlay, PageSource, ReadCosts,
    ReadFailure, SearchStats, UnderWay,
};
use crate::types::{Metric, NodeId, PageId};

use cache::PageCache;
use codes::{CodeStream, StreamedCodes};
use dial::Dial;
use live::Tombstones;
use rows::RowMapFile;

/// The pages of one partition.
struct Partition {
    first_page: u32,
    /// Physical page of each logical page.
    page_map: Vec<u32>,
    device: Device,
    /// Node of each row; absent where row ids are node ids.
    row_map: Option<RowMapFile>,
    /// First physical page and path of each segment, for messages.
    segments: Vec<(u32, PathBuf)>,
}

/// See the module's description. Shared between threads by reference.
pub struct Index {
    path: PathBuf,
    manifest: Manifest,
    identity: Identity,
    codebook: Codebook,
    codes: Arc<StreamedCodes>,
    head: Option<HeadIndex>,
    partitions: Vec<Partition>,
    /// Made when there is memory for pages, at first or later.
    cache: OnceLock<PageCache>,
    dial: Dial,
    tombstones: Option<Tombstones>,
    backend: Arc<dyn Backend>,
    sqpoll: bool,
    drivers: Mutex<Vec<Driver>>,
    costs: Arc<ReadCosts>,
    load: Load,
    accountant: Arc<Accountant>,
    opened_by: u32,
    _stream: Option<CodeStream>,
    _held: Vec<Reservation>,
}

impl Index {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.manifest.rows
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.layout().dim()
    }

    /// How vectors are compared.
    pub fn metric(&self) -> Metric {
        self.manifest.metric
    }

    /// How records lie in pages.
    pub fn layout(&self) -> &RecordLayout {
        &self.manifest.layout
    }

    /// What the index consists of and how it was built.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What the codes in memory mean.
    pub fn codebook(&self) -> &Codebook {
        &self.codebook
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The accountant that this index reserves its memory from.
    pub fn accountant(&self) -> &Arc<Accountant> {
        &self.accountant
    }

    /// Bytes held by each pool of the accountant, over all indexes that share it.
    pub fn pools(&self) -> impl Iterator<Item = (Pool, u64)> + '_ {
        Pool::ALL.into_iter().map(|p| (p, self.accountant.pool_bytes(p)))
    }

    /// Pages held in memory.
    pub fn resident_pages(&self) -> u32 {
        self.cache.get().map_or(0, PageCache::pages)
    }

    /// Number of logical pages.
    pub fn pages(&self) -> u32 {
        u32::try_from(self.manifest.pages()).expect("checked when the manifest was decoded")
    }

    /// Waits until all codes are in memory.
    ///
    /// # Errors
    /// [`QueryError`] where a block of codes cannot be read.
    pub fn wait_resident(&self) -> Result<(), QueryError> {
        if self.codes.wait_streamed() {
            return Ok(());
        }
        let nodes: Vec<u32> = (0..self.node_slots()).collect();
        for some in nodes.chunks(1 << 16) {
            self.codes
                .ensure(some)
                .map_err(|e| crate::search::SearchError::Unreadable(e.to_string()))?;
        }
        Ok(())
    }

    /// The backend that pages are read through.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    fn node_slots(&self) -> u32 {
        u32::try_from(self.manifest.slots()).expect("checked when the manifest was decoded")
    }

    fn check_process(&self) -> Result<(), QueryError> {
        let here = std::process::id();
        if here == self.opened_by {
            Ok(())
        } else {
            Err(QueryError::Forked { opened_by: self.opened_by, here })
        }
    }

    fn partition_of(&self, page: PageId) -> &Partition {
        let at = self.partitions.partition_point(|p| p.first_page <= page.0) - 1;
        &self.partitions[at]
    }

    /// Checks a page that was read. Beside [`accept`](PageSource::accept) for those who go through
    /// pages once, none of which is worth keeping.
    ///
    /// # Errors
    /// What is wrong with the page, with file and page number.
    pub fn check(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        check_page(bytes, &self.identity, page).map_err(|e| {
            let (file, offset) = self.file_of(page);
            ReadFailure(format!("{} at byte {offset}: {e}", file.display()))
        })
    }

    /// A page that is in memory, for who is no search.
    pub(crate) fn page_held<'p>(&'p self, lease: &'p Lease<'_>, page: PageId) -> Option<&'p [u8]> {
        self.cache.get()?.get(lease, page)
    }

    /// Counts a use of a page that was not asked for one by one.
    pub(crate) fn page_used(&self, page: PageId) {
        if let Some(cache) = self.cache.get() {
            cache.heat().touch(page);
        }
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
        (path, u64::from(physical - first) * self.layout().page_bytes() as u64)
    }
}

impl PageSource for Index {
    #[inline]
    fn view(&self) -> GraphView<'_> {
        GraphView {
            layout: self.layout(),
            metric: self.manifest.metric,
            codebook: &self.codebook,
            codes: self.codes.as_ref(),
            head: self.head.as_ref(),
            entry: self.manifest.entries.first().copied().unwrap_or(NodeId(0)),
            node_slots: self.node_slots(),
            codes_per_read: self.costs.codes_per_read(),
            searches: self.load.searches(),
            pages: None,
            overlay: self.tombstones.as_ref().map(|t| t as &dyn Overlay),
        }
    }

    #[inline]
    fn locate(&self, page: PageId) -> (&Device, u64) {
        let (partition, physical) = self.physical(page);
        (&partition.device, u64::from(physical) * self.layout().page_bytes() as u64)
    }

    fn page_bytes(&self) -> usize {
        self.layout().page_bytes()
    }

    fn lease(&self, holder: usize) -> Lease<'_> {
        self.cache.get().map_or(Lease::none(), |cache| cache.lease(holder))
    }

    fn all_pages<'p>(&'p self, lease: &'p Lease<'_>) -> Option<AllPages<'p>> {
        self.cache.get()?.all(lease)
    }

    #[inline]
    fn resident<'p>(&'p self, lease: &'p Lease<'_>, page: PageId) -> Option<&'p [u8]> {
        let cache = self.cache.get()?;
        cache.heat().touch(page);
        cache.get(lease, page)
    }

    #[inline]
    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.check(page, bytes)?;
        if let Some(cache) = self.cache.get() {
            cache.admit(page, bytes);
        }
        Ok(())
    }

    fn begun(&self) -> Option<UnderWay> {
        Some(self.load.begin())
    }

    fn ended(&self, stats: &SearchStats, in_flight: usize) {
        self.costs.note(stats, in_flight);
        self.dial.note(stats);
        if let Some(cache) = self.cache.get() {
            cache.heat().passed(stats.reads + stats.resident_pages);
        }
    }

    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        let (file, offset) = self.file_of(page);
        ReadFailure(format!("{} at byte {offset}, page {}: {error}", file.display(), page.0))
    }
}
