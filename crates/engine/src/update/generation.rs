//! One generation on disk with everything that was changed since.
//!
//! The index on disk is immutable; beside it stand, in memory, patches of pages, deleted nodes,
//! the row table, free slots and the head index that grows. Searches hold the generation by an
//! `Arc` and take short latches only; a checkpoint replaces the whole value by its successor.
//!
//! Invariants:
//! - the code of a node is put before its record, and its record before any edge to it;
//! - a node is in the row table exactly while its row is live;
//! - a deleted node stays traversable until it is removed, and nothing leads to a removed one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::bitmap::NodeBitmap;
use super::error::UpdateError;
use super::images::{Images, PageReader};
use super::insert_scratch::InsertScratch;
use super::patches::Patches;
use super::rows::RowTable;
use super::slots::Slots;
use crate::format::{PageView, RecordLayout};
use crate::graph::{HeadIndex, PruneOptions};
use crate::index::{Index, Resident, SuccessorMemory, SuccessorSize};
use crate::memory::{Accountant, OverLimit, Pool, Reservation};
use crate::search::{Driver, Overlay, PagePatch, PageRecords, PageSource};
use crate::types::{NodeId, PageId, RowId, VectorType, from_f32};

/// See the module's description.
pub(super) struct Generation {
    pub(super) index: Index,
    pub(super) patches: Patches,
    pub(super) deleted: NodeBitmap,
    pub(super) rows: RowTable,
    pub(super) slots: Mutex<Slots>,
    /// Ids below this may be nodes; grows with fresh pages.
    pub(super) node_slots: AtomicU32,
    pub(super) next_row: AtomicU64,
    pub(super) head: RwLock<Option<Arc<HeadIndex>>>,
    /// Nodes that wait to enter the head index.
    pub(super) entrants: Mutex<Vec<NodeId>>,
    /// Where searches begin without a head index.
    pub(super) entry: AtomicU32,
    /// See [`one_beginning`](Self::one_beginning).
    pub(super) beginning: Mutex<()>,
    /// Rows linked since the generation was opened.
    pub(super) linked: AtomicU64,
    /// Of these, rows whose codes are [lost](crate::quant::Codebook::loses) among others.
    pub(super) lost: AtomicU64,
    pub(super) workers: Mutex<Vec<InsertScratch>>,
    /// Drivers of searches. They do not outlive the generation: one may still have reads under
    /// way that its last search did not wait for, and a search of another generation that wants
    /// the same page would get the old one.
    pub(super) drivers: Mutex<Vec<Driver>>,
    /// Dropped with the generation: tells later ones that no search of this one lasts.
    pub(super) token: Arc<()>,
    /// The generation on disk that gave nodes their ids: other numbers name other nodes.
    pub(super) numbering: u64,
    /// Memory for the next generation; without it no change is taken.
    headroom: Mutex<Option<Reservation>>,
    /// Stands for a page that is not on disk yet.
    blank: Vec<u8>,
    _held: Vec<Reservation>,
}

/// Memory for the generation that follows, taken before it is written.
pub(super) struct NextMemory {
    pub(super) index: SuccessorMemory,
    pub(super) own: Vec<Reservation>,
}

/// Bytes of row table and bitmap, for so many rows and pages.
fn own_bytes(layout: &RecordLayout, rows: u64, limit_pages: u32) -> (u64, u64) {
    let limit = u64::from(limit_pages) * layout.records_per_page() as u64;
    (RowTable::bytes_for(rows), limit.div_ceil(8) + u64::from(limit_pages) * 8)
}

fn limit_pages(layout: &RecordLayout, pages: u32, spare_slots: u32) -> u32 {
    let spare_pages = spare_slots / layout.records_per_page() as u32;
    pages.saturating_add(spare_pages).min(layout.max_pages())
}

