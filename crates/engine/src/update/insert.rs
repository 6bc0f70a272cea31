//! Linking one row into the graph, by a search.
//!
//! The search for neighbours reads pages anyway, and every record in them has an exact vector:
//! the edges of the new node are chosen from these. The node takes a slot in the page of a
//! neighbour where one is free. Its neighbours get an edge back, in memory; a list that grows
//! past its bound is pruned, with the exact vectors of the pages that were read and what the
//! codes stand for elsewhere, so that an insert reads nothing beyond its search (the paper of
//! direct inserts prunes by codes alone).

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::choose::EdgePool;
use super::error::UpdateError;
use super::generation::{Generation, slack};
use super::images::{Images, PageReader, SeenPages, WithResident};
use crate::distance::QueryDistance;
use crate::format::constants::ROW_ID_LIMIT;
use crate::quant::{LookupTable, most_lost, score_many};
use crate::search::{Edges, NewRecord, Overlay, PageSource};
use crate::types::{NodeId, RowId, fit_squared_norm};

/// How a row was linked: what the log stores, so that a replay needs no search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedRow {
    /// The node that holds the row.
    pub node: NodeId,
    /// The row.
    pub row: RowId,
    /// Edges of the node, nearest first.
    pub neighbours: Vec<NodeId>,
    /// Nodes that got an edge to it, all of them among `neighbours`.
    pub back_edges: Vec<NodeId>,
    /// The rows of `neighbours`, in their order; empty in a link that is made again. The log does
    /// not have them.
    pub neighbour_rows: Vec<RowId>,
}

/// One insert in so many enters the head index.
const HEAD_SHARE: u64 = 100;
/// Bytes that a patch of one slot takes beside its edges and its vector.
const SLOT_BYTES: u64 = 144;

impl Generation {
    /// Links a row for which a search has seen the pages around it, and memory was taken.
    pub(super) fn link_found(
        &self,
        row: RowId,
        vector: &[u8],
        seen: &SeenPages,
    ) -> Result<LinkedRow, UpdateError> {
        let link = self.link(row, vector, seen)?;
        self.note_linked(link.node);
        Ok(link)
    }

    /// Counts a row that was linked; some enter the head index.
    pub(super) fn note_linked(&self, node: NodeId) {
        let nth = self.linked.fetch_add(1, Ordering::Relaxed);
        if nth.is_multiple_of(HEAD_SHARE) {
            self.enter_head(node);
        }
    }

    /// The nearest live nodes in the pages seen, nearest first, up to `most`.
    fn nearest_seen(&self, vector: &[u8], seen: &SeenPages, most: usize) -> Vec<u32> {
        let metric = self.index.metric();
        let distance = QueryDistance::new(metric, self.vector_type(), vector);
        let mut found: Vec<(f32, u32)> = Vec::with_capacity(seen.pages().len() * 16);
        for &page in seen.pages() {
            let records = self.records(seen, page).expect("the page was seen");
            let mut slots = records.occupied();
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                let node = self.layout().node(page, slot);
                if !self.is_deleted(node) {
                    found.push((distance.distance(records.vector(slot)), node.0));
                }
            }
        }
        let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if found.len() > most {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
        found.into_iter().map(|f| f.1).collect()
    }

    /// Chooses edges and slot of the row, and makes it visible.
    fn link(&self, row: RowId, vector: &[u8], seen: &SeenPages) -> Result<LinkedRow, UpdateError> {
        self.check_scale(row, vector)?;
        let list = self.index.manifest().build.list as usize;
        let mut near = self.nearest_seen(vector, seen, (2 * list).max(self.layout().max_degree()));
        let _beginning = near.is_empty().then(|| self.one_beginning());
        if near.is_empty() {
            // Any live node stands in, so that nothing new leads to a deleted one.
            near.extend(self.rows.any().map(|node| node.0));
        }
        let images = WithResident::new(seen, &self.index);
        let mut pool = EdgePool::new(near.len(), vector.len());
        pool.push(u32::MAX, |out| out.extend_from_slice(vector));
        for &node in &near {
            pool.push(node, |out| self.vector_into(&images, NodeId(node), out));
        }
        let chosen = pool.choose(self.index.metric(), self.vector_type(), self.rule());
        let node = self.place(row, vector, &near)?;
        self.publish(row, node, vector, &chosen.edges);
        let mut found_again = false;
        for &from in &chosen.diverse {
            found_again |= self.add_edge(NodeId(from), node, &images);
        }
        if !found_again && let Some(&nearest) = near.first() {
            // All prunes turned the node away; without an edge no search would find it.
            self.insist_on_edge(NodeId(nearest), node);
        }
        if near.is_empty() {
            // An index whose rows have all gone starts anew from here.
            self.entry.store(node.0, Ordering::Release);
            self.set_head(None);
        }
        let ids = |nodes: Vec<u32>| nodes.into_iter().map(NodeId).collect();
        let neighbour_rows = chosen.edges.iter().map(|&to| self.row_of(NodeId(to), &images));
        Ok(LinkedRow {
            node,
            row,
            neighbour_rows: neighbour_rows.collect(),
            neighbours: ids(chosen.edges),
            back_edges: ids(chosen.diverse),
        })
    }

