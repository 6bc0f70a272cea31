//! Chance for codes: training draws its samples from it, and a rotation its signs.

use crate::types::SplitMix64;

/// What is drawn, from a seed.
pub(super) struct Draws(SplitMix64);

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.rest_of(n as u64) as usize
    }

    /// Within 0..1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}
