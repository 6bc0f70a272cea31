//! The codebook: the centroids of all subspaces, and encoding with them.
//!
//! Centroids are kept transposed. A subspace of d components is d rows of 256 values, row k
//! holding component k of all centroids, and subspaces follow each other; so the first
//! component of subspace s begins at 256 x its first dimension. Where `dim` is no multiple of
//! `code_bytes`, the first subspaces are one component wider.

use std::ops::Range;

use rayon::prelude::*;

use super::subspace::SubspaceKernel;
use super::{CENTROIDS, CodebookError, PqOptions, train};
use crate::types::{Metric, VectorSet, VectorType, to_f32};

/// Rows encoded together, so that a subspace's centroids are fetched once for all of them.
const ROWS_PER_BLOCK: usize = 32;

/// Trained centroids for one metric and dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    dim: usize,
    code_bytes: usize,
    metric: Metric,
    version: u32,
    centroids: Vec<f32>,
    training_error: Option<f32>,
}

/// Rows on which the error of a codebook is measured when it has been trained.
const ERROR_ROWS: usize = 4096;

impl Codebook {
    /// Trains on a sample of `set`, in parallel over subspaces, on normalised vectors where the
    /// metric [normalises](Metric::normalises). Same input and options, same result on the same kind of CPU. The version is 1.
    ///
    /// `code_bytes` is brought within 1 and the dimension. Any number of rows will do; without
    /// rows all centroids are zero.
    pub fn train(set: VectorSet<'_>, metric: Metric, o: &PqOptions) -> Self {
        let (dim, code_bytes) = (set.dim(), o.code_bytes.clamp(1, set.dim()));
        let centroids = train::centroids(set, metric, code_bytes, o);
        let mut book =
            Self { dim, code_bytes, metric, version: 1, centroids, training_error: None };
        book.training_error = book.error(set, ERROR_ROWS).filter(|e| e.is_finite());
        book
    }

    /// The mean squared distance of up to `rows` rows, spread over `set`, from what their codes
    /// stand for; `None` where there is no row.
    ///
    /// # Panics
    /// Where `set` has another dimension.
    pub fn error(&self, set: VectorSet<'_>, rows: usize) -> Option<f32> {
        let count = rows.min(set.rows());
        let (mut row, mut decoded) = (vec![0f32; self.dim], vec![0f32; self.dim]);
        let mut code = vec![0; self.code_bytes];
        let mut sum = 0f64;
        for i in 0..count {
            load(set.row(i * set.rows() / count), set.vector_type(), self.metric, &mut row);
            self.encode_block(&row, &mut code);
            self.decode(&code, &mut decoded);
            let squares = row.iter().zip(&decoded).map(|(x, y)| (x - y) * (x - y));
            sum += f64::from(squares.sum::<f32>());
        }
        (count > 0).then(|| (sum / count as f64) as f32)
    }

    /// The mean squared distance of up to `rows` rows, spread over `set`, from their mean: what the
    /// error would be if all of them had one code. 0 where there is no row.
    ///
    /// # Panics
    /// Where `set` has another dimension.
    pub fn spread(&self, set: VectorSet<'_>, rows: usize) -> f32 {
        let count = rows.min(set.rows());
        let mut row = vec![0f32; self.dim];
        let (mut sums, mut squares) = (vec![0f64; self.dim], 0f64);
        for i in 0..count {
            load(set.row(i * set.rows() / count), set.vector_type(), self.metric, &mut row);
            sums.iter_mut().zip(&row).for_each(|(sum, &x)| *sum += f64::from(x));
            squares += row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        }
        let n = count.max(1) as f64;
        let of_mean: f64 = sums.iter().map(|sum| (sum / n) * (sum / n)).sum();
        (squares / n - of_mean).max(0.0) as f32
    }

    /// The [`error`](Self::error) on the rows of the training; `None` where it is not known.
    pub fn training_error(&self) -> Option<f32> {
        self.training_error
    }

