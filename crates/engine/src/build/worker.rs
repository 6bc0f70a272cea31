//! What a thread does to the graph under construction, with scratch of its own.

use super::links::{Links, LockedRow};
use crate::distance::PairDistance;
use crate::graph::{
    EdgeSource, GreedyScratch, PruneCandidate, PruneOptions, greedy_search, robust_prune,
};

/// A thread's scratch.
pub(crate) struct Worker {
    search: GreedyScratch,
    pool: Vec<PruneCandidate>,
    edges: Vec<u32>,
    back: Vec<u32>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { search: GreedyScratch::new(), pool: Vec::new(), edges: Vec::new(), back: Vec::new() }
    }

    /// Links `row` to what a search from `start` expands on its way.
    pub(crate) fn insert(
        &mut self,
        pair: &PairDistance<'_>,
        links: &Links,
        row: u32,
        start: u32,
        list: usize,
        prune: PruneOptions,
    ) {
        let distance = |n: u32| pair.distance(row as usize, n as usize);
        let prefetch = |n: u32| pair.prefetch(n as usize);
        greedy_search(links, start, list, distance, prefetch, &mut self.search);
        fill_pool(pair, row, &links.lock(row), &mut self.pool);
        self.pool.extend(self.search.expanded.iter().map(|&(distance, node)| PruneCandidate {
            distance,
            node,
            settled: false,
        }));
        self.choose(pair, links, row, prune);
    }

    /// Links `row` to what is left of `candidates`.
    pub(crate) fn link(
        &mut self,
        pair: &PairDistance<'_>,
        links: &Links,
        row: u32,
        candidates: impl Iterator<Item = u32>,
        prune: PruneOptions,
    ) {
        self.edges.clear();
        self.edges.extend(candidates);
        self.edges.iter().for_each(|&n| pair.prefetch(n as usize));
        fill_pool(pair, row, &links.lock(row), &mut self.pool);
        self.pool.extend(self.edges.iter().map(|&node| PruneCandidate {
            distance: pair.distance(row as usize, node as usize),
            node,
            settled: false,
        }));
        self.choose(pair, links, row, prune);
    }

    /// Prunes the pool to the edges of `row`, and links back.
    fn choose(&mut self, pair: &PairDistance<'_>, links: &Links, row: u32, prune: PruneOptions) {
        robust_prune(pair, row, &mut self.pool, prune, &mut self.edges);
        links.lock(row).replace(&self.edges);
        for k in 0..self.edges.len() {
            self.add_back_edge(pair, links, self.edges[k], row, prune);
        }
    }

    fn add_back_edge(
        &mut self,
        pair: &PairDistance<'_>,
        links: &Links,
        from: u32,
        to: u32,
        prune: PruneOptions,
    ) {
        let mut row = links.lock(from);
        if row.edges().any(|n| n == to) {
            return;
        }
        if !row.is_full() {
            row.push(to);
            return;
        }
        fill_pool(pair, from, &row, &mut self.pool);
        let distance = pair.distance(from as usize, to as usize);
        self.pool.push(PruneCandidate { distance, node: to, settled: false });
        robust_prune(pair, from, &mut self.pool, prune, &mut self.back);
        row.replace(&self.back);
    }

    /// Fills the free places of a finished list with the nearest nodes two steps away.
    ///
    /// A record has room for all edges whether they are used or not, so further ones cost no
    /// read, and they lead to near nodes that robust prune had left to a longer way.
    pub(crate) fn saturate(
        &mut self,
        pair: &PairDistance<'_>,
        links: &Links,
        node: u32,
        degree: usize,
    ) {
        let mut row = links.lock(node);
        self.edges.clear();
        self.edges.extend(row.edges());
        let free = degree.saturating_sub(self.edges.len());
        if free == 0 {
            return;
        }
        self.back.clear();
        for &near in self.edges.iter().take(FIRST) {
            let before = self.back.len();
            links.append(near, &mut self.back);
            self.back.truncate(before + SECOND);
        }
        self.back.sort_unstable();
        self.back.dedup();
        let edges = &self.edges;
        self.back.retain(|n| *n != node && !edges.contains(n));
        self.back.iter().for_each(|&n| pair.prefetch(n as usize));
        let candidate = |n: u32| PruneCandidate {
            distance: pair.distance(node as usize, n as usize),
            node: n,
            settled: false,
        };
        self.pool.clear();
        self.pool.extend(self.back.iter().map(|&n| candidate(n)));
        self.pool.sort_unstable_by(nearest_first);
        self.pool.truncate(free);
        self.pool.extend(self.edges.iter().map(|&n| candidate(n)));
        self.pool.sort_unstable_by(nearest_first);
        self.back.clear();
        self.back.extend(self.pool.iter().map(|c| c.node));
        row.replace(&self.back);
    }

    /// Cuts the list of `node` to its final degree and sorts it, nearest first.
    pub(crate) fn finish(
        &mut self,
        pair: &PairDistance<'_>,
        links: &Links,
        node: u32,
        prune: PruneOptions,
    ) {
        let mut row = links.lock(node);
        fill_pool(pair, node, &row, &mut self.pool);
        if self.pool.len() > prune.degree {
            robust_prune(pair, node, &mut self.pool, prune, &mut self.back);
        } else {
            self.pool.sort_unstable_by(nearest_first);
            self.back.clear();
            self.back.extend(self.pool.iter().map(|c| c.node));
        }
        row.replace(&self.back);
    }
}

/// The nearest edges of a node, and of each of these, that saturation looks at.
const FIRST: usize = 12;
const SECOND: usize = 10;

/// The edges of a row as candidates to prune.
fn fill_pool(
    pair: &PairDistance<'_>,
    node: u32,
    row: &LockedRow<'_>,
    pool: &mut Vec<PruneCandidate>,
) {
    row.edges().for_each(|n| pair.prefetch(n as usize));
    let settled = row.settled();
    pool.clear();
    pool.extend(row.edges().enumerate().map(|(i, n)| PruneCandidate {
        distance: pair.distance(node as usize, n as usize),
        node: n,
        settled: i < settled,
    }));
}

fn nearest_first(a: &PruneCandidate, b: &PruneCandidate) -> std::cmp::Ordering {
    a.distance.total_cmp(&b.distance).then(a.node.cmp(&b.node))
}
