//! A small seeded generator: orders, samples and faults that repeat.
//!
//! SplitMix64 (Steele, Lea and Flood 2014) passes the usual tests, is a few instructions, and its
//! state is one number, which is all that has to be noted to have a run again. Not for secrets.

/// A stream of numbers that depends on its seed only.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0: the rest of a division, good for small bounds.
    pub fn rest_of(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number below `bound`, close enough to uniform for any: the upper half of a product.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    /// The first numbers of seed 1234567, as the reference implementation in C has them.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut numbers = SplitMix64::new(1_234_567);
        let found: Vec<u64> = (0..3).map(|_| numbers.next_u64()).collect();
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(found, known);
    }

    #[test]
    fn bounds_hold() {
        let mut numbers = SplitMix64::new(7);
        for bound in [1, 2, 3, 1000, u64::MAX] {
            for _ in 0..100 {
                assert!(numbers.below(bound) < bound && numbers.rest_of(bound) < bound);
                assert!((0.0..1.0).contains(&numbers.unit()));
            }
        }
    }
}
