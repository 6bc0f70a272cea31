//! Making links again that were made before: what the log has of rows that came since the
//! generation on disk was written.
//!
//! A replay needs no search, and reads a page only where a list is full. What it finds is not quite
//! what was there when the link was made. Links of rows that were deleted since are not made again,
//! so that their nodes have no record: nothing is to lead there, since the next row may get the slot,
//! and its code. And lists are pruned with other vectors at hand, so that all of them may turn away
//! a node that one of them has kept then.
//!
//! Assumes that nothing is inserted meanwhile: it would take the slots of links to come.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::error::UpdateError;
use super::generation::Generation;
use super::images::{PageReader, WithResident};
use super::insert::{LinkedRow, check_row};
use crate::search::Overlay;
use crate::types::{NodeId, RowId};

/// Cached pages while links are made again, bytes.
pub(super) const REPLAY_CACHE_BYTES: usize = 8 << 20;

impl Generation {
    /// Makes a link again that was made before.
    pub(super) fn apply(&self, link: &LinkedRow, vector: &[u8]) -> Result<(), UpdateError> {
        let (row, node) = (link.row, link.node);
        check_row(row)?;
        match self.rows.get(row) {
            // At this node, or at the one that a rewrite has given it.
            Some(_) => return Ok(()),
            // The row was deleted after it was linked, and the node has not left the graph.
            None if self.is_deleted(node) => return Ok(()),
            None => {}
        }
        let (edges, back) = (self.recorded(&link.neighbours), self.recorded(&link.back_edges));
        let _beginning = edges.is_empty().then(|| self.one_beginning());
        let is_stray = edges.is_empty() && self.rows.any().is_some();
        if is_stray || edges.len() < link.neighbours.len() / 2 {
            return Err(UpdateError::Stray { row });
        }
        self.charge_record(back.len())?;
        self.take_named(row, node)
            .inspect_err(|_| self.patches.discharge(self.record_bytes(back.len())))?;
        self.publish(row, node, vector, &edges);
        self.lead_back(node, &edges, &back);
        if edges.is_empty() {
            self.entry.store(node.0, Ordering::Release);
            self.set_head(None);
        }
        self.note_linked(node);
        Ok(())
    }

    /// Those of some nodes that have a record.
    fn recorded(&self, nodes: &[NodeId]) -> Vec<u32> {
        let mut taken: Vec<u32> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().filter(|&&node| slots.is_taken(node)).map(|node| node.0).collect()
        };
        taken.retain(|&node| {
            let page = self.layout().page_of(NodeId(node));
            let patch = self.patches.get(page);
            let new = patch.as_ref().and_then(|p| p.slot(self.layout().slot_of(NodeId(node))));
            let is_on_disk = page.0 < self.index.pages();
            new.map_or(is_on_disk, |new| !new.removed && (is_on_disk || new.record.is_some()))
        });
        taken
    }

    /// Takes the slot that a link names for its row.
    fn take_named(&self, row: RowId, node: NodeId) -> Result<(), UpdateError> {
        let slots = || self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = slots().take_exactly(node);
        match taken {
            None => Err(UpdateError::Full { limit: self.layout().node_limit() }),
            Some(false) => Err(UpdateError::Link { row, node, why: "the node holds another row" }),
            Some(true) if self.rows.insert(row, node) => Ok(()),
            Some(true) => {
                slots().give_back(node);
                Err(UpdateError::RowExists(row))
            }
        }
    }

    /// Adds the edges `back` -> `node`, and sees to it that a live one leads there, or any one where
    /// no neighbour lives.
    fn lead_back(&self, node: NodeId, edges: &[u32], back: &[u32]) {
        let is_live = |n: u32| !self.is_deleted(NodeId(n));
        let (mut reader, mut is_found) = (None, false);
        for &from in back {
            is_found |= self.edge_again(NodeId(from), node, &mut reader) && is_live(from);
        }
        let nearest = edges.iter().copied().find(|&n| is_live(n)).or(edges.first().copied());
        if !is_found && let Some(from) = nearest {
            self.insist_on_edge(NodeId(from), node);
        }
    }

    /// Adds the edge `from` -> `to`; false where a prune turned it away.
    fn edge_again(&self, from: NodeId, to: NodeId, reader: &mut Option<PageReader>) -> bool {
        if !self.is_over(self.append_edge(from, to)) {
            return true;
        }
        if reader.is_none() {
            *reader = PageReader::new(&self.index, REPLAY_CACHE_BYTES).ok();
        }
        reader.as_mut().is_some_and(|reader| self.is_kept(from, to, reader))
    }

    /// Prunes a list that has grown past its bound; whether the edge `from` -> `to` stays. The row
    /// stands already, so that a page which cannot be read is left to the search that needs it.
    pub(super) fn is_kept(&self, from: NodeId, to: NodeId, reader: &mut PageReader) -> bool {
        if reader.load(&self.index, &[self.layout().page_of(from)]).is_err() {
            return false;
        }
        let edges = self.shrink(from, &WithResident::new(&*reader, &self.index));
        edges.is_some_and(|edges| edges.contains(&to.0))
    }
}
