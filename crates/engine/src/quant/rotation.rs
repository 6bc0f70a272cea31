//! A random rotation that costs n log n: signs by chance and a Hadamard transform, some times over.
//!
//! A transform takes a power of two of components. Where there are others, each round transforms
//! the first of them and then the last, as many as the largest power of two has; the two overlap,
//! so that a few rounds mix everything. Every step keeps lengths, so the whole is a rotation (or
//! a reflection), and its inverse takes the steps backwards.

use super::draws::Draws;

/// Rounds: after one, sparse vectors still show; from three on nothing was gained.
const ROUNDS: usize = 3;

/// A rotation of vectors of one length.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rotation {
    /// Components.
    len: usize,
    /// 1 or -1 for each component, round after round.
    signs: Vec<f32>,
}

impl Rotation {
    /// The rotation that `seed` stands for; `len` is not 0.
    pub(super) fn new(len: usize, seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let sign = |draw: u64| if draw >> 63 == 0 { 1.0 } else { -1.0 };
        let signs = (0..len * ROUNDS).map(|_| sign(draws.next())).collect();
        Self { len, signs }
    }

    /// Components transformed together.
    fn window(&self) -> usize {
        1 << self.len.ilog2()
    }

    /// Turns `x`.
    pub(super) fn turn(&self, x: &mut [f32]) {
        let window = self.window();
        for signs in self.signs.chunks_exact(self.len) {
            x.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            hadamard(&mut x[..window]);
            if window < self.len {
                hadamard(&mut x[self.len - window..]);
            }
        }
    }

    /// Undoes [`turn`](Self::turn).
    pub(super) fn turn_back(&self, x: &mut [f32]) {
        let window = self.window();
        for signs in self.signs.chunks_exact(self.len).rev() {
            if window < self.len {
                hadamard(&mut x[self.len - window..]);
            }
            hadamard(&mut x[..window]);
            x.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
        }
    }
}

/// The Hadamard transform that keeps lengths, its own inverse; `x` has a power of two of values.
fn hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (x.len() as f32).sqrt();
    x.iter_mut().for_each(|x| *x *= scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + 11) % 101) as f32 - 50.0).collect()
    }

    #[test]
    fn lengths_are_kept_and_turning_back_restores() {
        for len in [8, 16, 24, 104, 128, 384, 1000] {
            let rotation = Rotation::new(len, 7);
            let (before, mut x) = (values(len), values(len));
            rotation.turn(&mut x);
            let norm = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>();
            assert!((norm(&x) / norm(&before) - 1.0).abs() < 1e-4, "{len}");
            assert_ne!(x, before);
            rotation.turn_back(&mut x);
            assert!(x.iter().zip(&before).all(|(x, y)| (x - y).abs() < 1e-3), "{len}");
        }
    }

    #[test]
    fn one_component_is_spread_over_all() {
        for len in [24, 128, 384] {
            let mut x = vec![0.0; len];
            x[0] = 1.0;
            Rotation::new(len, 3).turn(&mut x);
            let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
            assert!(most < 5.0 / (len as f32).sqrt(), "{len}: {most}");
        }
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(Rotation::new(64, 1), Rotation::new(64, 1));
        assert_ne!(Rotation::new(64, 1), Rotation::new(64, 2));
    }
}
