//! First edges from overlapping leaves: near rows are found by matrix products, then pruned.
//!
//! Within a leaf all rows are compared with all at once, at a fraction of what a search for each
//! would cost. A row keeps the nearest of what its leaves offer; robust prune and the edges back
//! are those of Vamana. Rows of samples, each a small part of the one before, also keep what is
//! near among themselves: these are the long edges that a search needs from far away.

use std::sync::atomic::AtomicBool;

use super::leaves::{Carving, NearestLeaders, carve, expand_all, groups, nearest_of};
use super::links::Links;
use super::progress::{Cancelled, Progress, Silent};
use super::random::{Random, shuffled};
use super::reservoir::Reservoirs;
use super::threads::{Shared, each_item, thread_count};
use super::vamana_options::VamanaOptions;
use super::worker::Worker;
use crate::distance::{PairDistance, Products};
use crate::graph::PruneOptions;

/// The most rows of a leaf.
const LEAF: usize = 1024;
/// The most leaders that rows are compared with at once.
const LEADERS: usize = 1000;
/// Groups that a row joins, and so the leaves that it stands in.
const SPREAD: usize = 3;
/// Near rows that a leaf offers to each of its rows.
const NEAR: usize = 16;
/// Candidates that a row keeps.
const KEPT: usize = 48;
/// One row in so many is in the next sample.
const SAMPLE: usize = 16;

/// Bytes that a row takes for its candidates and groups.
pub(crate) const ROW_BYTES: u64 = KEPT as u64 * 8 + 4 + 2 * SPREAD as u64 * 4;

/// Bytes of scratch for finding candidates among `rows` rows of `dim` components on so many threads.
pub(crate) fn scratch_bytes(rows: u64, dim: u64, threads: u64) -> u64 {
    let (most, leaders, spread) = (LEAF as u64, LEADERS as u64, SPREAD as u64);
    // Leaders draw twice as many groups as leaves would fill.
    let drawn = |rows: u64| rows.div_ceil(most / 2).clamp(1, leaders);
    let groups = if rows <= most { 1 } else { drawn(rows * spread) };
    let row = (dim + 1) * 4;
    // Leaders are there twice as long as they are packed, and so are the rows of a leaf.
    let carved = drawn(rows * spread / groups) * row * 2;
    let compared = rows.min(most) * (row * 2 + BATCH as u64 * 4);
    threads.min(groups) * (carved + compared) + groups * row * 2
}

