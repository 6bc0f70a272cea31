//! RaBitQ codes of 1 to 8 bits for each component (Gao and Long, SIGMOD 2024; with several bits,
//! Gao and others, arXiv 2409.09913).
//!
//! What a vector has beyond the mean is turned at random, after which its components are alike
//! whatever they were before. Each becomes one of 2^bits equidistant values, centred on zero; the
//! distance between these is chosen for every vector so that the code points in the vector's own
//! direction as well as it can. Where o is the vector without the mean, u the centred values and q
//! a query, o.q is estimated as u.q x (o.o / u.o). That is free of bias over rotations, and errs by
//! the distance between q and o times the angle between o and u: near vectors, which matter, are
//! ranked with small errors.
//!
//! A code: the factor o.o / u.o, the squared norm o.o, then the components in blocks of 64 (the
//! last one may be shorter), of each block all lowest bits, then all second lowest, and so on.
//! Component k of a block is bit k % 8 of byte k / 8.

use super::kind::{CodeKind, FACTOR_BYTES, padded};
use super::rotation::Rotation;

/// Components of a block.
pub(super) const BLOCK: usize = 64;

/// Distances between neighbouring values, in standard deviations, that suit normally distributed
/// components (Max 1960 and others); where the search for the best distance begins.
const STEPS: [f32; 8] = [1.596, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308];

/// Shares of the suitable distance from which the search begins, too.
const STARTS: [f32; 3] = [0.85, 1.0, 1.15];

/// Improvements of a distance; after these it hardly moves.
const IMPROVEMENTS: usize = 4;

/// What decides about codes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rabitq {
    pub(super) bits: usize,
    pub(super) mean: Vec<f32>,
    pub(super) seed: u64,
    pub(super) rotation: Rotation,
}

impl Rabitq {
    pub(super) fn new(bits: usize, mean: Vec<f32>, seed: u64) -> Self {
        let rotation = Rotation::new(padded(mean.len()), seed);
        Self { bits, mean, seed, rotation }
    }

    /// Codes of as many bits as go into `code_bytes`, at least one.
    pub(super) fn of_bytes(code_bytes: usize, mean: Vec<f32>, seed: u64) -> Self {
        let bits = code_bytes.saturating_sub(FACTOR_BYTES) / (padded(mean.len()) / 8);
        Self::new(bits.clamp(1, CodeKind::MOST_BITS), mean, seed)
    }

    pub(super) fn code_bytes(&self) -> usize {
        FACTOR_BYTES + self.bits * padded(self.mean.len()) / 8
    }

    /// What every component of a code is less than its centred value.
    fn half(&self) -> f32 {
        ((1u32 << self.bits) - 1) as f32 / 2.0
    }

    /// `row` without the mean, turned, into `out`, which is of padded length.
    pub(super) fn turned(&self, row: &[f32], out: &mut [f32]) {
        let (whole, rest) = out.split_at_mut(row.len());
        let pairs = row.iter().zip(&self.mean);
        whole.iter_mut().zip(pairs).for_each(|(out, (x, mean))| *out = x - mean);
        rest.fill(0.0);
        self.rotation.turn(out);
    }

    /// Encodes rows, each of the mean's length.
    pub(super) fn encode_rows(&self, rows: &[f32], codes: &mut [u8]) {
        let dim = self.mean.len();
        let mut turned = vec![0f32; padded(dim)];
        let mut values = vec![0f32; padded(dim)];
        for (row, code) in rows.chunks_exact(dim).zip(codes.chunks_exact_mut(self.code_bytes())) {
            self.turned(row, &mut turned);
            self.quantise(&turned, &mut values);
            let norm: f32 = turned.iter().map(|x| x * x).sum();
            let along: f32 =
                turned.iter().zip(&values).map(|(x, value)| x * (value - self.half())).sum();
            let factor = if along > 0.0 { norm / along } else { 0.0 };
            let (factors, blocks) = code.split_at_mut(FACTOR_BYTES);
            let known = |x: f32| if x.is_finite() { x } else { 0.0 };
            factors[..4].copy_from_slice(&known(factor).to_le_bytes());
            factors[4..].copy_from_slice(&known(norm).to_le_bytes());
            self.pack(&values, blocks);
        }
    }

