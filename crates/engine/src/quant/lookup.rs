//! What a query needs to be compared with codes, for either kind of them.

use super::code_kernel::CodeKernel;
use super::codebook::{Codebook, Coder};
use super::load::load;
use super::product_table::ProductTable;
use super::rabitq_query::RabitqQuery;
use super::rabitq_score::score_fn;
use crate::types::{Metric, VectorType};

/// Scratch for one query at a time: allocated once, refilled without allocating.
#[derive(Clone, Debug)]
pub struct LookupTable {
    query: Vec<f32>,
    /// Estimates are of 1 - cos, and the metric is Jaccard.
    pub(super) jaccard: bool,
    pub(super) form: Form,
}

/// What belongs to one kind of codes.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Product(ProductTable),
    Rabitq(RabitqQuery),
}

impl LookupTable {
    /// Room for queries of `book`, with the fastest scoring for this CPU.
    pub fn new(book: &Codebook) -> Self {
        Self::build(book, CodeKernel::detected())
    }

    /// Room for queries of `book`, with the given scoring, or `None` where this CPU lacks it.
    pub fn with_kernel(book: &Codebook, kernel: CodeKernel) -> Option<Self> {
        kernel.is_available().then(|| Self::build(book, kernel))
    }

    /// `kernel` must be available.
    fn build(book: &Codebook, kernel: CodeKernel) -> Self {
        let form = match book.coder() {
            Coder::Product(product) => Form::Product(ProductTable::new(product, kernel)),
            Coder::Rabitq(rabitq) => {
                let score = score_fn(kernel.level(), rabitq.bits);
                Form::Rabitq(RabitqQuery::new(rabitq, score))
            }
        };
        Self { query: vec![0.0; book.dim()], jaccard: false, form }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let form = match &self.form {
            Form::Product(table) => table.bytes(),
            Form::Rabitq(query) => query.bytes(),
        };
        self.query.capacity() * 4 + form
    }

    /// Bytes of the codes it scores.
    pub fn code_bytes(&self) -> usize {
        match &self.form {
            Form::Product(table) => table.code_bytes(),
            Form::Rabitq(query) => query.code_bytes(),
        }
    }

    /// Prepares for `query`, one vector of `ty` as raw bytes. Estimates will be squared distances
    /// for L2 and Hamming, negated products for the inner product, and for the cosine and Jaccard
    /// come from 1 - cos (a zero query is at distance 1 from everything).
    ///
    /// # Panics
    /// Where `book` has another shape than the one this was made for, or `query` another
    /// dimension.
    pub fn fill(&mut self, book: &Codebook, query: &[u8], ty: VectorType) {
        assert!(
            book.dim() == self.query.len() && book.code_bytes() == self.code_bytes(),
            "table made for a codebook of another shape"
        );
        let metric = book.metric();
        load(query, ty, metric, &mut self.query);
        self.jaccard = metric == Metric::Jaccard;
        match (&mut self.form, book.coder()) {
            (Form::Product(table), Coder::Product(product)) => {
                table.fill(product, metric, &self.query);
            }
            (Form::Rabitq(form), Coder::Rabitq(rabitq)) => form.fill(rabitq, metric, &self.query),
            _ => panic!("table made for codes of another kind"),
        }
    }
}