impl Generation {
    /// Lays empty changes over `index`, whose codes are in memory; `rows` are those of its row map.
    /// Without `memory` that was taken before, it is taken here, and so is that of the next generation.
    pub(super) fn new(
        index: Index,
        mut rows: RowTable,
        spare_slots: u32,
        memory: Option<Vec<Reservation>>,
    ) -> Result<Self, UpdateError> {
        let layout = *index.layout();
        let base = index.pages();
        let limit_pages = limit_pages(&layout, base, spare_slots);
        let limit = u64::from(limit_pages) * layout.records_per_page() as u64;
        let manifest = index.manifest();
        let accountant = index.accountant();
        let needs_headroom = memory.is_none();
        let held = match memory {
            Some(held) => held,
            None => reserve_own(accountant, own_bytes(&layout, manifest.rows, limit_pages))?,
        };
        let deleted = NodeBitmap::new(limit);
        let tombstones = index.tombstones();
        for &node in &tombstones {
            deleted.insert(node);
        }
        let used = rows.nodes().chain(tombstones);
        let slots = Slots::new(layout, base, limit_pages, used);
        let node_slots = base * layout.records_per_page() as u32;
        let (head, entry) = {
            let view = index.view();
            (view.head.cloned().map(Arc::new), view.entry.0)
        };
        let generation = Self {
            patches: Patches::new(Arc::clone(accountant)),
            rows,
            slots: Mutex::new(slots),
            node_slots: AtomicU32::new(node_slots),
            next_row: AtomicU64::new(manifest.next_row_id),
            head: RwLock::new(head),
            entrants: Mutex::default(),
            entry: AtomicU32::new(entry),
            beginning: Mutex::default(),
            linked: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            workers: Mutex::default(),
            drivers: Mutex::default(),
            token: Arc::new(()),
            numbering: manifest.generation,
            headroom: Mutex::default(),
            blank: vec![0; layout.page_bytes()],
            deleted,
            index,
            _held: held,
        };
        if needs_headroom {
            generation.keep_headroom()?;
        }
        Ok(generation)
    }

    fn successor_size(&self) -> SuccessorSize {
        let pages = self.slots.lock().unwrap_or_else(PoisonError::into_inner).pages();
        let head_nodes = self.head().map_or(0, |head| head.nodes().len() as u32);
        SuccessorSize { pages, head_nodes }
    }

    /// Makes sure that there is memory for the generation that follows, so that a checkpoint is
    /// never refused because of changes that it would free.
    pub(super) fn keep_headroom(&self) -> Result<(), OverLimit> {
        let mut headroom = self.headroom.lock().unwrap_or_else(PoisonError::into_inner);
        if headroom.is_none() {
            let limit_pages = self.deleted.limit().div_ceil(self.layout().records_per_page());
            let own = own_bytes(self.layout(), self.rows.len(), limit_pages as u32);
            // What changes add to it is small beside the reserve that they come with.
            let bytes = self.index.successor_bytes(self.successor_size()) + own.0 + own.1;
            *headroom = Some(self.index.accountant().reserve(Pool::Pending, bytes)?);
        }
        Ok(())
    }

    /// Takes the memory for the generation that follows out of what is kept for it.
    pub(super) fn next_memory(
        &self,
        spare_slots: u32,
        resident: Resident,
    ) -> Result<NextMemory, OverLimit> {
        drop(self.headroom.lock().unwrap_or_else(PoisonError::into_inner).take());
        let size = self.successor_size();
        let index = self.index.reserve_successor(size, resident)?;
        let limit_pages = limit_pages(self.layout(), size.pages, spare_slots);
        let own = own_bytes(self.layout(), self.rows.len(), limit_pages);
        Ok(NextMemory { index, own: reserve_own(self.index.accountant(), own)? })
    }