    /// The same codebook with what is known of the error on the rows of its training.
    #[must_use]
    pub fn with_training_error(self, training_error: Option<f32>) -> Self {
        Self { training_error, ..self }
    }

    /// Puts a codebook together from what [`centroids`](Self::centroids) and the other
    /// accessors gave.
    ///
    /// # Errors
    /// [`CodebookError`] where the parts do not fit each other or a centroid is not finite.
    pub fn from_parts(
        dim: usize,
        code_bytes: usize,
        metric: Metric,
        version: u32,
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
        Ok(Self { dim, code_bytes, metric, version, centroids, training_error: None })
    }

    /// The same codebook under another version number.
    #[must_use]
    pub fn with_version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Bytes of a code, which is the number of subspaces.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// Components of the vectors it encodes.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The metric it was trained for.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Which training of an index this is; codes are valid with their own version only.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// All centroids, transposed within each subspace (see the head of this file);
    /// `dim x 256` values.
    pub fn centroids(&self) -> &[f32] {
        &self.centroids
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

    /// Encodes all rows of `set` into `out`, row after row, in parallel.
    ///
    /// # Panics
    /// Where `set` has another dimension, or `out` is not `rows x code_bytes` long.
    pub fn encode_all(&self, set: VectorSet<'_>, out: &mut [u8]) {
        assert_eq!(set.dim(), self.dim, "vectors and codebook differ in dimension");
        assert_eq!(out.len(), set.rows() * self.code_bytes, "output for another number of rows");
        out.par_chunks_mut(ROWS_PER_BLOCK * self.code_bytes).enumerate().for_each_init(
            || vec![0f32; ROWS_PER_BLOCK * self.dim],
            |block, (chunk, codes)| {
                let first = chunk * ROWS_PER_BLOCK;
                for (r, row) in block.chunks_exact_mut(self.dim).enumerate() {
                    if let Some(bytes) = (first + r < set.rows()).then(|| set.row(first + r)) {
                        load(bytes, set.vector_type(), self.metric, row);
                    }
                }
                self.encode_block(block, codes);
            },
        );
    }

    /// Encodes one vector of `ty`, given as raw bytes.
    ///
    /// # Panics
    /// Where `vector` has another dimension, or `out` is not `code_bytes` long.
    pub fn encode(&self, vector: &[u8], ty: VectorType, out: &mut [u8]) {
        assert_eq!(out.len(), self.code_bytes, "output is no code");
        let mut row = vec![0f32; self.dim];
        load(vector, ty, self.metric, &mut row);
        self.encode_block(&row, out);
    }

    /// Encodes as many prepared rows as `codes` has room for.
    fn encode_block(&self, rows: &[f32], codes: &mut [u8]) {
        let kernel = SubspaceKernel::new();
        for s in 0..self.code_bytes {
            let (span, centroids) = (self.span(s), self.subspace(s));
            let codes = codes.chunks_exact_mut(self.code_bytes);
            for (row, code) in rows.chunks_exact(self.dim).zip(codes) {
                code[s] = kernel.nearest(centroids, &row[span.clone()]).0;
            }
        }
    }

    /// The vector that `code` stands for (of norm about 1 where the metric normalises), into `out`.
    ///
    /// # Panics
    /// Where `code` is not `code_bytes` or `out` not `dim` long.
    pub fn decode(&self, code: &[u8], out: &mut [f32]) {
        assert_eq!(code.len(), self.code_bytes, "code of another length");
        assert_eq!(out.len(), self.dim, "output of another dimension");
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

/// Converts a vector to what is encoded or looked up: normalised where the metric asks for it,
/// except that a zero vector stays zero.
pub(super) fn load(bytes: &[u8], ty: VectorType, metric: Metric, out: &mut [f32]) {
    to_f32(bytes, ty, out);
    if metric.normalises() {
        let norm = out.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm > 0.0 {
            let inverse = (1.0 / norm) as f32;
            out.iter_mut().for_each(|x| *x *= inverse);
        }
    }
}
