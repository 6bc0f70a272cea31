//! Deleted nodes leave the graph (FreshDiskANN, section 4.2): a node with edges to deleted ones
//! gets the edges of these in their place, pruned.
//!
//! A pass takes the nodes that are deleted when it begins and goes through all pages in portions.
//! Nothing new leads to them meanwhile: inserts choose live neighbours only. When the last page
//! is done, nothing leads to them at all; they are removed, and the next checkpoint frees their
//! slots. Edges to live nodes stay. Each deleted node hands on a few of its edges, those nearest by
//! codes to the node that gets them, and they compete for the places that became free.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::choose::EdgePool;
use super::error::UpdateError;
use super::fold::pruned;
use super::generation::Generation;
use super::images::{Images, PageReader, Spare, WithResident};
use super::live::LiveIndex;
use super::pass::Pass;
use crate::quant::{LookupTable, score_many};
use crate::search::{Edges, Overlay, PageSource};
use crate::types::{NodeId, PageId};

/// What a step of consolidation has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsolidateReport {
    /// Pages gone through.
    pub pages: u64,
    /// Nodes whose edges to deleted nodes were replaced.
    pub repaired: u64,
    /// Nodes that left the graph; the next checkpoint frees their slots.
    pub removed: u64,
    /// Whether the pass is over: no node that was deleted before it began is left.
    pub finished: bool,
}

/// Edges that a dead node hands on to one that had an edge to it. All of them would be hundreds;
/// the nearest of all would replace the long edges, which few lead to, by short ones.
const HANDED_ON: usize = 4;
/// Live neighbours that hand on edges as well, where their pages are at hand: some lead to rows that
/// came later and are nearer than what the dead ones know of.
const NEAR_LIVE: usize = 6;

/// A record with edges to dead nodes.
struct BrokenRecord {
    slot: usize,
    vector: Vec<u8>,
    edges: Vec<u32>,
}

/// What the edges of a node are completed from.
struct Candidates {
    /// How many of the nodes stay: they come first.
    held: usize,
    nodes: Vec<u32>,
}

/// Pages that a thread goes through while inserts wait.
const STEP_PAGES: u32 = 16;

impl LiveIndex {
    /// Goes on with taking deleted nodes out of the graph, through `pages` pages at most.
    ///
    /// Call it again until the report says `finished`. Inserts wait for a few pages at a time,
    /// searches for nothing. The changes are in memory until the next checkpoint.
    ///
    /// # Errors
    /// [`UpdateError::Memory`] where the limit leaves no room for more changes: make a
    /// checkpoint and go on. Unreadable pages.
    pub fn consolidate(&self, pages: u32) -> Result<ConsolidateReport, UpdateError> {
        let mut report = ConsolidateReport::default();
        let mut kept: Option<(Arc<Generation>, Vec<PageReader>)> = None;
        let spare = Spare::take(self.current().index.accountant(), self.options.cache_bytes);
        while report.pages < u64::from(pages) && !report.finished {
            let _alone = self.only_writer()?;
            let generation = self.current();
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            let pass_now = pass.get_or_insert_with(|| generation.begin_pass());
            if pass_now.dead.is_empty() {
                *pass = None;
                report.finished = true;
                break;
            }
            // Pages that were read belong to one generation.
            let readers = match &mut kept {
                Some((of, readers)) if Arc::ptr_eq(of, &generation) => readers,
                _ => {
                    &mut kept
                        .insert((Arc::clone(&generation), self.readers(&generation, &spare)?))
                        .1
                }
            };
            let left = pages - report.pages as u32;
            let step = STEP_PAGES * readers.len() as u32;
            let last = generation.page_count();
            let until = pass_now.next.saturating_add(step.min(left)).min(last);
            let exact = self.options.exact_prunes;
            let some = pass_now.next..until;
            report.repaired += generation.repair_all(some, &pass_now.dead, readers, exact)?;
            report.pages += u64::from(until - pass_now.next);
            pass_now.next = until;
            if until == last {
                report.removed = generation.remove(&pass_now.dead);
                report.finished = true;
                *pass = None;
            }
        }
        Ok(report)
    }

