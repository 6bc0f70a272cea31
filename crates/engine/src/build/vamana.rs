//! Vamana in memory: link near rows, then insert every row into the graph, several threads at once.
//!
//! The first pass links rows to near ones that are found without a search. An insertion searches
//! the graph so far from the medoid, prunes what the search expanded to its out-edges, and adds
//! itself to its neighbours' lists. A list may grow by a third over the degree before it is pruned
//! again, which saves most prunes. Rows enter in the order of a walk through the graph, which keeps
//! the caches warm, or where there is one pass only in an order shuffled by the seed; with one thread
//! the result depends on nothing else.

use std::sync::atomic::AtomicBool;

use super::leaf_links::link_near;
use super::links::Links;
use super::progress::{Cancelled, Progress, Silent, Stage};
use super::random::shuffled;
use super::threads::{Shared, each_item, thread_count};
use super::vamana_options::VamanaOptions;
use super::walk::depth_first;
use super::worker::Worker;
use crate::distance::PairDistance;
use crate::graph::{Adjacency, PruneOptions};
use crate::types::Metric;

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
    let threads = thread_count(options.threads);
    // By inner product what leads to long vectors counts more than what is near: recall fell by a
    // point with first edges from leaves, and by four with any shorter list.
    let by_distance = pair.metric() != Metric::InnerProduct;
    let from_leaves = by_distance && options.passes > 1;
    // Shorter than the degree it leaves clusters hard to reach, which no further pass repairs.
    let shorter = (options.list * 2 / 3).max(degree).min(options.list);
    let list = if from_leaves { shorter } else { options.list };
    progress.stage(Stage::Graph, (rows * options.passes) as u64);
    let mut order = shuffled(rows, options.seed);
    for pass in 1..=options.passes {
        if pass == 1 && from_leaves {
            order = link_near(pair, start, &links, options, progress, cancel)?;
        } else {
            let last = pass == options.passes;
            let alpha = if last { options.alpha } else { 1.0 };
            let prune = PruneOptions { degree, alpha };
            let insert = |worker: &mut Worker, i: usize| {
                worker.insert(pair, &links, order[i], start, list, prune);
            };
            each_item(Shared::new(rows, threads), Worker::new, insert, progress, cancel)?;
        }
        if pass < options.passes {
            order = depth_first(&links, &order);
        }
    }
    finish(pair, links, start, options, cancel)
}

/// Prunes all lists to the degree, fills what is free, and connects what cannot be reached.
fn finish(
    pair: &PairDistance<'_>,
    links: Links,
    start: u32,
    options: &VamanaOptions,
    cancel: &AtomicBool,
) -> Result<Adjacency, Cancelled> {
    let degree = options.degree;
    let rows = Shared::new(pair.set().rows(), thread_count(options.threads));
    let prune = PruneOptions { degree, alpha: options.alpha };
    let finish = |worker: &mut Worker, i: usize| worker.finish(pair, &links, i as u32, prune);
    each_item(rows, Worker::new, finish, &Silent, cancel)?;
    if options.saturate {
        let fill = |worker: &mut Worker, i: usize| worker.saturate(pair, &links, i as u32, degree);
        each_item(rows, Worker::new, fill, &Silent, cancel)?;
    }
    let mut graph = links.into_adjacency(degree);
    super::reach::connect(&mut graph, pair, start);
    Ok(graph)
}
