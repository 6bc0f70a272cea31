//! Greedy best-first search over a graph in memory, as the builder runs it per insertion.
//!
//! The caller brings the distance and the prefetch, so that one loop serves building (vector
//! to vector), tests (query to vector) and attaching. Scratch is reused; with warm scratch
//! nothing is allocated. Search on disk lives in the room `search`.

use super::visited::GreedyVisited;

/// Where the loop gets a node's edges from.
pub(crate) trait EdgeSource {
    /// Appends the neighbours of `node` to `out`.
    fn append(&self, node: u32, out: &mut Vec<u32>);

    /// Hints that the edges of `node` are wanted soon.
    fn prefetch(&self, _node: u32) {}
}

impl EdgeSource for super::Adjacency {
    fn append(&self, node: u32, out: &mut Vec<u32>) {
        out.extend_from_slice(self.neighbours(node as usize));
    }
}

/// A node in the candidate list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GreedyCandidate {
    pub(crate) distance: f32,
    pub(crate) node: u32,
    expanded: bool,
}

/// The nearest nodes seen so far, nearest first, at most `limit` of them.
pub(crate) struct GreedyList {
    items: Vec<GreedyCandidate>,
    limit: usize,
    /// All candidates before this place have been expanded.
    cursor: usize,
}

impl GreedyList {
    pub(crate) fn new() -> Self {
        Self { items: Vec::new(), limit: 0, cursor: 0 }
    }

    pub(crate) fn reset(&mut self, limit: usize) {
        self.items.clear();
        self.items.reserve(limit + 1);
        self.limit = limit;
        self.cursor = 0;
    }

    pub(crate) fn items(&self) -> &[GreedyCandidate] {
        &self.items
    }

    /// Takes a node in its place, unless it is too far or in the list already.
    ///
    /// A node must come with the same distance each time.
    #[inline]
    pub(crate) fn insert(&mut self, distance: f32, node: u32) {
        let full = self.items.len() == self.limit;
        if full && self.items.last().is_some_and(|worst| distance >= worst.distance) {
            return;
        }
        let at = self.items.partition_point(|c| c.distance <= distance);
        let equals = self.items[..at].iter().rev().take_while(|c| c.distance == distance);
        if equals.into_iter().any(|c| c.node == node) {
            return;
        }
        if full {
            self.items.pop();
        }
        self.items.insert(at, GreedyCandidate { distance, node, expanded: false });
        self.cursor = self.cursor.min(at);
    }

    /// The nearest candidate not taken before, now taken.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<(f32, u32)> {
        while let Some(c) = self.items.get_mut(self.cursor) {
            self.cursor += 1;
            if !c.expanded {
                c.expanded = true;
                return Some((c.distance, c.node));
            }
        }
        None
    }

    /// The candidate that [`take_next`](Self::take_next) would return now.
    #[inline]
    pub(crate) fn peek_next(&self) -> Option<u32> {
        self.items.get(self.cursor..)?.iter().find(|c| !c.expanded).map(|c| c.node)
    }
}

/// What a search needs besides the graph, kept between searches.
pub(crate) struct GreedyScratch {
    pub(crate) list: GreedyList,
    visited: GreedyVisited,
    fresh: Vec<u32>,
    /// Every node expanded, with its distance, in the order of expansion.
    pub(crate) expanded: Vec<(f32, u32)>,
    /// Distances computed since the scratch was made.
    pub(crate) comparisons: u64,
}

impl GreedyScratch {
    pub(crate) fn new() -> Self {
        Self {
            list: GreedyList::new(),
            visited: GreedyVisited::new(),
            fresh: Vec::new(),
            expanded: Vec::new(),
            comparisons: 0,
        }
    }
}

/// Searches from `start` with a candidate list of `list`; the answer is in `scratch`.
pub(crate) fn greedy_search<G: EdgeSource>(
    graph: &G,
    start: u32,
    list: usize,
    distance: impl Fn(u32) -> f32,
    prefetch: impl Fn(u32),
    scratch: &mut GreedyScratch,
) {
    let GreedyScratch { list: candidates, visited, fresh, expanded, comparisons } = scratch;
    candidates.reset(list);
    visited.clear();
    expanded.clear();
    visited.insert(start);
    candidates.insert(distance(start), start);
    while let Some((d, node)) = candidates.take_next() {
        expanded.push((d, node));
        fresh.clear();
        graph.append(node, fresh);
        let mut kept = 0;
        for i in 0..fresh.len() {
            let n = fresh[i];
            fresh[kept] = n;
            kept += usize::from(visited.insert(n));
        }
        fresh.truncate(kept);
        fresh.iter().for_each(|&n| prefetch(n));
        if let Some(next) = candidates.peek_next() {
            graph.prefetch(next);
        }
        *comparisons += fresh.len() as u64;
        for &n in fresh.iter() {
            candidates.insert(distance(n), n);
        }
    }
}
