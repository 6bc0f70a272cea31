//! Training of a codebook: k-means in every subspace, or only the mean.
//!
//! Centroids start from k-means++ on a few thousand rows, then follow Lloyd's iterations on
//! the whole sample. A cluster that runs empty moves to the row that is worst served. Seeds
//! are derived from the subspace's number, so the result does not depend on threads.

use rayon::prelude::*;

use super::CENTROIDS;
use super::draws::Draws;
use super::kind::CodeKind;
use super::load::load;
use super::product::span;
use super::subspace::SubspaceKernel;
use crate::distance::{Kernel, PairOp};
use crate::types::{Metric, VectorSet, part_to_f32};

/// Rows that k-means++ draws its starting points from; more cost time and change little.
const START_ROWS: usize = 4096;

/// How a codebook is trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeOptions {
    /// What codes are made of.
    pub kind: CodeKind,
    /// Bytes of a code, at most; see [`default_code_bytes`](super::default_code_bytes).
    pub code_bytes: usize,
    /// Codes of any scale: RaBitQ about the origin, of `code_bytes` or what suits it, whatever the
    /// kind. Without meaning where a metric leaves lengths out, or has bits.
    pub any_scale: bool,
    /// Rows of the sample; at least 1 and at most 65536 are used.
    pub training_rows: usize,
    /// Most iterations of Lloyd's algorithm; it stops earlier when nothing moves.
    pub iterations: usize,
    /// Where chance starts.
    pub seed: u64,
}

impl CodeOptions {
    /// The largest sample used.
    pub const MOST_TRAINING_ROWS: usize = 65_536;

    /// Sensible options for vectors of `dim` components.
    pub fn for_dim(dim: usize) -> Self {
        Self {
            kind: CodeKind::Product,
            code_bytes: super::default_code_bytes(dim),
            any_scale: false,
            training_rows: Self::MOST_TRAINING_ROWS,
            iterations: 12,
            seed: 0,
        }
    }
}

