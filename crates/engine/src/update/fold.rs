//! Folding: what is new in a page becomes part of its image on disk.
//!
//! A list in memory may be longer than a record has room for; here it is pruned to fit, with the
//! vectors of the pages at hand. Pages are folded in layout order, so that most neighbours lie in
//! pages folded just before. Runs of pages are folded on several threads of the process's pool
//! while the caller takes the images of the runs before, in order.

use std::sync::atomic::Ordering;

use super::choose::EdgePool;
use super::error::UpdateError;
use super::generation::Generation;
use super::images::{Images, PageReader, WithResident};
use crate::format::PageWriter;
use crate::types::{NodeId, PageId, RowId};

/// Pages that one thread folds before the images are handed out. Few in tests, so that small
/// indexes have several runs, and a crash can come between their writes.
const RUN: usize = if cfg!(test) { 2 } else { 64 };

/// Folds the patches of pages into their images.
pub(super) struct Folding<'a> {
    pub(super) generation: &'a Generation,
    /// Pages with changes, ascending; others are copied as they are.
    pub(super) changed: &'a [PageId],
    /// The new generation.
    pub(super) number: u64,
    /// Whether vectors that are not at hand are read.
    pub(super) exact: bool,
}

/// What folding took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Folded {
    /// Lists pruned.
    pub(super) pruned: u64,
    /// Pages read.
    pub(super) reads: u64,
}

/// One thread's part.
struct FoldWorker {
    reader: PageReader,
    /// Images of a run.
    out: Vec<u8>,
    pruned: u64,
    outcome: Result<(), UpdateError>,
}

impl Folding<'_> {
    /// Makes the new images of `pages` on up to `threads` threads, and hands them to `take` in
    /// the order of `pages`, several at a time.
    pub(super) fn run(
        &self,
        pages: &[PageId],
        (threads, cache_bytes): (usize, usize),
        take: &mut dyn FnMut(&[u8]) -> Result<(), UpdateError>,
    ) -> Result<Folded, UpdateError> {
        let threads = threads.clamp(1, pages.len().div_ceil(RUN).max(1));
        let mut workers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let reader = PageReader::new(&self.generation.index, cache_bytes / threads)?;
            workers.push(FoldWorker { reader, out: Vec::new(), pruned: 0, outcome: Ok(()) });
        }
        let mut ready: Vec<Vec<u8>> = vec![Vec::new(); threads];
        let mut runs = pages.chunks(RUN);
        loop {
            let some: Vec<&[PageId]> = runs.by_ref().take(threads).collect();
            let mut taken = Ok(());
            rayon::in_place_scope(|s| {
                for (worker, run) in workers.iter_mut().zip(&some) {
                    s.spawn(|_| {
                        let outcome = self.fold_run(run, worker);
                        worker.outcome = outcome;
                    });
                }
                taken = ready.iter().filter(|images| !images.is_empty()).try_for_each(|i| take(i));
            });
            taken?;
            if some.is_empty() {
                break;
            }
            for (worker, images) in workers.iter_mut().zip(&mut ready) {
                std::mem::replace(&mut worker.outcome, Ok(()))?;
                std::mem::swap(&mut worker.out, images);
                worker.out.clear();
            }
        }
        let sum = |of: fn(&FoldWorker) -> u64| workers.iter().map(of).sum();
        Ok(Folded { pruned: sum(|w| w.pruned), reads: sum(|w| w.reader.reads()) })
    }

    fn fold_run(&self, run: &[PageId], worker: &mut FoldWorker) -> Result<(), UpdateError> {
        let (generation, page_bytes) = (self.generation, self.generation.layout().page_bytes());
        worker.reader.load(&generation.index, run)?;
        worker.out.resize(run.len() * page_bytes, 0);
        let mut out = std::mem::take(&mut worker.out);
        for (&page, image) in run.iter().zip(out.chunks_exact_mut(page_bytes)) {
            if self.changed.binary_search(&page).is_ok() {
                self.fold(page, worker, image)?;
            } else {
                // A page may have been pushed out by those of long lists.
                worker.reader.load(&generation.index, &[page])?;
                let old = generation.image(&worker.reader, page).expect("the page was loaded");
                image.copy_from_slice(old);
            }
        }
        worker.out = out;
        Ok(())
    }

    /// Makes the new image of `page`.
    fn fold(
        &self,
        page: PageId,
        worker: &mut FoldWorker,
        out: &mut [u8],
    ) -> Result<(), UpdateError> {
        let (generation, layout) = (self.generation, *self.generation.layout());
        worker.reader.load(&generation.index, &[page])?;
        let slots = generation.node_slots.load(Ordering::Acquire);
        let mut records: Vec<(usize, RowId, Vec<u8>, Vec<u32>)> = Vec::new();
        {
            let view = generation.records(&worker.reader, page).expect("the page was loaded");
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
            generation.load_nodes(&mut worker.reader, wanted)?;
        }
        let mut writer = PageWriter::new(&layout, out);
        for (slot, row, vector, edges) in &records {
            if full(edges) {
                let own = layout.node(page, *slot);
                worker.pruned += 1;
                let images = WithResident::new(&worker.reader, &generation.index);
                let edges = pruned(generation, &images, own, vector, edges);
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
