//! An index on disk, opened for searching.
//!
//! Ties the rooms together: the manifest and its files become the resident parts of a
//! [`GraphView`], pages are found through the page map, and queries run on drivers that are kept
//! for reuse. An open index holds its files open, so it keeps answering from the generation that
//! it opened when a build replaces the directory. Opening reads whole only the page map, the head
//! index and checksums; codes stream in beside that and behind the first searches.

mod access_frequency;
mod ahead;
mod batch;
mod cache;
mod code_reads;
mod code_stream;
mod codes;
mod dial;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod frames;
mod live;
mod next_generation;
mod open;
mod open_options;
mod page_stats;
mod pages;
mod part;
mod rows;
mod share;
mod standing;
mod tombstones;
mod verify;
mod warming;

#[cfg(test)]
mod tests;

pub(crate) use batch::check_vector;
pub use batch::{Answer, BatchOptions, Cursor};
pub use error::{OpenError, QueryError};
pub(crate) use next_generation::{SuccessorMemory, SuccessorSize};
pub(crate) use open::{check_built, read_manifest};
pub use open_options::{OpenOptions, Resident};
pub use page_stats::PageStats;
pub use standing::StandingError;
pub use verify::{Damage, VerifyReport};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::format::{Manifest, RecordLayout};
use crate::graph::HeadIndex;
use crate::io::{Backend, Device, IoError};
use crate::memory::{Accountant, Pool, Reservation};
use crate::quant::Codebook;
use crate::search::{
    AllPages, CodeAccess, ConcurrentLoad, Driver, EpochGuard, GraphView, Origin, Overlay,
    PageSource, ReadCosts, ReadFailure, SearchError, SearchStats, UnderWay,
};
use crate::types::{Metric, NodeId, PageId};

use cache::PageCache;
use code_stream::CodeStream;
use codes::StreamedCodes;
use dial::MemoryDial;
use pages::PageFiles;
use share::Membership;
use tombstones::Tombstones;
use warming::Warming;

/// See the module's description. Shared between threads by reference.
pub struct Index {
    path: PathBuf,
    manifest: Manifest,
    codebook: Codebook,
    codes: Arc<StreamedCodes>,
    head: Option<Arc<HeadIndex>>,
    pages: Arc<PageFiles>,
    dial: MemoryDial,
    /// Where pages give way to others under the limit.
    share: Option<Membership>,
    tombstones: Option<Tombstones>,
    sqpoll: bool,
    drivers: Mutex<Vec<Driver>>,
    costs: Arc<ReadCosts>,
    load: ConcurrentLoad,
    accountant: Arc<Accountant>,
    opened_by: u32,
    warming: Warming,
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

    /// What a search that comes from elsewhere has to be of.
    pub fn origin(&self) -> Origin {
        let Manifest { uuid, generation, codebook_version, .. } = self.manifest;
        Origin { uuid, generation, codebook: codebook_version }
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
        self.pages.cache.get().map_or(0, PageCache::pages)
    }

    /// Number of logical pages.
    pub fn pages(&self) -> u32 {
        self.pages.count
    }

    /// Waits until all codes are in memory.
    ///
    /// # Errors
    /// [`QueryError`] where a block of codes cannot be read, which need not be its fault.
    pub fn wait_resident(&self) -> Result<(), QueryError> {
        if self.codes.wait_streamed() {
            return Ok(());
        }
        let nodes: Vec<u32> = (0..self.node_slots()).collect();
        for some in nodes.chunks(1 << 16) {
            self.codes.ensure(some).map_err(SearchError::from)?;
        }
        Ok(())
    }

    /// The backend that pages are read through.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.pages.backend
    }

    pub(super) fn node_slots(&self) -> u32 {
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

    /// Checks a page that was read. Beside [`accept`](PageSource::accept) for those who go through
    /// pages once, none of which is worth keeping.
    ///
    /// # Errors
    /// What is wrong with the page, with file and page number.
    pub fn check(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.pages.check(page, bytes)
    }

    /// A page that is in memory, for who is no search.
    pub(crate) fn page_held<'p>(
        &'p self,
        lease: &'p EpochGuard<'_>,
        page: PageId,
    ) -> Option<&'p [u8]> {
        self.pages.cache.get()?.get(lease, page)
    }

    /// Counts a use of a page that was not asked for one by one.
    pub(crate) fn page_used(&self, page: PageId) {
        if let Some(cache) = self.pages.cache.get() {
            cache.heat().touch(page);
        }
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
            head: self.head.as_deref(),
            entry: self.manifest.entries.first().copied().unwrap_or(NodeId(0)),
            node_slots: self.node_slots(),
            codes_per_read: self.costs.codes_per_read(),
            searches: self.load.searches(),
            alone: self.load.alone(),
            share: self.load.share(),
            pages: None,
            overlay: self.tombstones.as_ref().map(|t| t as &dyn Overlay),
            owned: self.pages.owned.as_ref(),
            home: self.pages.home.as_ref(),
            origin: self.origin(),
        }
    }

    #[inline]
    fn locate(&self, page: PageId) -> (&Device, u64) {
        self.pages.locate(page)
    }

    fn page_bytes(&self) -> usize {
        self.layout().page_bytes()
    }

    fn lease(&self, holder: usize) -> EpochGuard<'_> {
        self.pages.cache.get().map_or(EpochGuard::none(), |cache| cache.lease(holder))
    }

    fn all_pages<'p>(&'p self, lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        self.pages.cache.get()?.all(lease)
    }

    #[inline]
    fn resident<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]> {
        let cache = self.pages.cache.get()?;
        cache.heat().touch(page);
        cache.get(lease, page)
    }

    #[inline]
    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure> {
        self.check(page, bytes)?;
        if let Some(cache) = self.pages.cache.get() {
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
        if let Some(share) = &self.share
            && share.note()
            && !self.warming.wake_at_once()
        {
            share.note_again();
        }
        if let Some(cache) = self.pages.cache.get() {
            cache.heat().passed(stats.reads + stats.resident_pages);
        }
    }

    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure {
        self.pages.describe(page, error)
    }
}
