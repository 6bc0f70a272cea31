//! Product quantisation: a vector is cut into subspaces, and each is replaced by the nearest of 256
//! centroids, one byte.
//!
//! Centroids are kept transposed. A subspace of d components is d rows of 256 values, row k
//! holding component k of all centroids, and subspaces follow each other; so the first
//! component of subspace s begins at 256 x its first dimension. Where `dim` is no multiple of
//! `code_bytes`, the first subspaces are one component wider.

use std::ops::Range;

use super::CENTROIDS;
use super::codebook_error::CodebookError;
use super::subspace::SubspaceKernel;

/// The centroids of all subspaces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    pub(super) dim: usize,
    /// Bytes of a code, which is the number of subspaces.
    pub(super) code_bytes: usize,
    pub(super) centroids: Vec<f32>,
}

impl Product {
    pub(super) fn from_parts(
        dim: usize,
        code_bytes: usize,
        centroids: Vec<f32>,
    ) -> Result<Self, CodebookError> {
        if code_bytes == 0 || code_bytes > dim {
            return Err(CodebookError::Shape { dim, code_bytes });
        }
        if Some(centroids.len()) != dim.checked_mul(CENTROIDS) {
            return Err(CodebookError::Centroids { dim, found: centroids.len() });
        }
        if !centroids.iter().all(|c| c.is_finite()) {
            return Err(CodebookError::NotFinite);
        }
        Ok(Self { dim, code_bytes, centroids })
    }

    /// The dimensions of subspace `s`.
    pub(super) fn span(&self, s: usize) -> Range<usize> {
        span(self.dim, self.code_bytes, s)
    }

    /// The transposed centroids of subspace `s`.
    pub(super) fn subspace(&self, s: usize) -> &[f32] {
        let span = self.span(s);
        &self.centroids[span.start * CENTROIDS..span.end * CENTROIDS]
    }

    /// The squared norm of the longest vector that a code stands for.
    pub(super) fn longest_squared(&self) -> f64 {
        let longest_of = |s: usize| {
            let mut squares = [0f64; CENTROIDS];
            for column in self.subspace(s).chunks_exact(CENTROIDS) {
                let parts = squares.iter_mut().zip(column);
                parts.for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
            }
            squares.into_iter().fold(0.0, f64::max)
        };
        (0..self.code_bytes).map(longest_of).sum()
    }

    /// Encodes as many rows as `codes` has room for.
    pub(super) fn encode_rows(&self, rows: &[f32], codes: &mut [u8]) {
        let kernel = SubspaceKernel::new();
        for s in 0..self.code_bytes {
            let (span, centroids) = (self.span(s), self.subspace(s));
            let codes = codes.chunks_exact_mut(self.code_bytes);
            for (row, code) in rows.chunks_exact(self.dim).zip(codes) {
                code[s] = kernel.nearest(centroids, &row[span.clone()]).0;
            }
        }
    }

    /// The vector that `code` stands for.
    pub(super) fn decode(&self, code: &[u8], out: &mut [f32]) {
        for (s, &c) in code.iter().enumerate() {
            let columns = self.subspace(s).chunks_exact(CENTROIDS);
            for (o, column) in out[self.span(s)].iter_mut().zip(columns) {
                *o = column[usize::from(c)];
            }
        }
    }
}

/// The dimensions of subspace `s` of `code_bytes`.
pub(super) fn span(dim: usize, code_bytes: usize, s: usize) -> Range<usize> {
    let (base, wider) = (dim / code_bytes, dim % code_bytes);
    let start = s * base + s.min(wider);
    start..start + base + usize::from(s < wider)
}
