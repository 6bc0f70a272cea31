//! Chance from a seed, as the engine's `types::SplitMix64`, which is out of reach for this crate.

/// SplitMix64; the state is all there is.
#[derive(Debug)]
pub struct SimulatedDice(pub u64);

impl SimulatedDice {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }
}