    /// Held by who has found no live row near its own: a graph without live rows begins anew with
    /// one row only, which the next one finds then.
    pub(super) fn one_beginning(&self) -> MutexGuard<'_, ()> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row of a node whose page is at hand; one that cannot be where it is not.
    fn row_of(&self, node: NodeId, images: &dyn Images) -> RowId {
        let records = self.records(images, self.layout().page_of(node));
        records.map_or(RowId(u64::MAX), |records| records.row_id(self.layout().slot_of(node)))
    }

    /// Refuses a row that the codes cannot tell from others: one that is far longer than those of
    /// their training, or one of many that are longer or far shorter. A search would not find it.
    pub(super) fn check_scale(&self, row: RowId, vector: &[u8]) -> Result<(), UpdateError> {
        let book = self.index.view().codebook;
        let squared_norm = fit_squared_norm(vector, self.vector_type()).unwrap_or(f64::INFINITY);
        let is_one_too_many = || {
            book.loses(squared_norm)
                && self.lost.fetch_add(1, Ordering::Relaxed) >= most_lost(self.rows.len())
        };
        if !book.reaches(squared_norm) || is_one_too_many() {
            return Err(UpdateError::Scale { row, norm: squared_norm.sqrt() });
        }
        Ok(())
    }

    /// Takes the memory for a new row. Resident pages may have to give way for it, so the caller
    /// looks at none.
    pub(super) fn charge_record(&self, back_edges: usize) -> Result<(), UpdateError> {
        self.keep_headroom()?;
        Ok(self.patches.charge(self.record_bytes(back_edges))?)
    }

    /// Bytes that a new row takes, with so many edges back to it.
    pub(super) fn record_bytes(&self, back_edges: usize) -> u64 {
        let bound = self.layout().max_degree() + slack(self.layout().max_degree());
        let code_bytes = self.index.manifest().code_bytes as usize;
        let record = self.layout().vector_bytes() + code_bytes + 4 * bound;
        record as u64 + SLOT_BYTES + 8 * back_edges as u64
    }

    /// Gives a row that has no node one of its own, near these.
    pub(super) fn place(
        &self,
        row: RowId,
        vector: &[u8],
        near: &[u32],
    ) -> Result<NodeId, UpdateError> {
        let node = self.take_slot(vector, near)?;
        if !self.rows.insert(row, node) {
            self.slots.lock().unwrap_or_else(PoisonError::into_inner).give_back(node);
            return Err(UpdateError::RowExists(row));
        }
        Ok(node)
    }

    /// A free slot: in the page of the nearest node that has one, else where [`Slots`] finds one.
    ///
    /// [`Slots`]: super::slots::Slots
    fn take_slot(&self, vector: &[u8], near: &[u32]) -> Result<NodeId, UpdateError> {
        let layout = *self.layout();
        let view = self.index.view();
        let nearest = |firsts: &[u32]| {
            let mut table = LookupTable::new(view.codebook);
            table.fill(view.codebook, vector, layout.vector_type());
            let mut scores = vec![0.0; firsts.len()];
            score_many(&table, self.index.codes(), firsts, &mut scores);
            let by_score = |a: &usize, b: &usize| scores[*a].total_cmp(&scores[*b]);
            (0..scores.len()).min_by(by_score).unwrap_or(0)
        };
        let pages = near.iter().map(|&n| layout.page_of(NodeId(n)));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let full = UpdateError::Full { limit: layout.node_limit() };
        slots.take(pages, nearest).ok_or(full)
    }

    /// Puts code and record of a node that has its slot.
    pub(super) fn publish(&self, row: RowId, node: NodeId, vector: &[u8], edges: &[u32]) {
        let mut code = vec![0; self.index.manifest().code_bytes as usize];
        self.index.view().codebook.encode(vector, self.vector_type(), &mut code);
        self.index.put_code(node, &code);
        let (page, slot) = (self.layout().page_of(node), self.layout().slot_of(node));
        self.patches.change(page, |patch| {
            let new = patch.slot_mut(slot);
            // Edges that came before the record stay.
            let mut all = edges.to_vec();
            let (Edges::Added(before) | Edges::Replaced(before)) = &new.edges;
            all.extend(before.iter().filter(|n| !edges.contains(n)));
            new.record = Some(NewRecord { row, vector: Box::from(vector) });
            new.edges = Edges::Replaced(all);
        });
        let per_page = self.layout().records_per_page() as u32;
        self.node_slots.fetch_max((page.0 + 1) * per_page, Ordering::AcqRel);
        self.next_row.fetch_max(row.0 + 1, Ordering::Relaxed);
    }

