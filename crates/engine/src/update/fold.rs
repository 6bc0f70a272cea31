//! Folding: what is new in a page becomes part of its image on disk.
//!
//! A list in memory may be longer than a record has room for; here it is pruned to fit, with the
//! vectors of the pages at hand. Pages are folded in layout order, so that most neighbours lie in
//! pages folded just before.

use std::sync::atomic::Ordering;

use super::choose::EdgePool;
use super::error::UpdateError;
use super::generation::Generation;
use super::images::{Images, PageReader};
use crate::format::PageWriter;
use crate::types::{NodeId, PageId, RowId};

/// Folds the patch of a page into its image.
pub(super) struct Fold<'a> {
    pub(super) generation: &'a Generation,
    pub(super) reader: &'a mut PageReader,
    /// The new generation.
    pub(super) number: u64,
    /// Whether vectors that are not at hand are read.
    pub(super) exact: bool,
    /// Lists pruned so far.
    pub(super) pruned: u64,
}

impl Fold<'_> {
    /// Makes the new image of `page`.
    pub(super) fn page(&mut self, page: PageId, out: &mut [u8]) -> Result<(), UpdateError> {
        let (generation, layout) = (self.generation, *self.generation.layout());
        self.reader.load(&generation.index, &[page])?;
        let slots = generation.node_slots.load(Ordering::Acquire);
        let mut records: Vec<(usize, RowId, Vec<u8>, Vec<u32>)> = Vec::new();
        {
            let view = generation.records(&*self.reader, page).expect("the page was loaded");
            let mut occupied = view.occupied();
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                let own = layout.node(page, slot).0;
                let (mut edges, mut all) = (Vec::new(), Vec::new());
                view.neighbours_into(slot, &mut all);
                for n in all.into_iter().filter(|&n| n != own && n < slots) {
                    if !edges.contains(&n) && !generation.is_removed(NodeId(n)) {
                        edges.push(n);
                    }
                }
                records.push((slot, view.row_id(slot), view.vector(slot).to_vec(), edges));
            }
        }
        let full = |edges: &Vec<u32>| edges.len() > layout.max_degree();
        if self.exact {
            let wanted = records.iter().filter(|r| full(&r.3)).flat_map(|r| r.3.iter());
            generation.load_nodes(self.reader, wanted)?;
        }
        let mut writer = PageWriter::new(&layout, out);
        for (slot, row, vector, edges) in &records {
            if full(edges) {
                let own = layout.node(page, *slot);
                self.pruned += 1;
                let edges = pruned(generation, &*self.reader, own, vector, edges);
                writer.put(*slot, vector, *row, &edges);
            } else {
                writer.put(*slot, vector, *row, edges);
            }
        }
        writer.seal(&generation.index.identity(), page, self.number);
        Ok(())
    }
}

/// The edges of `node` among `candidates`, by exact vectors where they are at hand.
pub(super) fn pruned(
    generation: &Generation,
    images: &dyn Images,
    node: NodeId,
    vector: &[u8],
    candidates: &[u32],
) -> Vec<u32> {
    let mut pool = EdgePool::new(candidates.len(), vector.len());
    pool.push(node.0, |out| out.extend_from_slice(vector));
    for &n in candidates {
        pool.push(n, |out| generation.vector_into(images, NodeId(n), out));
    }
    pool.choose(generation.index.metric(), generation.vector_type(), generation.rule()).edges
}
