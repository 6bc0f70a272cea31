//! Distances among the rows of a set, as the graph builder needs them.
//!
//! Pruning compares sides of triangles, so every metric is given an L2-like geometry. The
//! inner product has none of its own: each row gets one more component a = sqrt(M^2 - |x|^2),
//! with M the largest norm, which makes all rows equally long; then the order by L2 is the
//! order by inner product for any query whose extra component is 0. The Jaccard distance obeys the
//! triangle inequality as it is.

use rayon::prelude::*;

use super::query::jaccard;
use super::{Kernel, PairOp, prefetch};
use crate::types::{Metric, VectorSet};

/// Rows that one task takes when norms are computed.
const ROWS_PER_TASK: usize = 4096;

/// Pair distances over a set of vectors, never negative, 0 (or nearly) for equal rows.
#[derive(Clone, Debug)]
pub struct PairDistance<'v> {
    metric: Metric,
    kernel: Kernel,
    set: VectorSet<'v>,
    /// Per row: 1/|x| (0 for a zero row) for the cosine, the extra component for the inner
    /// product, the number of set bits for Jaccard, nothing for L2 and Hamming.
    extra: Vec<f32>,
}

impl<'v> PairDistance<'v> {
    /// Prepares `set`; computes the norms in parallel where the metric needs them.
    pub fn new(metric: Metric, set: VectorSet<'v>) -> Self {
        let op = match metric {
            Metric::L2 | Metric::InnerProduct | Metric::Hamming => PairOp::SquaredL2,
            Metric::Cosine | Metric::Jaccard => PairOp::Dot,
        };
        let kernel = Kernel::new(op, set.vector_type(), set.dim());
        let squared_norms = || -> Vec<f32> {
            (0..set.rows())
                .into_par_iter()
                .with_min_len(ROWS_PER_TASK)
                .map(|i| kernel.squared_norm(set.row(i)))
                .collect()
        };
        let extra = match metric {
            Metric::L2 | Metric::Hamming => Vec::new(),
            Metric::Jaccard => squared_norms(),
            Metric::Cosine => {
                let mut norms = squared_norms();
                for n in &mut norms {
                    *n = if *n == 0.0 { 0.0 } else { 1.0 / n.sqrt() };
                }
                norms
            }
            Metric::InnerProduct => {
                let mut norms = squared_norms();
                let largest = norms.iter().copied().fold(0.0, f32::max);
                for n in &mut norms {
                    *n = (largest - *n).max(0.0).sqrt();
                }
                norms
            }
        };
        Self { metric, kernel, set, extra }
    }

    /// Distance between rows `i` and `j`: squared L2, 1 - cos, Hamming, Jaccard, or the squared L2
    /// of the augmented rows for the inner product.
    ///
    /// # Panics
    /// Where `i` or `j` is no row.
    #[inline]
    pub fn distance(&self, i: usize, j: usize) -> f32 {
        let raw = self.kernel.eval(self.set.row(i), self.set.row(j));
        match self.metric {
            Metric::L2 | Metric::Hamming => raw,
            Metric::Jaccard => jaccard(raw, self.extra[i] + self.extra[j]),
            Metric::Cosine => (1.0 - raw * self.extra[i] * self.extra[j]).max(0.0),
            Metric::InnerProduct => {
                let d = self.extra[i] - self.extra[j];
                raw + d * d
            }
        }
    }

    /// Components of a row as [`expand`](Self::expand) writes them.
    pub(crate) fn expanded_dim(&self) -> usize {
        self.set.dim() + usize::from(self.metric == Metric::InnerProduct)
    }

    /// Writes row `i` as floats of which inner products make distances, and returns its squared
    /// length: the row itself, of length 1 for the cosine, longer by its extra component for the
    /// inner product.
    ///
    /// # Panics
    /// Where `i` is no row, or `out` has another length than
    /// [`expanded_dim`](Self::expanded_dim).
    pub(crate) fn expand(&self, i: usize, out: &mut [f32]) -> f32 {
        let (components, extra) = out.split_at_mut(self.set.dim());
        self.set.row_f32(i, components);
        match self.metric {
            Metric::Cosine => components.iter_mut().for_each(|x| *x *= self.extra[i]),
            Metric::InnerProduct => extra[0] = self.extra[i],
            Metric::L2 | Metric::Hamming | Metric::Jaccard => {}
        }
        out.iter().map(|x| x * x).sum()
    }

    /// Turns products of an expanded row, whose squared length is `own`, with others of the squared
    /// lengths `norms` into distances; as [`distance`](Self::distance) but for rounding.
    pub(crate) fn of_products(&self, own: f32, norms: &[f32], products: &mut [f32]) {
        let pairs = products.iter_mut().zip(norms);
        match self.metric {
            Metric::L2 | Metric::Hamming | Metric::InnerProduct => {
                pairs.for_each(|(p, norm)| *p = (own + norm - 2.0 * *p).max(0.0));
            }
            Metric::Cosine => pairs.for_each(|(p, _)| *p = (1.0 - *p).max(0.0)),
            Metric::Jaccard => pairs.for_each(|(p, norm)| *p = jaccard(*p, own + norm).max(0.0)),
        }
    }

    /// The set that rows are taken from.
    pub fn set(&self) -> VectorSet<'v> {
        self.set
    }

    /// The metric it was made for.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Hints that row `i` will be used soon.
    ///
    /// # Panics
    /// Where `i` is no row.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        prefetch(self.set.row(i));
    }
}
