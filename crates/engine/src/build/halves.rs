//! The copy of rows that a graph is linked with.
//!
//! For each row that joins, linking reads thousands of others from all over memory, and waiting for
//! them is most of what a build does. So floats are copied as halves (f16) where these tell near rows
//! apart as well: half the memory, and half the cache lines. What stands in the index, and what codes
//! are trained on, are the rows as they were given.

use half::f16;
use rayon::prelude::*;

use super::huge::{huge_copy, with_capacity};
use crate::distance::PairDistance;
use crate::types::{Metric, VectorSet, VectorType};

/// Rows that are compared with each other, once as floats and once as halves.
const SAMPLE: usize = 1024;
/// By how much the distance of two of them that are nearest may differ.
const DISTANCE_OFF: f32 = 0.01;
/// By how much a row may differ from itself, in parts of its length. Rounding makes at most half of
/// that; more where components are too small for a half.
const ROW_OFF: f32 = 1.0 / 1024.0;
/// Distances that rounding of floats may make of none.
const NEARLY_EQUAL: f32 = 1e-6;

/// A copy of rows to be linked with, on huge pages, and the type of its components.
pub(crate) fn linking_copy(source: VectorSet<'_>, metric: Metric) -> (Vec<u8>, VectorType) {
    if !halves_do(source, metric) {
        return (huge_copy(source.bytes()), source.vector_type());
    }
    let mut halves = with_capacity(source.bytes().len() / 2);
    for component in source.bytes().as_chunks().0 {
        halves.extend_from_slice(&half_of(*component));
    }
    (halves, VectorType::F16)
}

/// Makes such a copy of the rows where they stand, and answers with the type of its components.
pub(crate) fn copy_in_place(
    bytes: &mut Vec<u8>,
    dim: usize,
    ty: VectorType,
    metric: Metric,
) -> VectorType {
    let set = VectorSet::new(bytes, dim, ty).expect("whole rows are a set");
    if !halves_do(set, metric) {
        return ty;
    }
    let components = bytes.len() / 4;
    for at in 0..components {
        let component = bytes[4 * at..4 * at + 4].try_into().expect("four bytes");
        bytes[2 * at..2 * at + 2].copy_from_slice(&half_of(component));
    }
    bytes.truncate(2 * components);
    VectorType::F16
}

fn half_of(component: [u8; 4]) -> [u8; 2] {
    f16::from_f32(f32::from_le_bytes(component)).to_le_bytes()
}

/// Whether rows are floats that halves stand for well enough to link by.
fn halves_do(set: VectorSet<'_>, metric: Metric) -> bool {
    set.vector_type() == VectorType::F32
        && are_near_in_halves(set, metric)
        && (0..set.rows())
            .into_par_iter()
            .with_min_len(SAMPLE)
            .all(|row| is_itself_in_halves(set.row(row)))
}

/// Whether a row differs little from what its halves stand for.
fn is_itself_in_halves(row: &[u8]) -> bool {
    let (mut length, mut off) = (0.0, 0.0);
    for component in row.as_chunks().0 {
        let x = f32::from_le_bytes(*component);
        let by = x - f16::from_f32(x).to_f32();
        length += x * x;
        off += by * by;
    }
    // False also where one of them is too large for a half.
    off <= ROW_OFF * ROW_OFF * length
}

