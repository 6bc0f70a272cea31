//! A new order of the nodes in pages, as a build would choose it.
//!
//! Inserts take the slots that they find, so pages slowly come to hold nodes that no search wants
//! together. Lists are sorted nearest first; the first edges of a node are about its nearest
//! neighbours, and from these the order is made as it is in a build. One pass over all pages,
//! and some 250 bytes of memory for each node while the order is made.

use std::sync::atomic::AtomicBool;

use super::error::UpdateError;
use super::generation::Generation;
use super::images::PageReader;
use crate::build::{EMPTY_SLOT, NONE, Nearest, OrderOptions, PageOrder, order_by};
use crate::format::constants::ABSENT;
use crate::memory::{Pool, Reservation};
use crate::quant::{LookupTable, score_many};
use crate::search::{Edges, Overlay, PagePatch, PageSource};
use crate::types::{NodeId, PageId};

/// Near neighbours of a node that its page competes for.
const NEAR: usize = 16;
/// Memory for each node while the order is made: near neighbours, weights both ways, positions.
const BYTES_PER_NODE: u64 = 4 * NEAR as u64 + 2 * NEAR as u64 * 5 + 32;
/// Pages asked for at once.
const BATCH: u32 = 64;

/// Where each node goes.
pub(super) struct Renumbering {
    /// The nodes that stay, by their old ids, ascending.
    old: Vec<u32>,
    /// Position in `old` of each old id; [`ABSENT`] where no node stays.
    position: Vec<u32>,
    /// Pages of positions.
    order: PageOrder,
    _held: Reservation,
}

impl Renumbering {
    /// Orders all nodes that are part of the graph.
    pub(super) fn of(
        generation: &Generation,
        threads: usize,
        cache_bytes: usize,
    ) -> Result<Self, UpdateError> {
        let layout = generation.layout();
        let pages = generation.page_count();
        let slots = pages as usize * layout.records_per_page();
        let accountant = generation.index.accountant();
        // Codes in the new order are collected beside the table that searches use.
        let node_bytes = BYTES_PER_NODE + u64::from(generation.index.manifest().code_bytes);
        let held = accountant.reserve(Pool::Pending, slots as u64 * node_bytes)?;
        let mut collect = Collect {
            generation,
            old: Vec::new(),
            near: Vec::new(),
            scratch: RenumberScratch::new(generation),
        };
        let mut reader = PageReader::new(&generation.index, cache_bytes)?;
        for from in (0..pages).step_by(BATCH as usize) {
            let some: Vec<PageId> = (from..pages.min(from + BATCH)).map(PageId).collect();
            reader.load(&generation.index, &some)?;
            some.iter().for_each(|&page| collect.page(page, &reader));
        }
        let Collect { old, mut near, .. } = collect;
        let mut position = vec![ABSENT; slots];
        (0u32..).zip(&old).for_each(|(at, &node)| position[node as usize] = at);
        let dense = |n: &mut u32| *n = position.get(*n as usize).copied().unwrap_or(NONE);
        near.iter_mut().for_each(dense);
        near.chunks_exact_mut(NEAR).for_each(gather_known);
        let nearest = Nearest::from_lists(near, NEAR);
        let options = OrderOptions {
            fill: layout.fill(),
            neighbours: NEAR,
            threads,
            ..OrderOptions::new(layout.records_per_page())
        };
        let order = order_by(&nearest, &options, threads, &AtomicBool::new(false))
            .expect("nobody cancels this");
        Ok(Self { old, position, order, _held: held })
    }

    /// The new id of a node; `None` where it does not stay.
    pub(super) fn new_of(&self, old: u32) -> Option<u32> {
        let at = *self.position.get(old as usize)?;
        (at != ABSENT).then(|| self.order.nodes[at as usize])
    }

    /// The old id of the node that goes to `new`; `None` where the slot stays free.
    pub(super) fn old_at(&self, new: u32) -> Option<u32> {
        let at = self.order.rows[new as usize];
        (at != EMPTY_SLOT).then(|| self.old[at as usize])
    }

    /// Pages in the new order.
    pub(super) fn pages(&self) -> u32 {
        self.order.pages() as u32
    }
}

/// Moves the neighbours that stay to the front of a list, in their order.
fn gather_known(list: &mut [u32]) {
    let mut kept = 0;
    for at in 0..list.len() {
        if list[at] != NONE {
            list.swap(kept, at);
            kept += 1;
        }
    }
}

struct Collect<'g> {
    generation: &'g Generation,
    old: Vec<u32>,
    near: Vec<u32>,
    scratch: RenumberScratch,
}

struct RenumberScratch {
    edges: Vec<u32>,
    table: LookupTable,
    scores: Vec<f32>,
}

impl RenumberScratch {
    fn new(generation: &Generation) -> Self {
        let table = LookupTable::new(generation.index.view().codebook);
        Self { edges: Vec::new(), table, scores: Vec::new() }
    }
}

impl Collect<'_> {
    /// Takes the nodes of a page that is at hand, with the first of their edges.
    fn page(&mut self, page: PageId, images: &PageReader) {
        let (generation, layout) = (self.generation, self.generation.layout());
        let records = generation.records(images, page).expect("the page was loaded");
        let patch = generation.patch(page);
        let mut slots = records.occupied();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let node = layout.node(page, slot);
            records.neighbours_into(slot, &mut self.scratch.edges);
            self.scratch.edges.retain(|&n| n != node.0 && !generation.is_removed(NodeId(n)));
            if is_unsorted(patch.as_deref(), slot, layout.max_degree()) {
                self.sort_by_code(records.vector(slot));
            }
            self.old.push(node.0);
            let from = self.near.len();
            self.near.extend(self.scratch.edges.iter().take(NEAR));
            self.near.resize(from + NEAR, NONE);
        }
    }

    fn sort_by_code(&mut self, vector: &[u8]) {
        let view = self.generation.index.view();
        let RenumberScratch { edges, table, scores } = &mut self.scratch;
        edges.sort_unstable();
        edges.dedup();
        edges.retain(|&n| (n as usize) < self.generation.index.codes().rows());
        table.fill(view.codebook, vector, self.generation.vector_type());
        scores.resize(edges.len(), 0.0);
        score_many(table, self.generation.index.codes(), edges, scores);
        let mut order: Vec<(f32, u32)> =
            scores.iter().copied().zip(edges.iter().copied()).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        edges.clear();
        edges.extend(order.iter().map(|o| o.1));
    }
}

/// Whether edges were appended to a full list, which are in no order.
fn is_unsorted(patch: Option<&PagePatch>, slot: usize, degree: usize) -> bool {
    match patch.and_then(|patch| patch.slot(slot)).map(|new| &new.edges) {
        None => false,
        Some(Edges::Added(edges)) => !edges.is_empty(),
        Some(Edges::Replaced(edges)) => edges.len() > degree,
    }
}
