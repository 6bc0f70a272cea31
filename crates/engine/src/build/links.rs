//! The graph while threads are adding to it.
//!
//! A row is a header word (edge count and a lock bit) and room for some more edges than the
//! final degree. Writers hold the row's lock; readers take no lock and may see a row half
//! rewritten: a mix of its old and new neighbours, every one a valid node, which a search
//! bears easily.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::graph::{Adjacency, EdgeSource};

const LOCK: u32 = 1 << 31;
/// Where the header holds how many of the first edges one prune chose together.
const SETTLED_SHIFT: u32 = 16;
const LEN_MASK: u32 = (1 << SETTLED_SHIFT) - 1;
/// The most edges that the header can count.
pub(crate) const MAX_CAPACITY: usize = (1 << 15) - 1;

/// Adjacency lists that many threads extend.
pub(crate) struct Links {
    words: Vec<AtomicU32>,
    stride: usize,
}

impl Links {
    /// `nodes` empty rows with room for `capacity` edges each.
    pub(crate) fn new(nodes: usize, capacity: usize) -> Self {
        assert!(capacity <= MAX_CAPACITY, "the header counts no further");
        let stride = capacity + 1;
        let mut words = super::huge::with_capacity(nodes * stride);
        words.resize_with(nodes * stride, || AtomicU32::new(0));
        Self { words, stride }
    }

    fn row(&self, node: u32) -> &[AtomicU32] {
        &self.words[node as usize * self.stride..(node as usize + 1) * self.stride]
    }

    /// Locks the row of `node` for writing.
    pub(crate) fn lock(&self, node: u32) -> LockedRow<'_> {
        let row = self.row(node);
        let mut spins = 0u32;
        loop {
            let header = row[0].load(Ordering::Relaxed);
            if header & LOCK == 0
                && row[0]
                    .compare_exchange_weak(
                        header,
                        header | LOCK,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                return LockedRow {
                    row,
                    len: (header & LEN_MASK) as usize,
                    settled: (header >> SETTLED_SHIFT) as usize,
                };
            }
            spins += 1;
            if spins.is_multiple_of(128) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// The finished graph, with rows cut to `degree` words beside the count.
    ///
    /// # Panics
    /// Where a row holds more than `degree` edges.
    pub(crate) fn into_adjacency(self, degree: usize) -> Adjacency {
        let stride = self.stride;
        let mut words: Vec<u32> = self.words.into_iter().map(AtomicU32::into_inner).collect();
        let nodes = words.len() / stride;
        for node in 0..nodes {
            words[node * stride] &= LEN_MASK;
            assert!(words[node * stride] as usize <= degree, "rows were pruned before");
            words.copy_within(node * stride..node * stride + degree + 1, node * (degree + 1));
        }
        words.truncate(nodes * (degree + 1));
        words.shrink_to_fit();
        Adjacency::from_rows(words, degree)
    }
}

impl EdgeSource for Links {
    #[inline]
    fn append(&self, node: u32, out: &mut Vec<u32>) {
        let row = self.row(node);
        let len = (row[0].load(Ordering::Acquire) & LEN_MASK) as usize;
        out.extend(row[1..=len].iter().map(|n| n.load(Ordering::Relaxed)));
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        super::huge::prefetch(self.row(node));
    }
}

/// A row held for writing; unlocked when dropped.
pub(crate) struct LockedRow<'a> {
    row: &'a [AtomicU32],
    len: usize,
    settled: usize,
}

impl LockedRow<'_> {
    /// How many of the first edges one prune chose together.
    pub(crate) fn settled(&self) -> usize {
        self.settled
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.row[1..=self.len].iter().map(|n| n.load(Ordering::Relaxed))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len + 1 == self.row.len()
    }

    /// Adds an edge to a row that is not full.
    pub(crate) fn push(&mut self, node: u32) {
        self.len += 1;
        self.row[self.len].store(node, Ordering::Relaxed);
    }

    /// Replaces all edges with what a prune has chosen.
    pub(crate) fn replace(&mut self, edges: &[u32]) {
        for (word, &node) in self.row[1..].iter().zip(edges) {
            word.store(node, Ordering::Relaxed);
        }
        self.len = edges.len();
        self.settled = edges.len();
    }
}

impl Drop for LockedRow<'_> {
    fn drop(&mut self) {
        let header = self.len | self.settled << SETTLED_SHIFT;
        self.row[0].store(header as u32, Ordering::Release);
    }
}