    /// Takes the memory that opening the generation that follows needs beside
    /// [`next_memory`](Self::next_memory), where it shares nothing with this one.
    pub(super) fn room_to_reopen(
        &self,
        spare_slots: u32,
        resident: Resident,
    ) -> Result<Reservation, OverLimit> {
        let size = self.successor_size();
        let limit_pages = limit_pages(self.layout(), size.pages, spare_slots);
        let own = own_bytes(self.layout(), self.rows.len(), limit_pages);
        let bytes = self.index.bytes_to_open(size, resident) + own.0 + own.1;
        self.index.accountant().reserve(Pool::Codes, bytes)
    }

    /// The generation that follows, opened as `index`.
    pub(super) fn followed_by(
        &self,
        index: Index,
        rows: RowTable,
        spare_slots: u32,
        own: Vec<Reservation>,
    ) -> Result<Self, UpdateError> {
        let next = Self::new(index, rows, spare_slots, Some(own))?;
        let next = Self { numbering: self.numbering, ..next };
        let mut withheld = self.slots.lock().unwrap_or_else(PoisonError::into_inner).withheld();
        let removed: Vec<NodeId> = self.deleted.iter().filter(|&n| self.is_removed(n)).collect();
        if !removed.is_empty() {
            withheld.push((Arc::downgrade(&self.token), removed));
        }
        next.slots.lock().unwrap_or_else(PoisonError::into_inner).withhold(withheld);
        Ok(next)
    }

    pub(super) fn layout(&self) -> &RecordLayout {
        self.index.layout()
    }

    pub(super) fn vector_type(&self) -> VectorType {
        self.layout().vector_type()
    }

    /// How edges are chosen, as the build chose them.
    pub(super) fn rule(&self) -> PruneOptions {
        let alpha = self.index.manifest().build.alpha;
        PruneOptions { degree: self.layout().max_degree(), alpha: alpha.max(1.0) }
    }

    /// The image of a page: a blank one where it has no place on disk, else one among `images`.
    pub(super) fn image<'a>(&'a self, images: &'a dyn Images, page: PageId) -> Option<&'a [u8]> {
        if page.0 >= self.index.pages() {
            return Some(&self.blank);
        }
        images.image(page)
    }

    /// Stands for pages beyond the generation on disk.
    pub(super) fn fresh_image(&self, page: PageId) -> Option<&[u8]> {
        (page.0 >= self.index.pages()).then_some(&self.blank[..])
    }

