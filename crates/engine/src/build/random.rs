//! Orders and samples that repeat.

use crate::types::SplitMix64;

/// A stream of numbers that depends on its seed only.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed ^ 0x5851_F42D_4C95_7F2D))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, close enough to uniform for shuffling.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }
}

/// The numbers below `n` in an order that the seed decides.
pub(crate) fn shuffled(n: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    let mut random = Random::new(seed);
    for i in (1..n).rev() {
        order.swap(i, random.below(i + 1));
    }
    order
}