/// Whether rows of a sample are as far from their nearest ones in halves as they are.
fn are_near_in_halves(set: VectorSet<'_>, metric: Metric) -> bool {
    let rows = set.rows();
    let sampled = SAMPLE.min(rows);
    let (mut floats, mut halves) = (Vec::new(), Vec::new());
    for at in 0..sampled {
        let row = set.row((at as u64 * rows as u64 / sampled as u64) as usize);
        floats.extend_from_slice(row);
        row.as_chunks().0.iter().for_each(|x| halves.extend_from_slice(&half_of(*x)));
    }
    let pairs = |bytes, ty| {
        PairDistance::new(
            metric,
            VectorSet::new(bytes, set.dim(), ty).expect("whole rows are a set"),
        )
    };
    let (floats, halves) = (pairs(&floats, VectorType::F32), pairs(&halves, VectorType::F16));
    (0..sampled).into_par_iter().all(|i| {
        let others = (0..sampled).filter(|&j| j != i).map(|j| (floats.distance(i, j), j));
        let apart = others.filter(|(distance, _)| *distance > NEARLY_EQUAL);
        let nearest = apart.min_by(|a, b| a.0.total_cmp(&b.0));
        nearest.is_none_or(|(distance, j)| {
            (halves.distance(i, j) - distance).abs() <= DISTANCE_OFF * distance
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::random::Random;
    use crate::types::{from_f32, to_f32};

    const DIM: usize = 16;

    /// Rows whose components are these of numbers between -1 and 1.
    fn rows(count: usize, component: impl Fn(usize, f32) -> f32) -> Vec<u8> {
        let mut random = Random::new(7);
        let mut bytes = Vec::new();
        for row in 0..count {
            let components: Vec<f32> = (0..DIM)
                .map(|_| component(row, random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0))
                .collect();
            from_f32(&components, VectorType::F32, &mut bytes);
        }
        bytes
    }

    fn copied(bytes: &[u8], metric: Metric) -> VectorType {
        let set = VectorSet::new(bytes, DIM, VectorType::F32).expect("a set");
        let (copy, ty) = linking_copy(set, metric);
        let mut moved = bytes.to_vec();
        assert_eq!(copy_in_place(&mut moved, DIM, VectorType::F32, metric), ty);
        assert!(moved == copy, "both ways are one");
        let copy = VectorSet::new(&copy, DIM, ty).expect("a set of as many");
        assert_eq!(copy.rows(), set.rows());
        let (mut before, mut after) = ([0.0; DIM], [0.0; DIM]);
        for row in 0..set.rows() {
            to_f32(set.row(row), VectorType::F32, &mut before);
            copy.row_f32(row, &mut after);
            let length = before.iter().map(|x| x * x).sum::<f32>().sqrt();
            let near = before.iter().zip(after).all(|(x, y)| (x - y).abs() <= length / 1024.0);
            assert!(near, "row {row}: {before:?}, {after:?}");
        }
        ty
    }

    const METRICS: [Metric; 3] = [Metric::L2, Metric::InnerProduct, Metric::Cosine];

    #[test]
    fn floats_are_linked_by_halves() {
        for metric in METRICS {
            assert_eq!(copied(&rows(3000, |_, x| x), metric), VectorType::F16, "{metric}");
            assert_eq!(copied(&rows(3000, |_, x| 1e-2 * x), metric), VectorType::F16, "{metric}");
            assert_eq!(copied(&rows(3000, |_, x| 300.0 * x), metric), VectorType::F16, "{metric}");
            assert_eq!(copied(&rows(1, |_, x| x), metric), VectorType::F16, "{metric}");
        }
        let equal = rows(3000, |_, _| 0.1);
        assert_eq!(copied(&equal, Metric::L2), VectorType::F16, "nothing tells them apart");
    }

    #[test]
    fn floats_that_halves_would_confuse_are_linked_as_they_are() {
        for metric in METRICS {
            let far = rows(3000, |_, x| 10.0 + 0.1 * x);
            assert_eq!(copied(&far, metric), VectorType::F32, "{metric}: far from the origin");
            let small = rows(3000, |_, x| 1e-7 * x);
            assert_eq!(copied(&small, metric), VectorType::F32, "{metric}: too small");
            let large = rows(3000, |_, x| 1e6 * x);
            assert_eq!(copied(&large, metric), VectorType::F32, "{metric}: too large");
            // One row, which no sample needs to have.
            let one = |scale: f32| rows(3000, |row, x| if row == 1234 { scale * x } else { x });
            assert_eq!(copied(&one(1e6), metric), VectorType::F32, "{metric}: one too large");
            assert_eq!(copied(&one(1e-6), metric), VectorType::F32, "{metric}: one too small");
        }
    }

    #[test]
    fn other_types_are_copied() {
        let bytes = rows(100, |_, x| x);
        for ty in [VectorType::F16, VectorType::BF16, VectorType::U8, VectorType::I8] {
            let set = VectorSet::new(&bytes, DIM, ty).expect("a set");
            let (copy, found) = linking_copy(set, Metric::L2);
            assert!(copy == bytes && found == ty, "{ty}");
            let mut moved = bytes.clone();
            assert_eq!(copy_in_place(&mut moved, DIM, ty, Metric::L2), ty);
            assert!(moved == bytes, "{ty}");
        }
    }
}
