//! An index as those who search it see it: what is in memory, where pages stand, and who is told
//! what of a search.

use super::epoch_guard::EpochGuard;
use super::load::UnderWay;
use super::read_failure::ReadFailure;
use super::stats::SearchStats;
use super::view::{AllPages, GraphView};
use crate::io::{Device, IoError};
use crate::types::PageId;

/// An index as the driver sees it.
pub trait PageSource: Sync {
    /// The resident parts, without the pages.
    fn view(&self) -> GraphView<'_>;

    /// Keeps resident pages where they are until it is dropped. `holder` is the number of a
    /// thread, or of something that one thread uses at a time. It is not held while a search
    /// waits.
    fn lease(&self, _holder: usize) -> EpochGuard<'_> {
        EpochGuard::none()
    }

    /// All pages, where every one of them is in memory.
    fn all_pages<'p>(&'p self, _lease: &'p EpochGuard<'_>) -> Option<AllPages<'p>> {
        None
    }

    /// Where a logical page stands: device and byte offset.
    fn locate(&self, page: PageId) -> (&Device, u64);

    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// A page that a search uses, where it is held in memory. It has passed its checksum then.
    fn resident<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]>;

    /// Checks a page just read, and may keep a copy of it in memory.
    ///
    /// # Errors
    /// What is wrong with the page, with file and page number.
    fn accept(&self, page: PageId, bytes: &[u8]) -> Result<(), ReadFailure>;

    /// Describes a failed read of a page with its file and page number.
    fn describe(&self, page: PageId, error: &IoError) -> ReadFailure;

    /// Told of each page that the query of a job is given, with its bytes.
    fn taken(&self, _job: usize, _page: PageId, _bytes: &[u8]) {}

    /// Told that a query begins; what is returned is dropped when it ends.
    fn begun(&self) -> Option<UnderWay> {
        None
    }

    /// Told what a query has cost when it ends, one of `in_flight` on its thread.
    fn ended(&self, _stats: &SearchStats, _in_flight: usize) {}
}

/// An index as it is seen until the driver waits.
pub(super) struct SeenIndex<'a> {
    pub(super) source: &'a dyn PageSource,
    pub(super) lease: &'a EpochGuard<'a>,
    pub(super) view: GraphView<'a>,
}

impl<'a> SeenIndex<'a> {
    #[inline]
    pub(super) fn of(source: &'a dyn PageSource, lease: &'a EpochGuard<'a>) -> Self {
        let view = GraphView { pages: source.all_pages(lease), ..source.view() };
        Self { source, lease, view }
    }
}
