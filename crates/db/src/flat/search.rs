//! Exact search: every vector is read and compared, by as many threads as the caller grants.
//!
//! Threads take pieces of segments one after the other, and chunks of the tail, and keep the
//! nearest of what they saw; the results are merged at the end. Several queries are answered in
//! one pass over the vectors.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::memory::Pool;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use super::memtable::MemtableChunk;
use super::segment::VectorSegment;
use super::{FlatError, FlatVectors};
use crate::asker;
use crate::ids::{Metric, RowId};

/// Bytes that a thread reads at once.
const PIECE_BYTES: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct FlatSearch {
    /// How many rows each query wants.
    pub k: usize,
    /// How vectors are compared.
    pub metric: Metric,
    /// Distances that are answered.
    pub within: DistanceRange,
    /// Threads that take part, the caller's included; at least 1.
    pub threads: usize,
    /// No row before this one is wanted: none is compared, and blocks of older rows only are not read.
    pub from: RowId,
}

/// A row found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlatHit {
    /// Exact distance; smaller is nearer, for every metric.
    pub distance: f32,
    /// The row.
    pub row: RowId,
}

impl Eq for FlatHit {}

impl PartialOrd for FlatHit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By distance, then by row id, so that answers do not depend on the order of reading.
impl Ord for FlatHit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.row.cmp(&other.row))
    }
}

/// The nearest so far; the farthest of them on top.
struct NearestRows {
    k: usize,
    hits: BinaryHeap<FlatHit>,
}

impl NearestRows {
    fn new(k: usize) -> Self {
        Self { k, hits: BinaryHeap::new() }
    }

    fn offer(&mut self, hit: FlatHit, allow: impl Fn(RowId) -> bool) {
        if self.hits.len() < self.k {
            if allow(hit.row) {
                self.hits.push(hit);
            }
        } else if self.hits.peek().is_some_and(|farthest| hit < *farthest) && allow(hit.row) {
            self.hits.pop();
            self.hits.push(hit);
        }
    }
}

/// A part of the work.
enum Piece<'a> {
    Blocks { segment: &'a VectorSegment, first: usize, count: usize },
    Chunk(&'a MemtableChunk),
}

impl FlatVectors {
    /// For each query the `k` nearest rows within the range of distances that `allow` lets pass, nearest first,
    /// equally near ones by ascending row id; fewer where there are fewer. `allow` is asked only
    /// about rows that would be among the nearest so far, by all threads, maybe repeatedly.
    ///
    /// # Errors
    /// [`FlatError::Shape`] for queries of another type or dimension, [`FlatError::Memory`] where
    /// 1 MiB for each thread is not granted, a failed read, or a damaged block: then there is no
    /// answer, rather than one without the rows of the block. Whether queries are finite is the
    /// caller's to check.
    pub fn search(
        &self,
        queries: VectorSet<'_>,
        search: FlatSearch,
        allow: &(dyn Fn(RowId) -> bool + Sync),
    ) -> Result<Vec<Vec<FlatHit>>, FlatError> {
        self.check_shape(queries)?;
        if search.k == 0 || queries.rows() == 0 {
            return Ok(vec![Vec::new(); queries.rows()]);
        }
        let view = self.view();
        let at_once = (PIECE_BYTES / self.shape.block_bytes()).max(1);
        let mut pieces = Vec::new();
        for segment in view.segments.iter() {
            for first in (segment.first_block_of(search.from)..segment.blocks()).step_by(at_once) {
                let count = at_once.min(segment.blocks() - first);
                pieces.push(Piece::Blocks { segment, first, count });
            }
        }
        let chunks = view.sealed.chunks().iter().chain(view.active.chunks());
        pieces.extend(chunks.map(|chunk: &Arc<MemtableChunk>| Piece::Chunk(chunk)));

        let threads = search.threads.min(pieces.len()).max(1);
        let scratch =
            if view.segments.is_empty() { 0 } else { threads * at_once * self.shape.block_bytes() };
        let _scratch = self.accountant.reserve(Pool::QueryScratch, scratch as u64)?;
        let next = AtomicUsize::new(0);
        let asks = asker::current();
        let work = || self.work(&pieces, &next, queries, search, allow);
        let results = std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..threads).map(|_| scope.spawn(|| asker::within(asks.clone(), work))).collect();
            let mut results = vec![work()];
            results.extend(others.into_iter().map(|t| t.join().expect("no search panics")));
            results
        });
        let mut merged: Vec<NearestRows> = queries_of(queries, search.k);
        for result in results {
            for (all, part) in merged.iter_mut().zip(result?) {
                part.hits.into_iter().for_each(|hit| all.offer(hit, |_| true));
            }
        }
        Ok(merged.into_iter().map(|nearest| nearest.hits.into_sorted_vec()).collect())
    }

    /// Takes pieces until none is left.
    fn work(
        &self,
        pieces: &[Piece<'_>],
        next: &AtomicUsize,
        queries: VectorSet<'_>,
        search: FlatSearch,
        allow: &(dyn Fn(RowId) -> bool + Sync),
    ) -> Result<Vec<NearestRows>, FlatError> {
        let (ty, vector_bytes) = (self.shape.vector_type(), self.shape.vector_bytes());
        let distances: Vec<_> = (0..queries.rows())
            .map(|i| QueryDistance::new(search.metric, ty, queries.row(i)))
            .collect();
        let mut nearest = queries_of(queries, search.k);
        let in_all = search.within.is_all();
        let mut compare = |rows: &mut dyn Iterator<Item = RowId>, vectors: &[u8]| {
            let all = rows.zip(vectors.chunks_exact(vector_bytes));
            for (row, vector) in all.filter(|(row, _)| *row >= search.from) {
                if !asker::worked(distances.len() * vector_bytes) {
                    return;
                }
                for (query, nearest) in distances.iter().zip(&mut nearest) {
                    let distance = query.distance(vector);
                    if in_all || search.within.contains(distance) {
                        nearest.offer(FlatHit { distance, row }, allow);
                    }
                }
            }
        };
        let mut buffer = Vec::new();
        while let Some(piece) = pieces.get(next.fetch_add(1, atomic::Ordering::Relaxed)) {
            asker::is_wanted()?;
            match piece {
                Piece::Blocks { segment, first, count } => {
                    segment.read_blocks(*first, *count, &mut buffer, |block| {
                        compare(&mut block.rows(), block.vectors());
                    })?;
                }
                Piece::Chunk(chunk) => {
                    // Most of a tail has joined a graph, and searches ask for rows that have not: those
                    // before are passed over without a call for each.
                    let old = chunk.rows().iter().take_while(|row| **row < search.from).count();
                    let vectors = &chunk.vectors()[old * vector_bytes..];
                    compare(&mut chunk.rows()[old..].iter().copied(), vectors);
                }
            }
        }
        asker::is_wanted()?;
        Ok(nearest)
    }
}

fn queries_of(queries: VectorSet<'_>, k: usize) -> Vec<NearestRows> {
    (0..queries.rows()).map(|_| NearestRows::new(k)).collect()
}