    /// A page with what is new in it, where its image is at hand.
    pub(super) fn records<'a>(
        &'a self,
        images: &'a dyn Images,
        page: PageId,
    ) -> Option<PageRecords<'a>> {
        let image = self.image(images, page)?;
        Some(PageRecords::patched(self.layout(), image, self.patches.get(page)))
    }

    /// Replaces `out` by the edges of `node`. False where they are not at hand.
    pub(super) fn edges_into(&self, images: &dyn Images, node: NodeId, out: &mut Vec<u32>) -> bool {
        let Some(records) = self.records(images, self.layout().page_of(node)) else { return false };
        records.neighbours_into(self.layout().slot_of(node), out);
        true
    }

    /// Appends the vector of `node`: exact where its record is at hand, else what its code
    /// stands for.
    pub(super) fn vector_into(&self, images: &dyn Images, node: NodeId, out: &mut Vec<u8>) {
        let (page, slot) = (self.layout().page_of(node), self.layout().slot_of(node));
        let patch = self.patches.get(page);
        if let Some(record) = patch.as_ref().and_then(|p| p.slot(slot)?.record.as_ref()) {
            return out.extend_from_slice(&record.vector);
        }
        if let Some(image) = self.image(images, page) {
            let view = PageView::new(self.layout(), image);
            if view.occupied() & 1 << slot != 0 {
                return out.extend_from_slice(view.vector(slot));
            }
        }
        self.decoded_into(node, out);
    }

    /// Appends the vector that the code of `node` stands for.
    fn decoded_into(&self, node: NodeId, out: &mut Vec<u8>) {
        let mut components = vec![0.0; self.layout().dim()];
        let code = self.index.codes().row(node.0);
        self.index.view().codebook.decode(code, &mut components);
        let (ty, metric) = (self.vector_type(), self.index.metric());
        if metric.normalises() {
            restore_length(&mut components, ty);
        }
        from_f32(&components, ty, out);
    }

    /// Marks the node of a live row as deleted. `None` where there is no such row.
    pub(super) fn delete(&self, row: RowId) -> Option<NodeId> {
        let node = self.rows.remove(row)?;
        self.deleted.insert(node);
        Some(node)
    }

    /// Whether a deleted node has left the graph; its slot is free in the next generation.
    pub(super) fn is_removed(&self, node: NodeId) -> bool {
        let patch = self.deleted.contains(node).then(|| self.patch(self.layout().page_of(node)));
        let slot = self.layout().slot_of(node);
        patch.flatten().is_some_and(|p| p.slot(slot).is_some_and(|s| s.removed))
    }

    /// Deleted nodes that are still part of the graph, ascending.
    pub(super) fn kept_tombstones(&self) -> Vec<u32> {
        self.deleted.iter().filter(|&n| !self.is_removed(n)).map(|n| n.0).collect()
    }

    /// Number of deleted nodes that are still part of the graph.
    pub(super) fn tombstones(&self) -> u64 {
        self.deleted.iter().filter(|&n| !self.is_removed(n)).count() as u64
    }

    /// Brings the pages of these nodes to hand, resident ones too: they may be displaced before
    /// they are looked at.
    pub(super) fn load_nodes<'a>(
        &self,
        reader: &mut PageReader,
        nodes: impl Iterator<Item = &'a u32>,
    ) -> Result<(), UpdateError> {
        let mut pages: Vec<PageId> = nodes.map(|&n| self.layout().page_of(NodeId(n))).collect();
        pages.sort_unstable();
        pages.dedup();
        reader.load(&self.index, &pages)
    }

    pub(super) fn page_count(&self) -> u32 {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).pages()
    }

    pub(super) fn head(&self) -> Option<Arc<HeadIndex>> {
        self.head.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_head(&self, head: Option<HeadIndex>) {
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = head.map(Arc::new);
    }

    pub(super) fn entry(&self) -> NodeId {
        NodeId(self.entry.load(Ordering::Acquire))
    }
}

fn reserve_own(
    accountant: &Arc<Accountant>,
    (rows, bitmap): (u64, u64),
) -> Result<Vec<Reservation>, OverLimit> {
    Ok(vec![accountant.reserve(Pool::PageMap, rows)?, accountant.reserve(Pool::Pending, bitmap)?])
}

impl Overlay for Generation {
    #[inline]
    fn patch(&self, page: PageId) -> Option<Arc<PagePatch>> {
        self.patches.get(page)
    }

    #[inline]
    fn is_deleted(&self, node: NodeId) -> bool {
        self.deleted.contains(node)
    }

    fn slack(&self) -> usize {
        slack(self.layout().max_degree())
    }
}

/// Gives components of norm 1 a length at which those of `ty` tell them apart: that of bits, or as
/// long as the largest component allows. How vectors are compared does not depend on it.
fn restore_length(components: &mut [f32], ty: VectorType) {
    let largest = components.iter().fold(0f32, |most, x| most.max(x.abs()));
    let length = match ty {
        VectorType::F32 | VectorType::F16 | VectorType::BF16 => 1.0,
        VectorType::U8 => 255.0 / largest,
        VectorType::I8 => 127.0 / largest,
        // n components of 1 / sqrt(n) add up to sqrt(n).
        VectorType::Binary => components.iter().sum(),
    };
    if length.is_finite() {
        components.iter_mut().for_each(|x| *x *= length);
    }
}

/// Edges that a list may have beyond `degree` before it is pruned. Half of it more costs a
/// search some estimates by code, and saves most prunes.
pub(super) fn slack(degree: usize) -> usize {
    (degree / 2).max(1)
}