/// Links all rows of `pair` to near ones, and those of samples to each other; `start` is in every
/// sample. Returns the rows in an order in which near ones follow each other.
///
/// # Errors
/// [`Cancelled`] soon after `cancel` is set.
pub(crate) fn link_near(
    pair: &PairDistance<'_>,
    start: u32,
    links: &Links,
    options: &VamanaOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Vec<u32>, Cancelled> {
    let rows = pair.set().rows();
    let threads = thread_count(options.threads);
    let mut random = Random::new(options.seed ^ 0x1EAF);
    let samples: Result<Vec<_>, Cancelled> = samples(rows, start, options)
        .into_iter()
        .map(|sample| Around::find(pair, sample, threads, &mut random, cancel))
        .collect();
    let samples = samples?;
    let all = Around::find(pair, (0..rows as u32).collect(), threads, &mut random, cancel)?;
    let prune = PruneOptions { degree: options.degree, alpha: options.alpha };
    let link = |worker: &mut Worker, i: usize| {
        let row = all.order[i];
        let far = samples.iter().flat_map(|sample| sample.of(row));
        worker.link(pair, links, row, all.of(row).chain(far), prune);
    };
    each_item(Shared::new(rows, threads), Worker::new, link, progress, cancel)?;
    Ok(all.order)
}

/// Samples of all rows, each with the start, as long as they are larger than a list of edges.
fn samples(rows: usize, start: u32, options: &VamanaOptions) -> Vec<Vec<u32>> {
    let order = shuffled(rows, options.seed);
    let sizes = std::iter::successors(Some(rows / SAMPLE), |size| Some(size / SAMPLE));
    let sample = |size: usize| {
        let mut sample = order[..size].to_vec();
        sample.push(start);
        sample.sort_unstable();
        sample.dedup();
        sample
    };
    sizes.take_while(|&size| size > options.degree).map(sample).collect()
}

/// Near rows of some rows among themselves.
struct Around {
    /// Ascending.
    rows: Vec<u32>,
    /// By position in the rows, as are the candidates.
    near: Reservoirs,
    /// The rows in an order in which near ones follow each other.
    order: Vec<u32>,
}

impl Around {
    fn find(
        pair: &PairDistance<'_>,
        rows: Vec<u32>,
        threads: usize,
        random: &mut Random,
        cancel: &AtomicBool,
    ) -> Result<Self, Cancelled> {
        let carving = Carving { leaf: LEAF, leaders: LEADERS, spread: SPREAD, threads };
        let near = Reservoirs::new(rows.len(), KEPT);
        let groups = groups(pair, &rows, &carving, random, cancel)?;
        let seed = random.next();
        let work = |(compare, leaders): &mut (Compare, NearestLeaders), i: usize| {
            let mut random = Random::new(seed ^ i as u64);
            carve(pair, &groups[i], &carving, &mut random, leaders, &mut |leaf| {
                compare.leaf(pair, &rows, leaf, &near);
            });
        };
        let scratch = || (Compare::new(pair.expanded_dim()), NearestLeaders::default());
        let each = Shared::new(groups.len(), threads).by(1);
        each_item(each, scratch, work, &Silent, cancel)?;
        let order = first_seen(&groups, &rows);
        Ok(Self { rows, near, order })
    }

    /// The candidates of `row`, none where it is not among the rows.
    fn of(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        let at = self.rows.binary_search(&row).ok();
        let near = at.into_iter().flat_map(|at| self.near.of(at));
        near.map(|n| self.rows[n as usize])
    }
}

/// All members of `groups`, which are `rows`, each where it comes first.
fn first_seen(groups: &[Vec<u32>], rows: &[u32]) -> Vec<u32> {
    let mut seen = vec![false; rows.len()];
    let mut order = Vec::with_capacity(rows.len());
    for &row in groups.iter().flatten() {
        if !std::mem::replace(&mut seen[position(rows, row) as usize], true) {
            order.push(row);
        }
    }
    order
}

fn position(rows: &[u32], row: u32) -> u32 {
    rows.binary_search(&row).expect("groups are made of the rows") as u32
}

/// Scratch for comparing the rows of a leaf.
struct Compare {
    products: Products,
    rows: Vec<f32>,
    norms: Vec<f32>,
    packed: Vec<f32>,
    found: Vec<f32>,
    best: Vec<(f32, u32)>,
    positions: Vec<u32>,
}

/// Rows multiplied with the whole leaf at a time.
const BATCH: usize = 48;

impl Compare {
    fn new(dim: usize) -> Self {
        let products = Products::new(dim);
        let (rows, norms, packed) = (Vec::new(), Vec::new(), Vec::new());
        let (found, best, positions) = (Vec::new(), Vec::new(), Vec::new());
        Self { products, rows, norms, packed, found, best, positions }
    }

    /// Offers the nearest of each row of a leaf to it, and it to them.
    fn leaf(
        &mut self,
        pair: &PairDistance<'_>,
        all: &[u32],
        leaf: &[u32],
        reservoirs: &Reservoirs,
    ) {
        let dim = pair.expanded_dim();
        expand_all(pair, leaf, &mut self.rows, &mut self.norms);
        self.packed.resize(self.products.packed_len(leaf.len()), 0.0);
        self.products.pack(&self.rows, &mut self.packed);
        self.positions.clear();
        self.positions.extend(leaf.iter().map(|&row| position(all, row)));
        let width = self.packed.len() / dim;
        for (batch, rows) in self.rows.chunks(BATCH * dim).enumerate() {
            self.found.resize(rows.len() / dim * width, 0.0);
            self.products.products(rows, &self.packed, &mut self.found);
            for (i, products) in self.found.chunks_exact_mut(width).enumerate() {
                let own = batch * BATCH + i;
                let distances = &mut products[..leaf.len()];
                pair.of_products(self.norms[own], &self.norms, distances);
                distances[own] = f32::INFINITY;
                nearest_of(distances, NEAR, &mut self.best);
                let at = self.positions[own];
                for &(distance, other) in &self.best {
                    let other = self.positions[other as usize];
                    reservoirs.offer(at as usize, distance, other);
                    reservoirs.offer(other as usize, distance, at);
                }
            }
        }
    }
}
