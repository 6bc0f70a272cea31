//! Searching without some pages: those of partitions that nobody can be asked for now.
//!
//! What lies there is passed over wherever a search would meet it: among its entries, among the
//! neighbours of a node, and where all allowed nodes are ranked. So no candidate is ever one that
//! nobody reads, the list is as long as it was asked for, and the search goes on through what is
//! left of the graph. Which pages those are is one of its parameters and travels in its state.
//!
//! Where all entries near the query are gone the head index is looked through for more of them; where
//! that has none, nodes from all over the index stand in.

use super::owned::Owned;
use super::params::SearchParams;
use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};
use crate::format::RecordLayout;
use crate::quant::score_many;
use crate::types::{NodeId, PageId};

/// Entries of the head index that are looked at for some that can be read.
const WIDEST_HEAD: usize = 1024;
/// Nodes from all over the index that stand in for entries.
const STAND_INS: u32 = 512;

impl Owned {
    /// Bytes of a range in a search's portable state.
    pub(super) const RANGE_BYTES: usize = 8;

    /// Appends the ranges, as first page and the one behind the last.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for pages in self.ranges() {
            out.extend(pages.start.to_le_bytes());
            out.extend(pages.end.to_le_bytes());
        }
    }

    /// Reads the ranges; `None` where they are not as [`encode`](Self::encode) writes them.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (pairs, rest) = bytes.as_chunks::<{ Self::RANGE_BYTES }>();
        let word = |pair: &[u8], at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| pair[at + i]));
        let ranges = pairs.iter().map(|pair| word(pair, 0)..word(pair, 4));
        let owned = Self::new(ranges.clone());
        // What is empty, touches or is out of order is no longer what it was.
        (rest.is_empty() && owned.ranges().iter().cloned().eq(ranges)).then_some(owned)
    }

    /// Whether the page of a node is one of these; quick where there are none.
    #[inline]
    pub(super) fn covers(&self, layout: &RecordLayout, node: NodeId) -> bool {
        !self.ranges().is_empty() && self.holds(layout.page_of(node))
    }
}

/// The longer list of entries to be asked of the head index, where too few of those that it gave can
/// be read; what cannot be is taken out.
pub(super) fn more_entries(
    seeds: &mut Vec<(f32, u32)>,
    params: &SearchParams,
    layout: &RecordLayout,
    list: usize,
) -> Option<usize> {
    if params.without.ranges().is_empty() {
        return None;
    }
    let all = seeds.len() < list || list >= WIDEST_HEAD;
    seeds.retain(|&(_, node)| !params.without.covers(layout, NodeId(node)));
    let enough = seeds.len() >= params.head_list;
    seeds.truncate(params.head_list);
    (!all && !enough).then(|| (4 * list).min(WIDEST_HEAD))
}

impl SearchState {
    /// Where no entry can be read: the nearest of some nodes from all over the index.
    pub(super) fn stand_in_entries(
        &mut self,
        view: &GraphView<'_>,
    ) -> Result<(), CodesUnavailable> {
        let without = &self.portable.params.without;
        if !self.derived.seeds.is_empty() || without.ranges().is_empty() {
            return Ok(());
        }
        let step = view.node_slots.div_ceil(STAND_INS).max(1) as usize;
        self.derived.fresh.clear();
        let nodes = (0..view.node_slots).step_by(step);
        self.derived.fresh.extend(nodes.filter(|node| !without.covers(view.layout, NodeId(*node))));
        if !view.codes.is_resident() {
            view.codes.ensure(&self.derived.fresh)?;
        }
        let scores = &mut self.derived.scores[..self.derived.fresh.len()];
        score_many(&self.derived.table, view.codes.view(), &self.derived.fresh, scores);
        self.portable.stats.code_distances += scores.len() as u64;
        self.derived.seeds.extend(scores.iter().copied().zip(self.derived.fresh.iter().copied()));
        self.derived.seeds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.derived.seeds.truncate(self.portable.params.head_list);
        Ok(())
    }

    /// The next node that a ranking may go on with: behind pages that nobody reads; `None` where
    /// there is none any more.
    pub(super) fn past_missing(&self, view: &GraphView<'_>, node: NodeId) -> Option<NodeId> {
        let Some(pages) = self.portable.params.without.around(view.layout.page_of(node)) else {
            return Some(node);
        };
        let last = view.layout.node(PageId(pages.end - 1), 0).0;
        let next = last.saturating_add(view.layout.records_per_page() as u32);
        (next < view.node_slots).then_some(NodeId(next))
    }

    /// The end of the nodes from `node` on, before `end`, that lie in front of pages that nobody reads.
    pub(super) fn until_missing(&self, view: &GraphView<'_>, node: NodeId, end: u32) -> u32 {
        let page = view.layout.page_of(node).0;
        let ahead = self.portable.params.without.ranges().iter().find(|pages| pages.start > page);
        ahead.map_or(end, |pages| view.layout.node(PageId(pages.start), 0).0.min(end))
    }
}
