//! What a search may look at: the parts of an index that are in memory.

use super::epoch_guard::EpochGuard;
use super::overlay::Overlay;
use super::owned::{Origin, Owned};
use super::pace::PaceShare;
use super::read_failure::ReadFailure;
use crate::format::RecordLayout;
use crate::graph::HeadIndex;
use crate::quant::{Codebook, CodesView};
use crate::types::{Metric, NodeId, PageId};

/// Codes that could not be read or failed their checksum; names the file and the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("codes cannot be read: {0}")]
pub struct CodesUnavailable(pub ReadFailure);

/// Codes of all nodes, which may still be streaming in.
pub trait CodeAccess: Sync {
    /// All codes by node id. Those of a node may be read after [`ensure`](Self::ensure) of it.
    fn view(&self) -> CodesView<'_>;

    /// Returns when the codes of `nodes` are in memory. Costs a flag's test once all are.
    ///
    /// # Errors
    /// Why the codes cannot be had.
    fn ensure(&self, nodes: &[u32]) -> Result<(), CodesUnavailable>;

    /// Whether all codes are in memory.
    fn is_resident(&self) -> bool;
}

/// Pages of an index that are in memory.
pub trait ResidentPages: Sync {
    /// The bytes of a page, which have passed their checksum; `None` where it is not in memory.
    fn page<'p>(&'p self, lease: &'p EpochGuard<'_>, page: PageId) -> Option<&'p [u8]>;

    /// Told that a search explores a record of the page.
    fn used(&self, _page: PageId) {}
}

/// The pages of an index while all of them are in memory: none of them goes before the lease ends.
#[derive(Clone, Copy)]
pub struct AllPages<'a> {
    pages: &'a dyn ResidentPages,
    lease: &'a EpochGuard<'a>,
}

impl<'a> AllPages<'a> {
    /// `pages`, which hold every page while `lease` lasts.
    pub fn new(pages: &'a dyn ResidentPages, lease: &'a EpochGuard<'a>) -> Self {
        Self { pages, lease }
    }

    /// The bytes of a page; `None` beyond the last one.
    #[inline]
    pub fn page(&self, page: PageId) -> Option<&'a [u8]> {
        self.pages.page(self.lease, page)
    }

    /// As [`page`](Self::page), of a page of which a record is explored.
    #[inline]
    pub fn explored(&self, page: PageId) -> Option<&'a [u8]> {
        self.pages.used(page);
        self.page(page)
    }
}

/// The resident parts of one index.
#[derive(Clone, Copy)]
pub struct GraphView<'a> {
    /// How records lie in pages.
    pub layout: &'a RecordLayout,
    /// How vectors are compared.
    pub metric: Metric,
    /// What the codes mean.
    pub codebook: &'a Codebook,
    /// The codes.
    pub codes: &'a dyn CodeAccess,
    /// The head index, where there is one.
    pub head: Option<&'a HeadIndex>,
    /// Where a search begins without a head index.
    pub entry: NodeId,
    /// Ids below this are nodes.
    pub node_slots: u32,
    /// Codes that are ranked, one after the other, in the time that one page read takes.
    pub codes_per_read: u32,
    /// Searches of the index that are under way, with the one that is about to begin.
    pub searches: u32,
    /// Whether it is a single one, and none of the last ones found another when it began.
    pub alone: bool,
    /// What has been learnt of how many reads they keep in flight.
    pub share: PaceShare,
    /// The pages, where all of them are in memory.
    pub pages: Option<AllPages<'a>>,
    /// What has changed since the pages were written.
    pub overlay: Option<&'a dyn Overlay>,
    /// The pages that can be read here; all where there is none.
    pub owned: Option<&'a Owned>,
    /// Where several servers read all pages: those for which searches are to begin here.
    pub home: Option<&'a Owned>,
    /// What index this is.
    pub origin: Origin,
}

impl GraphView<'_> {
    /// The most neighbours of a node.
    #[inline]
    pub fn list_bound(&self) -> usize {
        self.layout.max_degree() + self.overlay.map_or(0, |overlay| overlay.slack())
    }

    /// Whether the row of `node` was deleted.
    #[inline]
    pub fn is_deleted(&self, node: NodeId) -> bool {
        self.overlay.is_some_and(|overlay| overlay.is_deleted(node))
    }

    /// Whether the page of a node can be read here.
    #[inline]
    pub(super) fn reads_here(&self, node: NodeId) -> bool {
        self.owned.is_none_or(|owned| owned.holds(self.layout.page_of(node)))
    }

    /// The end of the nodes from `node` on that can be read here one after the other; `None` where
    /// it cannot be.
    pub(super) fn nodes_here_until(&self, node: NodeId) -> Option<u32> {
        let Some(owned) = self.owned else { return Some(self.node_slots) };
        let page = self.layout.page_of(node);
        let last = owned.around(page)?.end - 1;
        let end = self.layout.node(PageId(last), 0).0;
        Some(end.saturating_add(self.layout.records_per_page() as u32).min(self.node_slots))
    }
}