    /// One reader for each thread that works on a step.
    fn readers(
        &self,
        generation: &Generation,
        spare: &Spare,
    ) -> Result<Vec<PageReader>, UpdateError> {
        let threads = self.options.threads();
        let bytes = spare.bytes() / threads;
        (0..threads).map(|_| PageReader::new(&generation.index, bytes)).collect()
    }
}

impl Generation {
    fn begin_pass(&self) -> Pass {
        let dead = self.kept_tombstones().into_iter().collect();
        // The head index lets go of all of these before any of them leaves the graph.
        self.drop_deleted_from_head();
        Pass { dead, next: 0 }
    }

    /// Replaces edges to dead nodes in these pages, on a thread for each reader. Returns the
    /// nodes changed. A page is repaired from its own edges and those of dead nodes, which
    /// nobody changes meanwhile, so that the threads do not see each other's changes.
    fn repair_all(
        &self,
        pages: Range<u32>,
        dead: &HashSet<u32>,
        readers: &mut [PageReader],
        exact: bool,
    ) -> Result<u64, UpdateError> {
        let share = (pages.len().div_ceil(readers.len()) as u32).max(1);
        let mut outcomes: Vec<Result<u64, UpdateError>> = Vec::new();
        outcomes.resize_with(readers.len(), || Ok(0));
        rayon::in_place_scope(|s| {
            let parts = pages.clone().step_by(share as usize);
            for ((from, reader), outcome) in parts.zip(readers).zip(&mut outcomes) {
                let part = from..pages.end.min(from + share);
                s.spawn(move |_| {
                    let each = part.map(|page| self.repair(PageId(page), dead, reader, exact));
                    *outcome = each.sum();
                });
            }
        });
        outcomes.into_iter().sum()
    }

