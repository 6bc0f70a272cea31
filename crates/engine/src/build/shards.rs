//! Overlapping shards: each row in the two of some clusters that are nearest and have room.
//!
//! A graph is built over each shard by itself. A row that stands in two carries edges from one to
//! the other, so that their union is one graph (as DiskANN builds what memory does not hold).

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::error::BuildError;
use super::gather::in_pieces;
use super::leaves::nearest_of;
use super::progress::check_cancel;
use super::random::shuffled;
use super::source::RowSource;
use crate::distance::Products;
use crate::types::{Metric, VectorSet};

/// Shards that each row stands in.
pub(crate) const SPREAD: usize = 2;
/// Clusters that are asked for room, nearest first, before all others are.
const ASKED: usize = 8;
/// Rounds of k-means.
const ROUNDS: usize = 8;
/// Rows multiplied with all centroids at a time.
const BATCH: usize = 64;

/// Which rows stand in which shards.
pub(crate) struct Shards {
    /// The shards of each row; the first is where it shares pages.
    of: Vec<[u16; SPREAD]>,
    count: usize,
}

impl Shards {
    /// Sorts all rows into `count` shards of at most `room` rows around the means of clusters
    /// of `sample`.
    pub(crate) fn assign(
        source: &dyn RowSource,
        metric: Metric,
        sample: VectorSet<'_>,
        (count, room): (usize, usize),
        seed: u64,
        cancel: &AtomicBool,
    ) -> Result<Self, BuildError> {
        assert!(count * room >= SPREAD * source.rows() && count > SPREAD, "shards hold all rows");
        let centroids = k_means(&floats(sample, metric), sample.dim(), count, seed);
        let mut of = Vec::with_capacity(source.rows());
        let mut taken = vec![0; count];
        in_pieces(source, |_, set| {
            check_cancel(cancel)?;
            let rows = floats(set, metric);
            let asked = ASKED.min(count);
            for near in nearest(&rows, &centroids, asked).chunks_exact(asked) {
                // Where near ones are full, whoever has room takes the row.
                let all = near.iter().copied().chain(0..count as u32);
                let mut own = [u16::MAX; SPREAD];
                for i in 0..SPREAD {
                    let free = |&s: &u32| taken[s as usize] < room && !own.contains(&(s as u16));
                    let shard = all.clone().find(free).expect("there is room for all rows");
                    own[i] = shard as u16;
                    taken[shard as usize] += 1;
                }
                of.push(own);
            }
            Ok(())
        })?;
        Ok(Self { of, count })
    }

    /// Number of shards.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The shards of a row.
    pub(crate) fn of(&self, row: usize) -> [u16; SPREAD] {
        self.of[row]
    }

    /// The rows of a shard, ascending.
    pub(crate) fn members(&self, shard: usize) -> Vec<u32> {
        let rows = self.of.iter().enumerate();
        rows.filter(|(_, own)| own.contains(&(shard as u16))).map(|(row, _)| row as u32).collect()
    }

    /// Whether a row shares pages with those of `shard`.
    pub(crate) fn is_home(&self, row: u32, shard: usize) -> bool {
        usize::from(self.of[row as usize][0]) == shard
    }
}

/// The components of all rows, of length 1 where the metric sees only directions.
fn floats(set: VectorSet<'_>, metric: Metric) -> Vec<f32> {
    let mut all = vec![0.0; set.rows() * set.dim()];
    all.par_chunks_exact_mut(set.dim()).enumerate().for_each(|(i, out)| {
        set.row_f32(i, out);
        if metric.normalises() {
            let norm = out.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            out.iter_mut().for_each(|x| *x /= norm);
        }
    });
    all
}

/// Means of clusters, packed to be multiplied by rows.
struct Centroids {
    packed: Vec<f32>,
    norms: Vec<f32>,
    products: Products,
}

impl Centroids {
    fn new(means: &[f32], dim: usize) -> Self {
        let products = Products::new(dim);
        let mut packed = vec![0.0; products.packed_len(means.len() / dim)];
        products.pack(means, &mut packed);
        let norm = |mean: &[f32]| mean.iter().map(|x| x * x).sum();
        Self { packed, norms: means.chunks_exact(dim).map(norm).collect(), products }
    }
}

/// The `k` nearest centroids of each row.
fn nearest(rows: &[f32], centroids: &Centroids, k: usize) -> Vec<u32> {
    let count = centroids.norms.len();
    let width = centroids.packed.len() / centroids.products.dim();
    let batches = rows.par_chunks(BATCH * centroids.products.dim());
    let found = batches.flat_map_iter(|rows| {
        let mut products = vec![0.0; rows.len() / centroids.products.dim() * width];
        centroids.products.products(rows, &centroids.packed, &mut products);
        let (mut best, mut found) = (Vec::new(), Vec::new());
        for products in products.chunks_exact_mut(width) {
            let products = &mut products[..count];
            // Without the row's own length, which is the same for all.
            let pairs = products.iter_mut().zip(&centroids.norms);
            pairs.for_each(|(p, norm)| *p = norm - 2.0 * *p);
            nearest_of(products, k, &mut best);
            let until = found.len() + k;
            found.extend(best.iter().map(|b| b.1));
            // Rows so long that their products are no numbers are near nothing.
            found.resize(until, 0);
        }
        found
    });
    found.collect()
}

/// Means of `count` clusters of `points` by Lloyd's iterations.
fn k_means(points: &[f32], dim: usize, count: usize, seed: u64) -> Centroids {
    let rows = points.len() / dim;
    let order = shuffled(rows, seed ^ 0x5AD5);
    let mut means: Vec<f32> = Vec::with_capacity(count * dim);
    for i in 0..count {
        let row = order[i % rows] as usize;
        means.extend_from_slice(&points[row * dim..(row + 1) * dim]);
    }
    for _ in 0..ROUNDS {
        let nearest = nearest(points, &Centroids::new(&means, dim), 1);
        let (mut sums, mut counts) = (vec![0.0f64; count * dim], vec![0u32; count]);
        for (point, &mean) in points.chunks_exact(dim).zip(&nearest) {
            counts[mean as usize] += 1;
            let sum = &mut sums[mean as usize * dim..][..dim];
            sum.iter_mut().zip(point).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        // A cluster without points stays where it is.
        for (i, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let sums = &sums[i * dim..(i + 1) * dim];
            let means = &mut means[i * dim..(i + 1) * dim];
            means.iter_mut().zip(sums).for_each(|(mean, sum)| *mean = (sum / f64::from(n)) as f32);
        }
    }
    Centroids::new(&means, dim)
}