    /// Adds the edge `from` -> `to`; false where a prune turned it away.
    fn add_edge(&self, from: NodeId, to: NodeId, images: &dyn Images) -> bool {
        if !self.is_over(self.append_edge(from, to)) {
            return true;
        }
        let edges = self.shrink(from, images).or_else(|| {
            // A node that the search has not come by. The row stands already, so that a page
            // which cannot be read is left to the search that needs it.
            let mut reader = PageReader::new(&self.index, 0).ok()?;
            reader.load(&self.index, &[self.layout().page_of(from)]).ok()?;
            self.shrink(from, &WithResident::new(&reader, &self.index))
        });
        edges.is_some_and(|edges| edges.contains(&to.0))
    }

    /// Appends an edge, without looking at the bound. Answers with the number of edges in memory,
    /// and whether they are all.
    pub(super) fn append_edge(&self, from: NodeId, to: NodeId) -> (usize, bool) {
        let (page, slot) = (self.layout().page_of(from), self.layout().slot_of(from));
        let (first, state) = self.patches.change(page, |patch| {
            let first = patch.slot(slot).is_none();
            let (edges, all) = match &mut patch.slot_mut(slot).edges {
                Edges::Added(edges) => (edges, false),
                Edges::Replaced(edges) => (edges, true),
            };
            if !edges.contains(&to.0) {
                edges.push(to.0);
            }
            (first, (edges.len(), all))
        });
        if first {
            self.patches.charge_anyway(SLOT_BYTES);
        }
        state
    }

    pub(super) fn is_over(&self, (edges, all): (usize, bool)) -> bool {
        let degree = self.layout().max_degree();
        edges > if all { degree + slack(degree) } else { slack(degree) }
    }

    /// Prunes the list of `node` to the degree. `None` where its edges are not at hand.
    pub(super) fn shrink(&self, node: NodeId, images: &dyn Images) -> Option<Vec<u32>> {
        let mut before = Vec::new();
        if !self.edges_into(images, node, &mut before) {
            return None;
        }
        let mut pool = EdgePool::new(before.len(), self.layout().vector_bytes());
        pool.push(node.0, |out| self.vector_into(images, node, out));
        let slots = self.node_slots.load(Ordering::Acquire);
        for &n in before.iter().filter(|n| **n < slots) {
            pool.push(n, |out| self.vector_into(images, NodeId(n), out));
        }
        let edges = pool.choose(self.index.metric(), self.vector_type(), self.rule()).edges;
        let (page, slot) = (self.layout().page_of(node), self.layout().slot_of(node));
        self.patches.change(page, |patch| {
            let new = patch.slot_mut(slot);
            let mut all = edges.clone();
            // What another thread has added meanwhile stays.
            let (Edges::Added(now) | Edges::Replaced(now)) = &new.edges;
            all.extend(now.iter().filter(|n| !before.contains(n)));
            new.edges = Edges::Replaced(all);
        });
        self.patches.charge_anyway(4 * edges.len() as u64);
        Some(edges)
    }

    /// Puts `to` into the list of `from`, where it is full in place of the last edge, the farthest one
    /// of a pruned list.
    pub(super) fn insist_on_edge(&self, from: NodeId, to: NodeId) {
        let (page, slot) = (self.layout().page_of(from), self.layout().slot_of(from));
        let degree = self.layout().max_degree();
        self.patches.change(page, |patch| {
            let (edges, most) = match &mut patch.slot_mut(slot).edges {
                // No search looks at more of them, behind those on disk.
                Edges::Added(edges) => (edges, slack(degree)),
                // Behind the degree stand those that were added since the list was pruned.
                Edges::Replaced(edges) if edges.len() > degree => (edges, degree + slack(degree)),
                Edges::Replaced(edges) => (edges, degree),
            };
            edges.retain(|&edge| edge != to.0);
            edges.truncate(most - 1);
            edges.push(to.0);
        });
    }
}

pub(super) fn check_row(row: RowId) -> Result<(), UpdateError> {
    if row.0 < ROW_ID_LIMIT { Ok(()) } else { Err(UpdateError::Row { row, limit: ROW_ID_LIMIT }) }
}
