//! The codebook: how vectors are coded, and encoding with it.
//!
//! It is of one of two kinds. Either has a file of its own; here is what they share.

use rayon::prelude::*;

use super::any_scale::minds_length;
use super::codebook_error::CodebookError;
use super::kind::CodeKind;
use super::load::load;
use super::product::Product;
use super::rabitq::Rabitq;
use super::train::{self, CodeOptions};
use crate::types::{Metric, VectorSet, VectorType};

/// Rows encoded together, so that a subspace's centroids are fetched once for all of them.
const ROWS_PER_BLOCK: usize = 32;

/// Rows on which the error of a codebook is measured when it has been trained.
const ERROR_ROWS: usize = 4096;

/// What codes of one metric and dimension mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    dim: usize,
    metric: Metric,
    version: u32,
    coder: Coder,
    /// Squared norm of the longest vector that a product code stands for, or of the mean.
    longest_squared: f64,
    training_error: Option<f32>,
}

/// One kind of codes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Coder {
    Product(Product),
    Rabitq(Rabitq),
}

impl Codebook {
    /// Trains on a sample of `set`, in parallel, on normalised vectors where the metric
    /// [normalises](Metric::normalises). Same input and options, same result on the same kind of
    /// CPU. The version is 1.
    ///
    /// The bytes of a code are as [`CodeKind::longest_within`] has it, and where that has none,
    /// the fewest. Any number of rows will do; without rows all centroids, or the mean, are zero.
    pub fn train(set: VectorSet<'_>, metric: Metric, o: &CodeOptions) -> Self {
        let dim = set.dim();
        let longest = o.kind.longest_within(dim, o.code_bytes);
        let code_bytes = longest.unwrap_or_else(|| o.kind.code_bytes_range(dim).0);
        let coder = match o.kind {
            _ if o.any_scale && minds_length(metric) => Coder::Rabitq(Rabitq::of_any_scale(dim, o)),
            CodeKind::Product => {
                let centroids = train::centroids(set, metric, code_bytes, o);
                Coder::Product(Product { dim, code_bytes, centroids })
            }
            CodeKind::Rabitq => {
                let mean = train::mean(set, metric, o);
                Coder::Rabitq(Rabitq::of_bytes(code_bytes, mean, o.seed))
            }
        };
        let mut book = Self::new(metric, 1, coder);
        book.training_error = book.error(set, ERROR_ROWS).filter(|e| e.is_finite());
        book
    }

    /// Options by which a codebook of the same kind and length is trained.
    pub fn options(&self, seed: u64) -> CodeOptions {
        CodeOptions {
            kind: self.kind(),
            code_bytes: self.code_bytes(),
            any_scale: self.is_any_scale(),
            seed,
            ..CodeOptions::for_dim(self.dim)
        }
    }

    /// The kind of its codes.
    pub fn kind(&self) -> CodeKind {
        match &self.coder {
            Coder::Product(_) => CodeKind::Product,
            Coder::Rabitq(_) => CodeKind::Rabitq,
        }
    }

    /// Whether its codes serve rows of any length.
    pub fn is_any_scale(&self) -> bool {
        self.kind() == CodeKind::Rabitq && self.longest_squared == 0.0
    }

    /// Bits of a component in a code; `None` where components are coded together.
    pub fn bits(&self) -> Option<usize> {
        match &self.coder {
            Coder::Product(_) => None,
            Coder::Rabitq(rabitq) => Some(rabitq.bits),
        }
    }

    /// The mean squared distance of up to `rows` rows, spread over `set`, from what their codes
    /// stand for; `None` where there is no row.
    ///
    /// # Panics
    /// Where `set` has another dimension.
    pub fn error(&self, set: VectorSet<'_>, rows: usize) -> Option<f32> {
        let count = rows.min(set.rows());
        let (mut row, mut decoded) = (vec![0f32; self.dim], vec![0f32; self.dim]);
        let mut code = vec![0; self.code_bytes()];
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

    /// Puts a codebook of product quantisation together from what
    /// [`centroids`](Self::centroids) and the other accessors gave.
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
        let coder = Coder::Product(Product::from_parts(dim, code_bytes, centroids)?);
        Ok(Self::new(metric, version, coder))
    }

    /// Puts a codebook of RaBitQ codes together.
    pub(super) fn of_rabitq(rabitq: Rabitq, metric: Metric, version: u32) -> Self {
        Self::new(metric, version, Coder::Rabitq(rabitq))
    }

    fn new(metric: Metric, version: u32, coder: Coder) -> Self {
        let (dim, longest_squared) = match &coder {
            Coder::Product(product) => (product.dim, product.longest_squared()),
            Coder::Rabitq(rabitq) => {
                let squares = rabitq.mean.iter().map(|&x| f64::from(x) * f64::from(x));
                (rabitq.mean.len(), squares.sum())
            }
        };
        Self { dim, metric, version, coder, longest_squared, training_error: None }
    }

    /// The same codebook under another version number.
    #[must_use]
    pub fn with_version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Bytes of a code.
    pub fn code_bytes(&self) -> usize {
        match &self.coder {
            Coder::Product(product) => product.code_bytes,
            Coder::Rabitq(rabitq) => rabitq.code_bytes(),
        }
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

    /// All centroids, transposed within each subspace, `dim x 256` values; none where the codes
    /// are of a kind without.
    pub fn centroids(&self) -> &[f32] {
        match &self.coder {
            Coder::Product(product) => &product.centroids,
            Coder::Rabitq(_) => &[],
        }
    }

    pub(super) fn longest_squared(&self) -> f64 {
        self.longest_squared
    }

    pub(super) fn coder(&self) -> &Coder {
        &self.coder
    }

    /// Encodes all rows of `set` into `out`, row after row, in parallel.
    ///
    /// # Panics
    /// Where `set` has another dimension, or `out` is not `rows x code_bytes` long.
    pub fn encode_all(&self, set: VectorSet<'_>, out: &mut [u8]) {
        assert_eq!(set.dim(), self.dim, "vectors and codebook differ in dimension");
        assert_eq!(out.len(), set.rows() * self.code_bytes(), "output for another number of rows");
        out.par_chunks_mut(ROWS_PER_BLOCK * self.code_bytes()).enumerate().for_each_init(
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
        assert_eq!(out.len(), self.code_bytes(), "output is no code");
        let mut row = vec![0f32; self.dim];
        load(vector, ty, self.metric, &mut row);
        self.encode_block(&row, out);
    }

    /// Encodes as many prepared rows as `codes` has room for.
    fn encode_block(&self, rows: &[f32], codes: &mut [u8]) {
        match &self.coder {
            Coder::Product(product) => product.encode_rows(rows, codes),
            Coder::Rabitq(rabitq) => rabitq.encode_rows(rows, codes),
        }
    }

    /// The vector that `code` stands for (of norm about 1 where the metric normalises), into `out`.
    ///
    /// # Panics
    /// Where `code` is not `code_bytes` or `out` not `dim` long.
    pub fn decode(&self, code: &[u8], out: &mut [f32]) {
        assert_eq!(code.len(), self.code_bytes(), "code of another length");
        assert_eq!(out.len(), self.dim, "output of another dimension");
        match &self.coder {
            Coder::Product(product) => product.decode(code, out),
            Coder::Rabitq(rabitq) => rabitq.decode(code, out),
        }
    }
}
