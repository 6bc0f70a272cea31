//! What a live index lays over the pages on disk: new records, further edges, deleted nodes.
//!
//! Pages of a generation never change. An index that takes inserts keeps what is new in
//! [`PagePatch`]es in memory, and the state machine reads a page together with its patch through
//! [`PageRecords`](super::PageRecords). A patch is a value behind an `Arc`: a search takes the one that is current
//! when the page arrives and never sees a later change of it, so no record is torn.
//!
//! Invariant: the slots of a patch are in ascending order, each once.

use std::sync::Arc;

use crate::types::{NodeId, PageId, RowId};

/// Changes of an index since its generation was written.
pub trait Overlay: Sync {
    /// What is new in `page`, if anything is.
    fn patch(&self, page: PageId) -> Option<Arc<PagePatch>>;

    /// Whether the row of `node` was deleted: the node is traversed, but not answered.
    fn is_deleted(&self, node: NodeId) -> bool;

    /// Edges that a node may have beyond the layout's maximum degree until they are folded.
    fn slack(&self) -> usize {
        0
    }
}

/// A record that is not on disk yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Row of the node.
    pub row: RowId,
    /// Its vector's bytes.
    pub vector: Box<[u8]>,
}

/// Edges of a node in a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Beside those of the record on disk.
    Added(Vec<u32>),
    /// In place of those of the record on disk.
    Replaced(Vec<u32>),
}

/// What is new about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPatch {
    /// The record, where the slot on disk holds none.
    pub record: Option<NewRecord>,
    /// Edges.
    pub edges: Edges,
    /// Whether the node left the graph: nothing leads to it, and its slot is free in the next
    /// generation.
    pub removed: bool,
}

impl Default for SlotPatch {
    fn default() -> Self {
        Self { record: None, edges: Edges::Added(Vec::new()), removed: false }
    }
}

/// What is new in one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagePatch {
    slots: Vec<(u8, Arc<SlotPatch>)>,
}

impl PagePatch {
    /// What is new in `slot`.
    pub fn slot(&self, slot: usize) -> Option<&SlotPatch> {
        let at = self.slots.binary_search_by_key(&slot, |s| usize::from(s.0)).ok()?;
        Some(&self.slots[at].1)
    }

    /// What is new in `slot`, to be changed; made where there was nothing. Copies what a search
    /// still looks at.
    pub fn slot_mut(&mut self, slot: usize) -> &mut SlotPatch {
        let at = match self.slots.binary_search_by_key(&slot, |s| usize::from(s.0)) {
            Ok(at) => at,
            Err(at) => {
                self.slots.insert(at, (slot as u8, Arc::default()));
                at
            }
        };
        Arc::make_mut(&mut self.slots[at].1)
    }

    /// All slots with something new.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &SlotPatch)> {
        self.slots.iter().map(|(slot, patch)| (usize::from(*slot), &**patch))
    }
}
