//! Behaviour of the room, on small sets made from a seed.

mod diskann;
mod graph;
mod index;
mod limited;
mod order;
mod partition;

use super::random::Random;
use crate::types::{VectorSet, VectorType, from_f32};

/// Rows in clusters, as bytes of `ty`: what real embeddings look like more than noise does.
pub(super) struct Rows {
    bytes: Vec<u8>,
    dim: usize,
    ty: VectorType,
}

impl Rows {
    pub(super) fn clustered(rows: usize, dim: usize, ty: VectorType, seed: u64) -> Self {
        // The centres come from one seed, so that queries fall into the clusters of the rows.
        let mut random = Random::new(99);
        let mut unit = move || (random.next() >> 40) as f32 / (1u64 << 24) as f32;
        let centres: Vec<f32> = (0..24 * dim).map(|_| 60.0 + 140.0 * unit()).collect();
        let mut random = Random::new(seed);
        let mut bytes = Vec::new();
        let mut row = vec![0f32; dim];
        for _ in 0..rows {
            let centre = random.below(24) * dim;
            for (k, component) in row.iter_mut().enumerate() {
                let noise: f32 =
                    (0..4).map(|_| (random.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum();
                let value = centres[centre + k] + 40.0 * noise;
                *component = if ty == VectorType::U8 { value.floor() } else { value - 130.0 };
            }
            from_f32(&row, ty, &mut bytes);
        }
        Self { bytes, dim, ty }
    }

    pub(super) fn equal(rows: usize, dim: usize) -> Self {
        Self { bytes: vec![7; rows * dim], dim, ty: VectorType::U8 }
    }

    pub(super) fn set(&self) -> VectorSet<'_> {
        VectorSet::new(&self.bytes, self.dim, self.ty).expect("whole rows")
    }
}
