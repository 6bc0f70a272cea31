//! Which node ids are free, and which of them an insert takes.
//!
//! A node id is a page and a slot, so the choice of an id is the choice of the page that the
//! record will be read with: best one that a neighbour lies in. Where none of these has a free
//! slot, the row goes to a page behind the last one, as long as few slots are free on the whole;
//! else to one of the pages with free slots, the one whose first node is nearest. So rows which
//! lie together come to lie in one page, and the pages stay nearly full.
//!
//! Invariants: a slot is handed out once; slots of removed nodes are not free in the generation
//! that they were removed in, nor in a later one while searches of that one last: these look at
//! the codes of its nodes, which all generations share.

use std::sync::Weak;

use crate::format::RecordLayout;
use crate::types::{NodeId, PageId};

/// A page is added only while less than one slot in so many is free.
const FREE_SHARE: usize = 10;
/// Pages that are looked at for the nearest one.
const CANDIDATES: usize = 256;

/// See the module's description.
pub(super) struct Slots {
    layout: RecordLayout,
    /// Bit `i` of a page is set where slot `i` is free.
    free: Vec<u64>,
    free_slots: usize,
    /// No page beyond.
    limit_pages: usize,
    /// Where the look for pages with free slots goes on.
    cursor: usize,
    withheld: Vec<Withheld>,
}

/// Nodes whose slots become free with the end of an older generation, of which this is a token.
pub(super) type Withheld = (Weak<()>, Vec<NodeId>);

impl Slots {
    /// All slots of `pages` pages are free, but for those of `used`.
    pub(super) fn new(
        layout: RecordLayout,
        pages: u32,
        limit_pages: u32,
        used: impl Iterator<Item = NodeId>,
    ) -> Self {
        let all = Self::all(&layout);
        let mut free = vec![all; pages as usize];
        for node in used {
            free[layout.page_of(node).0 as usize] &= !(1 << layout.slot_of(node));
        }
        let free_slots = free.iter().map(|bits| bits.count_ones() as usize).sum();
        Self {
            layout,
            free,
            free_slots,
            limit_pages: limit_pages as usize,
            cursor: 0,
            withheld: Vec::new(),
        }
    }

    fn all(layout: &RecordLayout) -> u64 {
        u64::MAX >> (u64::BITS as usize - layout.records_per_page())
    }

    /// Keeps free slots back until the generations named have ended.
    pub(super) fn withhold(&mut self, withheld: Vec<Withheld>) {
        for node in withheld.iter().flat_map(|(_, nodes)| nodes) {
            self.take_exactly(*node);
        }
        self.withheld = withheld;
    }

    /// What is kept back still.
    pub(super) fn withheld(&self) -> Vec<Withheld> {
        self.withheld.clone()
    }

    fn release_withheld(&mut self) {
        if self.withheld.iter().any(|(generation, _)| generation.strong_count() == 0) {
            let (ended, lasting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.withheld)
                .into_iter()
                .partition(|(generation, _)| generation.strong_count() == 0);
            self.withheld = lasting;
            ended.iter().flat_map(|(_, nodes)| nodes).for_each(|&node| self.give_back(node));
        }
    }

    /// Pages so far.
    pub(super) fn pages(&self) -> u32 {
        self.free.len() as u32
    }

    /// Takes a free slot in the first page of `near` that has one, else in a page that is added,
    /// else in one that `nearest` chooses by the first nodes of some. `None`: no id is left.
    pub(super) fn take(
        &mut self,
        near: impl Iterator<Item = PageId>,
        nearest: impl FnOnce(&[u32]) -> usize,
    ) -> Option<NodeId> {
        self.release_withheld();
        for page in near {
            if self.free.get(page.0 as usize).is_some_and(|free| *free != 0) {
                return Some(self.take_in(page.0));
            }
        }
        let few = self.free_slots * FREE_SHARE <= self.free.len() * self.layout.records_per_page();
        if few && self.free.len() < self.limit_pages {
            self.add_page();
            return Some(self.take_in(self.free.len() as u32 - 1));
        }
        let pages = self.some_with_free_slots();
        if pages.is_empty() {
            return None;
        }
        let first = |&page: &u32| self.layout.node(PageId(page), 0).0;
        let firsts: Vec<u32> = pages.iter().map(first).collect();
        Some(self.take_in(pages[nearest(&firsts)]))
    }

    fn add_page(&mut self) {
        self.free.push(Self::all(&self.layout));
        self.free_slots += self.layout.records_per_page();
    }

    /// Some pages with free slots, others each time where there are many.
    fn some_with_free_slots(&mut self) -> Vec<u32> {
        let mut found = Vec::new();
        let count = self.free.len();
        let from = self.cursor;
        for at in (from..count).chain(0..from.min(count)) {
            if self.free[at] != 0 {
                found.push(at as u32);
                self.cursor = at + 1;
                if found.len() == CANDIDATES {
                    break;
                }
            }
        }
        found
    }

