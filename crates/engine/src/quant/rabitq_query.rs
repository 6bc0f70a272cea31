//! A query against RaBitQ codes: turned as the codes were, in 16-bit integers, so that scoring is
//! a product of integers and every kernel finds the same number.
//!
//! The distance between neighbouring integers is chosen so that neither a component nor a sum of
//! products with codes can overflow; it is at most 1/32,000 of the largest component, unless the
//! vectors have many thousand components.

use super::codes::CodesView;
use super::kind::{FACTOR_BYTES, padded};
use super::rabitq::{BLOCK, Rabitq};
use crate::types::Metric;

/// The largest integer of a component.
const LARGEST: f32 = 32_000.0;

/// Scores many codes. The CPU has what the function was chosen for; every id is a row of the
/// codes, which are as long as the query's, and there are as many estimates as ids.
pub(super) type ScoreFn = unsafe fn(&RabitqQuery, CodesView<'_>, &[u32], &mut [f32]);

/// Scratch for one query at a time: allocated once, refilled without allocating.
#[derive(Clone, Debug)]
pub(super) struct RabitqQuery {
    pub(super) bits: usize,
    /// Components of codes, a multiple of 8.
    pub(super) len: usize,
    turned: Vec<f32>,
    /// Components as integers, and zeros up to whole blocks.
    pub(super) whole: Vec<i16>,
    /// The same as 256 x high + low.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for AVX-512 only"))]
    pub(super) high: Vec<i8>,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for AVX-512 only"))]
    pub(super) low: Vec<i8>,
    /// (2^bits - 1) x the sum of all components.
    middle: i64,
    /// Estimate = 2 x (`bias` + `of_norm` x norm + `step` x factor x (2 x product - `middle`)). The
    /// halves of a distance are finite wherever the norms of both vectors are, and so is no part of
    /// it NaN.
    bias: f32,
    of_norm: f32,
    step: f32,
    /// Scores codes; only for a CPU that has what it was chosen for.
    pub(super) score: ScoreFn,
}

impl RabitqQuery {
    /// `score` is for codes of the coder's bits and for this CPU.
    pub(super) fn new(coder: &Rabitq, score: ScoreFn) -> Self {
        let len = padded(coder.mean.len());
        let blocks = len.next_multiple_of(BLOCK);
        Self {
            bits: coder.bits,
            len,
            turned: vec![0.0; len],
            whole: vec![0; blocks],
            high: vec![0; blocks],
            low: vec![0; blocks],
            middle: 0,
            bias: 0.0,
            of_norm: 0.0,
            step: 0.0,
            score,
        }
    }

    pub(super) fn code_bytes(&self) -> usize {
        FACTOR_BYTES + self.bits * self.len / 8
    }

    pub(super) fn bytes(&self) -> usize {
        4 * self.turned.capacity() + 4 * self.whole.capacity()
    }

    /// Prepares for `query`, normalised already where the metric asks for it.
    pub(super) fn fill(&mut self, coder: &Rabitq, metric: Metric, query: &[f32]) {
        match metric {
            Metric::L2 | Metric::Hamming => {
                coder.turned(query, &mut self.turned);
                let squared: f32 = self.turned.iter().map(|x| x * x).sum();
                (self.bias, self.of_norm) = (0.5 * squared, 0.5);
            }
            Metric::InnerProduct | Metric::Cosine | Metric::Jaccard => {
                self.turned[..query.len()].copy_from_slice(query);
                self.turned[query.len()..].fill(0.0);
                coder.rotation.turn(&mut self.turned);
                let with_mean: f32 = query.iter().zip(&coder.mean).map(|(x, mean)| x * mean).sum();
                let from = if metric.normalises() { 1.0 } else { 0.0 };
                (self.bias, self.of_norm) = (0.5 * (from - with_mean), 0.0);
            }
        }
        let step = self.round();
        // A product counts once among inner products, twice in a squared distance; half of it for
        // the values being doubled, and half for the estimate's.
        self.step = if self.of_norm == 0.0 { -0.25 * step } else { -0.5 * step };
    }

    /// Brings the components to integers; answers what 1 stands for.
    fn round(&mut self) -> f32 {
        let most = ((1u32 << self.bits) - 1) as f32;
        let (mut largest, mut sum) = (0f32, 0f32);
        for x in &self.turned {
            largest = largest.max(x.abs());
            sum += x.abs();
        }
        // What rounding adds to the sum is taken off before.
        let room = i32::MAX as f32 / most - self.len as f32;
        let step = (largest / LARGEST).max(sum / room);
        let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
        let mut total = 0;
        for (i, x) in self.turned.iter().enumerate() {
            let whole = (x * inverse).round_ties_even() as i16;
            let low = whole as i8;
            self.whole[i] = whole;
            self.low[i] = low;
            self.high[i] = ((i32::from(whole) - i32::from(low)) >> 8) as i8;
            total += i64::from(whole);
        }
        self.middle = total * i64::from((1u32 << self.bits) - 1);
        step
    }

    /// The estimate for a code, from the product of its components with the query's.
    #[inline(always)]
    pub(super) fn estimate(&self, code: &[u8], product: i32) -> f32 {
        let number =
            |at: usize| f32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]]);
        let centred = 2 * i64::from(product) - self.middle;
        2.0 * (self.bias + self.of_norm * number(4) + self.step * number(0) * centred as f32)
    }
}