    /// The value, from 0 to 2^bits - 1, of every component of `x`.
    fn quantise(&self, x: &[f32], values: &mut [f32]) {
        let deviation = (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
        let suitable = STEPS[self.bits - 1] * deviation;
        if !(suitable > 0.0 && suitable.is_finite()) {
            values.fill(0.0);
            return;
        }
        let mut best = (f32::NEG_INFINITY, suitable);
        let starts = if self.bits == 1 { &STARTS[1..2] } else { &STARTS };
        for start in starts {
            let mut step = suitable * start;
            for _ in 0..IMPROVEMENTS {
                let (along, squares) = self.fit(x, step);
                let cosine = along / squares.sqrt();
                if cosine > best.0 {
                    best = (cosine, step);
                }
                // The step by which these values come nearest to `x`.
                step = along / squares;
            }
        }
        let (inverse, half) = (1.0 / best.1, self.half());
        values.iter_mut().zip(x).for_each(|(value, &x)| *value = nearest(x * inverse, half) + half);
    }

    /// The products of the centred values, at this distance, with `x` and with themselves.
    fn fit(&self, x: &[f32], step: f32) -> (f32, f32) {
        let (inverse, half) = (1.0 / step, self.half());
        let (mut along, mut squares) = ([0f32; 8], [0f32; 8]);
        for x in x.as_chunks::<8>().0 {
            for ((along, squares), &x) in along.iter_mut().zip(&mut squares).zip(x) {
                let value = nearest(x * inverse, half);
                *along += x * value;
                *squares += value * value;
            }
        }
        (along.iter().sum(), squares.iter().sum())
    }

    fn pack(&self, values: &[f32], blocks: &mut [u8]) {
        let mut rest = blocks;
        for values in values.chunks(BLOCK) {
            let bytes = values.len() / 8;
            let (block, behind) = std::mem::take(&mut rest).split_at_mut(bytes * self.bits);
            rest = behind;
            block.fill(0);
            for (k, &value) in values.iter().enumerate() {
                let value = value as u8;
                for plane in 0..self.bits {
                    block[plane * bytes + k / 8] |= (value >> plane & 1) << (k % 8);
                }
            }
        }
    }

    /// The vector that `code` stands for: the one that estimates are of.
    pub(super) fn decode(&self, code: &[u8], out: &mut [f32]) {
        let factor = f32::from_le_bytes([code[0], code[1], code[2], code[3]]);
        let mut turned = vec![0f32; padded(self.mean.len())];
        let mut blocks = &code[FACTOR_BYTES..];
        for out in turned.chunks_mut(BLOCK) {
            let bytes = out.len() / 8;
            for (k, out) in out.iter_mut().enumerate() {
                let bit = |plane: usize| u32::from(blocks[plane * bytes + k / 8] >> (k % 8) & 1);
                let value: u32 = (0..self.bits).map(|plane| bit(plane) << plane).sum();
                *out = factor * (value as f32 - self.half());
            }
            blocks = &blocks[bytes * self.bits..];
        }
        self.rotation.turn_back(&mut turned);
        for ((out, x), mean) in out.iter_mut().zip(&turned).zip(&self.mean) {
            *out = x + mean;
        }
    }
}

/// The centred value nearest to `x`: a whole number less `half`, and within `half` of zero.
#[inline(always)]
fn nearest(x: f32, half: f32) -> f32 {
    // Adding and taking away 1.5 x 2^23 rounds to a whole number, without a call on any CPU.
    const ROUND: f32 = 12_582_912.0;
    let whole = (x.clamp(-half, half) + half + ROUND) - ROUND;
    whole - half
}