    fn take_in(&mut self, page: u32) -> NodeId {
        let free = &mut self.free[page as usize];
        let slot = free.trailing_zeros() as usize;
        *free &= *free - 1;
        self.free_slots -= 1;
        self.layout.node(PageId(page), slot)
    }

    /// Takes the slot of `node`, making pages up to its own. `Some(false)`: it was taken before.
    /// `None`: beyond the limit.
    pub(super) fn take_exactly(&mut self, node: NodeId) -> Option<bool> {
        self.release_withheld();
        let (page, slot) = (self.layout.page_of(node), self.layout.slot_of(node));
        if page.0 as usize >= self.limit_pages {
            return None;
        }
        while self.free.len() <= page.0 as usize {
            self.add_page();
        }
        let free = &mut self.free[page.0 as usize];
        let was_free = *free & 1 << slot != 0;
        *free &= !(1 << slot);
        self.free_slots -= usize::from(was_free);
        Some(was_free)
    }

    /// Whether the slot of `node` is taken, and not by what is kept back only.
    pub(super) fn is_taken(&self, node: NodeId) -> bool {
        let (page, slot) = (self.layout.page_of(node), self.layout.slot_of(node));
        let is_free = self.free.get(page.0 as usize).is_none_or(|free| free & 1 << slot != 0);
        !is_free && !self.withheld.iter().any(|(_, nodes)| nodes.contains(&node))
    }

    /// Gives back a slot that was taken and not used.
    pub(super) fn give_back(&mut self, node: NodeId) {
        self.free[self.layout.page_of(node).0 as usize] |= 1 << self.layout.slot_of(node);
        self.free_slots += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::VectorType;

    fn layout() -> RecordLayout {
        RecordLayout::choose(128, VectorType::U8, 64, 1000, 1.0).unwrap()
    }

    #[test]
    fn a_row_goes_to_the_page_of_a_neighbour_else_to_a_fresh_page() {
        let layout = layout();
        let per_page = layout.records_per_page();
        let used = (0..2 * per_page as u32).filter(|&n| n != 5 && n != per_page as u32).map(NodeId);
        let mut slots = Slots::new(layout, 2, 4, used);
        let near = || [PageId(1), PageId(0)].into_iter();
        assert_eq!(slots.take(near(), |_| 0), Some(NodeId(per_page as u32)));
        assert_eq!(slots.take(near(), |_| 0), Some(NodeId(5)));
        // No slot is free: a page is added, and filled before the next one is.
        assert_eq!(slots.take(near(), |_| 0), Some(layout.node(PageId(2), 0)));
        let chosen = slots.take(near(), |firsts| {
            assert_eq!(firsts, [layout.node(PageId(2), 0).0]);
            0
        });
        assert_eq!(chosen, Some(layout.node(PageId(2), 1)));
        for _ in 0..2 * per_page - 2 {
            assert!(slots.take(near(), |_| 0).is_some());
        }
        assert_eq!(slots.take(near(), |_| 0), None, "no page beyond the limit");
        slots.give_back(NodeId(5));
        assert_eq!(slots.take(std::iter::empty(), |_| 0), Some(NodeId(5)));
    }

    #[test]
    fn slots_of_an_older_generation_are_free_when_it_has_ended() {
        let layout = layout();
        let mut slots = Slots::new(layout, 1, 1, std::iter::empty());
        let all = layout.records_per_page();
        let older = Arc::new(());
        let nodes = (0..all as u32).map(NodeId).collect();
        slots.withhold(vec![(Arc::downgrade(&older), nodes)]);
        assert_eq!(slots.take(std::iter::empty(), |_| 0), None);
        assert_eq!(slots.withheld().len(), 1);
        assert!(!slots.is_taken(NodeId(0)), "nobody holds what is kept back");
        drop(older);
        assert_eq!(slots.take(std::iter::empty(), |_| 0), Some(NodeId(0)));
        assert_eq!((slots.withheld().len(), slots.free_slots), (0, all - 1));
    }

    #[test]
    fn a_named_slot_is_taken_once() {
        let layout = layout();
        let mut slots = Slots::new(layout, 1, 3, std::iter::empty());
        let node = layout.node(PageId(2), 1);
        assert!(!slots.is_taken(node), "its page is not there yet");
        assert_eq!(slots.take_exactly(node), Some(true));
        assert_eq!(slots.take_exactly(node), Some(false));
        assert!(slots.is_taken(node) && !slots.is_taken(layout.node(PageId(2), 0)));
        assert_eq!(slots.pages(), 3);
        assert_eq!(slots.take_exactly(layout.node(PageId(3), 0)), None);
    }
}