    /// Replaces edges to dead nodes in one page. Returns the nodes changed.
    fn repair(
        &self,
        page: PageId,
        dead: &HashSet<u32>,
        reader: &mut PageReader,
        exact: bool,
    ) -> Result<u64, UpdateError> {
        let layout = *self.layout();
        reader.load(&self.index, &[page])?;
        let mut broken: Vec<BrokenRecord> = Vec::new();
        {
            let records = self.records(&*reader, page).expect("the page was loaded");
            let mut slots = records.occupied();
            let mut edges = Vec::new();
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                if dead.contains(&layout.node(page, slot).0) {
                    continue;
                }
                records.neighbours_into(slot, &mut edges);
                if edges.iter().any(|n| dead.contains(n)) {
                    let vector = records.vector(slot).to_vec();
                    broken.push(BrokenRecord { slot, vector, edges: edges.clone() });
                }
            }
        }
        if broken.is_empty() {
            return Ok(0);
        }
        let count = broken.len() as u64;
        let charged = count * (4 * (layout.max_degree() as u64) + 144);
        self.patches.charge(charged)?;
        let candidates = self.candidates(page, &broken, dead, reader, exact);
        let candidates = candidates.inspect_err(|_| self.patches.discharge(charged))?;
        for (BrokenRecord { slot, vector, .. }, candidates) in broken.into_iter().zip(candidates) {
            let own = layout.node(page, slot);
            let images = WithResident::new(&*reader, &self.index);
            let edges = self.completed(own, &vector, &candidates, &images);
            self.patches.change(page, |patch| {
                patch.slot_mut(slot).edges = Edges::Replaced(edges);
            });
        }
        Ok(count)
    }

    /// What the edges of these records in a page are completed from, with the pages at hand that this
    /// takes.
    fn candidates(
        &self,
        page: PageId,
        broken: &[BrokenRecord],
        dead: &HashSet<u32>,
        reader: &mut PageReader,
        exact: bool,
    ) -> Result<Vec<Candidates>, UpdateError> {
        let gone = broken.iter().flat_map(|b| b.edges.iter()).filter(|n| dead.contains(n));
        self.load_nodes(reader, gone)?;
        let mut candidates = Vec::with_capacity(broken.len());
        for BrokenRecord { slot, vector, edges } in broken {
            let own = self.layout().node(page, *slot);
            let images = WithResident::new(&*reader, &self.index);
            candidates.push(self.inherited(own, vector, edges, dead, &images));
        }
        if exact {
            self.load_nodes(reader, candidates.iter().flat_map(|c| c.nodes.iter()))?;
        }
        Ok(candidates)
    }

    /// The edges of a node from those that stay and those that were handed on.
    fn completed(
        &self,
        own: NodeId,
        vector: &[u8],
        candidates: &Candidates,
        images: &dyn Images,
    ) -> Vec<u32> {
        let Candidates { held, nodes } = candidates;
        if *held > self.layout().max_degree() {
            return pruned(self, images, own, vector, nodes);
        }
        let mut pool = EdgePool::new(nodes.len(), vector.len());
        pool.push(own.0, |out| out.extend_from_slice(vector));
        for &n in nodes {
            pool.push(n, |out| self.vector_into(images, NodeId(n), out));
        }
        pool.complete(*held, self.index.metric(), self.vector_type(), self.rule())
    }

    /// Live edges of a node, and of the edges of each of its dead neighbours and some live ones
    /// those nearest to it, by codes.
    fn inherited(
        &self,
        own: NodeId,
        vector: &[u8],
        edges: &[u32],
        dead: &HashSet<u32>,
        images: &dyn Images,
    ) -> Candidates {
        let (gone, live): (Vec<u32>, Vec<u32>) = edges.iter().partition(|n| dead.contains(n));
        let (mut nodes, mut held) = (Vec::with_capacity(2 * edges.len()), 0);
        for n in live {
            if n != own.0 && !nodes.contains(&n) {
                nodes.push(n);
                held += 1;
            }
        }
        let view = self.index.view();
        let mut table = LookupTable::new(view.codebook);
        table.fill(view.codebook, vector, self.vector_type());
        let slots = self.node_slots.load(Ordering::Acquire);
        let (mut list, mut scores, mut order) = (Vec::new(), Vec::new(), Vec::new());
        // Lists are sorted, so these are the nearest.
        let near: Vec<u32> = nodes.iter().copied().take(NEAR_LIVE).collect();
        for node in gone.into_iter().chain(near) {
            if !self.edges_into(images, NodeId(node), &mut list) {
                continue;
            }
            let is_new = |n: &u32| {
                *n != own.0 && *n < slots && !nodes.contains(n) && !self.is_deleted(NodeId(*n))
            };
            list.retain(is_new);
            scores.resize(list.len(), 0.0);
            score_many(&table, self.index.codes(), &list, &mut scores);
            order.clear();
            order.extend(scores.iter().copied().zip(list.iter().copied()));
            let nearest = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            order.sort_unstable_by(nearest);
            order.dedup_by_key(|o| o.1);
            nodes.extend(order.iter().take(HANDED_ON).map(|o| o.1));
        }
        Candidates { held, nodes }
    }

    /// Takes nodes that nothing leads to out of the graph. Returns how many.
    fn remove(&self, dead: &HashSet<u32>) -> u64 {
        let mut removed = 0;
        let entry = self.entry();
        let stays = if dead.contains(&entry.0) { self.move_entry() } else { None };
        for &node in dead.iter().filter(|n| Some(NodeId(**n)) != stays) {
            let (page, slot) =
                (self.layout().page_of(NodeId(node)), self.layout().slot_of(NodeId(node)));
            self.patches.change(page, |patch| {
                let new = patch.slot_mut(slot);
                (new.record, new.edges, new.removed) = (None, Edges::Added(Vec::new()), true);
            });
            removed += 1;
        }
        removed
    }

    /// Lets searches begin at a live node. Where there is none the entry stays, and is returned.
    fn move_entry(&self) -> Option<NodeId> {
        let head = self.head();
        let in_head = head.and_then(|head| head.nodes().get(head.entry() as usize).copied());
        match in_head.map(NodeId).or_else(|| self.rows.any()) {
            Some(live) => {
                self.entry.store(live.0, Ordering::Release);
                None
            }
            None => Some(self.entry()),
        }
    }
}
