//! Vamana in memory: insert every row into the graph, several threads at once.
//!
//! An insertion searches the graph so far from the medoid, prunes what the search expanded to
//! its out-edges, and adds itself to its neighbours' lists. A list may grow by a third over
//! the degree before it is pruned again, which saves most prunes. Rows enter in an order
//! shuffled by the seed, and in a second pass in the order of a walk through the graph, which
//! keeps the caches warm; with one thread the result depends on nothing else.

use std::sync::atomic::AtomicBool;

use super::links::{Links, LockedRow};
use super::progress::{Cancelled, Progress, Silent, Stage};
use super::random::shuffled;
use super::threads::{each_item, thread_count};
use super::walk::depth_first;
use crate::distance::PairDistance;
use crate::graph::{
    Adjacency, GreedyScratch, Neighbours, PruneCandidate, PruneOptions, greedy_search, robust_prune,
};
use crate::types::Metric;

/// How to build the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VamanaOptions {
    /// The most edges of a node.
    pub degree: usize,
    /// Candidate list of the search for neighbours.
    pub list: usize,
    /// Diversity slack of robust prune, on squared distances.
    pub alpha: f32,
    /// How often all rows are inserted. Before the last pass alpha is 1, and but for the inner
    /// product the list half as long, though no shorter than the degree: what that leaves undone
    /// the last pass does.
    pub passes: usize,
    /// Whether free places in a list are filled with the nearest nodes that were pruned.
    pub saturate: bool,
    /// Threads; 0 means one per CPU.
    pub threads: usize,
    /// Decides the order of insertion.
    pub seed: u64,
}

/// On a million SIFT rows these settings give at equal reads the recall of diskannpy's graph of the
/// same degree and list, on 120,000 sentence embeddings 0.005 less (docs/decisions/0004).
/// On 100,000 rows a second pass and full lists each raised the recall at equal reads.
impl Default for VamanaOptions {
    fn default() -> Self {
        Self { degree: 64, list: 96, alpha: 1.2, passes: 2, saturate: true, threads: 0, seed: 0 }
    }
}

/// Builds the graph over all rows of `pair`, searching from `start`.
///
/// Every node can be reached from `start`, and every list is sorted nearest first.
///
/// # Errors
/// [`Cancelled`] soon after `cancel` is set.
///
/// # Panics
/// Where `start` is no row, or an option that must be positive is zero.
pub fn vamana(
    pair: &PairDistance<'_>,
    start: u32,
    options: &VamanaOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Adjacency, Cancelled> {
    let rows = pair.set().rows();
    assert!((start as usize) < rows, "searches start at a row");
    assert!(options.degree > 0 && options.list > 0 && options.passes > 0, "options are positive");
    assert!(rows < u32::MAX as usize, "rows are numbered by u32");
    let degree = options.degree;
    let links = Links::new(rows, degree + (degree / 3).max(1));
    let mut order = shuffled(rows, options.seed);
    let threads = thread_count(options.threads);
    // Shorter than the degree it leaves clusters hard to reach, which no second pass repairs. By
    // inner product any shorter list does: recall fell by four points.
    let by_distance = pair.metric() != Metric::InnerProduct;
    let half = options.list.div_ceil(2).max(degree).min(options.list);
    let first_list = if by_distance { half } else { options.list };
    progress.stage(Stage::Graph, (rows * options.passes) as u64);
    for pass in 1..=options.passes {
        let last = pass == options.passes;
        let alpha = if last { options.alpha } else { 1.0 };
        let list = if last { options.list } else { first_list };
        let prune = PruneOptions { degree, alpha };
        let insert = |worker: &mut Worker, i: usize| {
            worker.insert(pair, &links, order[i], start, list, prune);
        };
        each_item(rows, threads, Worker::new, insert, progress, cancel)?;
        if pass < options.passes {
            order = depth_first(&links, &order);
        }
    }
    let prune = PruneOptions { degree, alpha: options.alpha };
    let finish = |worker: &mut Worker, i: usize| worker.finish(pair, &links, i as u32, prune);
    each_item(rows, threads, Worker::new, finish, &Silent, cancel)?;
    if options.saturate {
        let fill = |worker: &mut Worker, i: usize| worker.saturate(pair, &links, i as u32, degree);
        each_item(rows, threads, Worker::new, fill, &Silent, cancel)?;
    }
    let mut graph = links.into_adjacency(degree);
    super::reach::connect(&mut graph, pair, start);
    Ok(graph)
}

/// A thread's scratch.
struct Worker {
    search: GreedyScratch,
    pool: Vec<PruneCandidate>,
    edges: Vec<u32>,
    back: Vec<u32>,
}

impl Worker {
    fn new() -> Self {
        Self { search: GreedyScratch::new(), pool: Vec::new(), edges: Vec::new(), back: Vec::new() }
    }

    fn insert(
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
    fn saturate(&mut self, pair: &PairDistance<'_>, links: &Links, node: u32, degree: usize) {
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
    fn finish(&mut self, pair: &PairDistance<'_>, links: &Links, node: u32, prune: PruneOptions) {
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
