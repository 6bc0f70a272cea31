//! Chance with a seed, so that a crash repeats.

use pipeann_engine::types::SplitMix64;

/// A stream of numbers that depends on its seed only.
pub(super) struct CrashChance(SplitMix64);

impl CrashChance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `most`, both included.
    pub(super) fn up_to(&mut self, most: usize) -> usize {
        self.0.below(most as u64 + 1) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}