/// Centroids of all subspaces in the codebook's layout.
pub(super) fn centroids(
    set: VectorSet<'_>,
    metric: Metric,
    code_bytes: usize,
    o: &CodeOptions,
) -> Vec<f32> {
    let sample =
        sample(set.rows(), o.training_rows.clamp(1, CodeOptions::MOST_TRAINING_ROWS), o.seed);
    let kernel = Kernel::new(PairOp::Dot, set.vector_type(), set.dim());
    let scales: Vec<f32> = sample
        .iter()
        .map(|&row| match metric.normalises().then(|| kernel.squared_norm(set.row(row))) {
            None | Some(0.0) => 1.0,
            Some(squared) => 1.0 / squared.sqrt(),
        })
        .collect();
    let parts: Vec<Vec<f32>> = (0..code_bytes)
        .into_par_iter()
        .map(|s| {
            let span = span(set.dim(), code_bytes, s);
            let mut points = vec![0f32; sample.len() * span.len()];
            for ((point, &row), &scale) in
                points.chunks_exact_mut(span.len()).zip(&sample).zip(&scales)
            {
                part_to_f32(set.row(row), set.vector_type(), span.start, point);
                point.iter_mut().for_each(|x| *x *= scale);
            }
            let mut draws = Draws::new(o.seed ^ (s as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
            k_means(&points, span.len(), o.iterations, &mut draws)
        })
        .collect();
    parts.concat()
}

/// The mean of a sample, of normalised vectors where the metric normalises.
pub(super) fn mean(set: VectorSet<'_>, metric: Metric, o: &CodeOptions) -> Vec<f32> {
    let sample =
        sample(set.rows(), o.training_rows.clamp(1, CodeOptions::MOST_TRAINING_ROWS), o.seed);
    let (mut sums, mut row) = (vec![0f64; set.dim()], vec![0f32; set.dim()]);
    for &at in &sample {
        load(set.row(at), set.vector_type(), metric, &mut row);
        sums.iter_mut().zip(&row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let mean = |sum: &f64| (sum / sample.len().max(1) as f64) as f32;
    sums.iter().map(mean).map(|x| if x.is_finite() { x } else { 0.0 }).collect()
}

/// `wanted` distinct rows, or all, in ascending order: one from each of as many strata.
fn sample(rows: usize, wanted: usize, seed: u64) -> Vec<usize> {
    if rows <= wanted {
        return (0..rows).collect();
    }
    let mut draws = Draws::new(seed);
    let edge = |k: usize| (k as u128 * rows as u128 / wanted as u128) as usize;
    (0..wanted).map(|k| edge(k) + draws.below(edge(k + 1) - edge(k))).collect()
}

/// Transposed centroids for `points`, rows of `width` components.
fn k_means(points: &[f32], width: usize, iterations: usize, draws: &mut Draws) -> Vec<f32> {
    let rows = points.len() / width;
    let mut centroids = vec![0f32; width * CENTROIDS];
    if rows == 0 {
        return centroids;
    }
    start(points, width, &mut centroids, draws);
    let kernel = SubspaceKernel::new();
    let mut nearest = vec![(0u8, 0f32); rows];
    for iteration in 0..iterations {
        let mut moved = iteration == 0;
        for (point, held) in points.chunks_exact(width).zip(&mut nearest) {
            let found = kernel.nearest(&centroids, point);
            moved |= found.0 != held.0;
            *held = found;
        }
        if !moved {
            break;
        }
        let empty = move_to_means(points, width, &nearest, &mut centroids);
        reseed(points, width, &nearest, &empty, &mut centroids);
    }
    centroids
}

/// Chooses starting centroids by k-means++: each next one with a chance proportional to its
/// squared distance from those chosen.
fn start(points: &[f32], width: usize, centroids: &mut [f32], draws: &mut Draws) {
    let rows = points.len() / width;
    let pool: Vec<&[f32]> =
        sample(rows, START_ROWS, draws.next()).iter().map(|&i| row(points, width, i)).collect();
    let mut distances = vec![f32::INFINITY; pool.len()];
    let mut chosen = draws.below(pool.len());
    for c in 0..CENTROIDS {
        place(centroids, c, pool[chosen]);
        let mut total = 0f64;
        for (held, point) in distances.iter_mut().zip(&pool) {
            let d: f32 = point.iter().zip(pool[chosen]).map(|(x, y)| (x - y) * (x - y)).sum();
            *held = held.min(d);
            total += f64::from(*held);
        }
        // Where all rows coincide with a centroid, the rest of the centroids repeat one.
        let mut target = draws.unit() * total;
        chosen = distances
            .iter()
            .position(|&d| {
                target -= f64::from(d);
                target < 0.0
            })
            .unwrap_or(chosen);
    }
}

/// Moves every centroid to the mean of its rows; answers which have none.
fn move_to_means(
    points: &[f32],
    width: usize,
    nearest: &[(u8, f32)],
    centroids: &mut [f32],
) -> Vec<usize> {
    let mut sums = vec![0f64; CENTROIDS * width];
    let mut counts = [0u32; CENTROIDS];
    for (point, &(c, _)) in points.chunks_exact(width).zip(nearest) {
        counts[usize::from(c)] += 1;
        let sum = &mut sums[usize::from(c) * width..][..width];
        sum.iter_mut().zip(point).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    for (c, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        for (k, sum) in sums[c * width..][..width].iter().enumerate() {
            centroids[k * CENTROIDS + c] = (sum / f64::from(count)) as f32;
        }
    }
    (0..CENTROIDS).filter(|&c| counts[c] == 0).collect()
}

/// Moves the empty clusters' centroids to the rows that are farthest from theirs.
fn reseed(
    points: &[f32],
    width: usize,
    nearest: &[(u8, f32)],
    empty: &[usize],
    centroids: &mut [f32],
) {
    if empty.is_empty() {
        return;
    }
    let mut far: Vec<usize> = (0..nearest.len()).filter(|&i| nearest[i].1 > 0.0).collect();
    far.sort_by(|&i, &j| nearest[j].1.total_cmp(&nearest[i].1));
    for (&c, &i) in empty.iter().zip(&far) {
        place(centroids, c, row(points, width, i));
    }
}

fn row(points: &[f32], width: usize, i: usize) -> &[f32] {
    &points[i * width..(i + 1) * width]
}

/// Writes centroid `c` into the transposed layout.
fn place(centroids: &mut [f32], c: usize, point: &[f32]) {
    for (k, &x) in point.iter().enumerate() {
        centroids[k * CENTROIDS + c] = x;
    }
}
