//! The distance of vectors to one query.

use super::{Kernel, PairOp};
use crate::types::{Metric, VectorType};

/// A query made ready: its bytes, the kernel for the metric, and its norm.
#[derive(Clone, Copy, Debug)]
pub struct QueryDistance<'q> {
    metric: Metric,
    kernel: Kernel,
    query: &'q [u8],
    /// |q| for the cosine, the bits set in the query for Jaccard; else not used.
    norm: f32,
}

impl<'q> QueryDistance<'q> {
    /// Binds `query`, one vector of `ty` as raw bytes; its length gives the dimension.
    ///
    /// # Panics
    /// Where `query` is no whole number of components.
    pub fn new(metric: Metric, ty: VectorType, query: &'q [u8]) -> Self {
        let dim = ty.dim_of(query.len());
        assert_eq!(query.len(), ty.vector_bytes(dim), "query of ragged length");
        let op = match metric {
            Metric::L2 | Metric::Hamming => PairOp::SquaredL2,
            Metric::InnerProduct | Metric::Cosine | Metric::Jaccard => PairOp::Dot,
        };
        let kernel = Kernel::new(op, ty, dim);
        let norm = match metric {
            Metric::Cosine => kernel.squared_norm(query).sqrt(),
            Metric::Jaccard => kernel.squared_norm(query),
            Metric::L2 | Metric::InnerProduct | Metric::Hamming => 0.0,
        };
        Self { metric, kernel, query, norm }
    }

    /// The query's bytes.
    pub fn query(&self) -> &'q [u8] {
        self.query
    }

    /// The metric that distances are measured by.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Distance of `vector`, raw bytes of any alignment; smaller is nearer.
    ///
    /// L2 is squared, the inner product negated, and the cosine 1 - cos, where a zero vector
    /// on either side is at distance 1. Hamming counts the bits that differ; Jaccard is 1 - the
    /// share of common bits, and two vectors without a bit are at distance 1.
    ///
    /// # Panics
    /// Where `vector` differs from the query in length.
    #[inline]
    pub fn distance(&self, vector: &[u8]) -> f32 {
        let raw = self.kernel.eval(self.query, vector);
        match self.metric {
            Metric::L2 | Metric::Hamming => raw,
            Metric::InnerProduct => -raw,
            Metric::Jaccard => jaccard(raw, self.norm + self.kernel.squared_norm(vector)),
            Metric::Cosine => {
                let scale = self.norm * self.kernel.squared_norm(vector).sqrt();
                if scale == 0.0 { 1.0 } else { 1.0 - raw / scale }
            }
        }
    }
}

/// The Jaccard distance of two vectors with `common` bits, and `both` bits set in the one and the
/// other, counted twice where they are common.
#[inline]
pub(super) fn jaccard(common: f32, both: f32) -> f32 {
    let either = both - common;
    if either == 0.0 { 1.0 } else { (either - common) / either }
}
