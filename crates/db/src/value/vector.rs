//! Checks of a vector's bytes: components that are numbers, sparse pairs in order.

use pipeann_engine::types::{self, Unfit, VectorType};

use super::types::VectorKind;

/// Bytes of one pair of a sparse vector.
const SPARSE_PAIR_BYTES: usize = 8;

/// Why no distance can be computed of a vector; nothing is told of sparse ones, see
/// [`check_sparse`].
pub fn unfit(kind: VectorKind, bytes: &[u8]) -> Option<Unfit> {
    types::unfit(bytes, kind.engine_type()?)
}

/// The halves that are nearest to these floats (4 bytes each, little-endian), where `kind` is one of
/// halves. A float that none is near to becomes infinite, which [`unfit`] finds. Bytes beyond the
/// last whole float are left out.
pub fn to_halves(floats: &[u8], kind: VectorKind) -> Option<Vec<u8>> {
    let halves @ (VectorType::F16 | VectorType::BF16) = kind.engine_type()? else {
        return None;
    };
    let components: Vec<f32> =
        floats.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect();
    let mut out = Vec::with_capacity(components.len() * 2);
    types::from_f32(&components, halves, &mut out);
    Some(out)
}

/// Why bytes are no sparse vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SparseError {
    /// A part of a pair.
    #[error("{bytes} bytes are no whole number of pairs of 4-byte index and 4-byte value")]
    Ragged {
        /// Bytes found.
        bytes: usize,
    },
    /// Indices out of order, or one twice.
    #[error("index {index} follows index {previous}; indices have to ascend")]
    Order {
        /// The index before.
        previous: u32,
        /// The index found.
        index: u32,
    },
    /// The largest u32 is no index.
    #[error("index 4294967295 is reserved; indices go up to 4294967294")]
    Index,
    /// NaN or infinity.
    #[error("the value at index {index} is NaN or infinite")]
    NotFinite {
        /// Its index.
        index: u32,
    },
}

/// Checks a sparse vector: whole pairs, indices ascending and below the largest u32, values
/// finite. A vector without pairs is fine.
///
/// # Errors
/// [`SparseError`] with the first index that breaks a rule.
pub fn check_sparse(bytes: &[u8]) -> Result<(), SparseError> {
    let (pairs, rest) = bytes.as_chunks::<SPARSE_PAIR_BYTES>();
    if !rest.is_empty() {
        return Err(SparseError::Ragged { bytes: bytes.len() });
    }
    let mut previous: Option<u32> = None;
    for &[i0, i1, i2, i3, v0, v1, v2, v3] in pairs {
        let index = u32::from_le_bytes([i0, i1, i2, i3]);
        if let Some(previous) = previous.filter(|&previous| previous >= index) {
            return Err(SparseError::Order { previous, index });
        }
        if index == u32::MAX {
            return Err(SparseError::Index);
        }
        if !f32::from_le_bytes([v0, v1, v2, v3]).is_finite() {
            return Err(SparseError::NotFinite { index });
        }
        previous = Some(index);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(pairs: &[(u32, f32)]) -> Vec<u8> {
        pairs.iter().flat_map(|(i, v)| [i.to_le_bytes(), v.to_le_bytes()]).flatten().collect()
    }

    #[test]
    fn vectors_without_a_distance_are_found_in_every_float_kind() {
        let float = |v: f32| v.to_le_bytes().to_vec();
        for (kind, finite, infinite, nan) in [
            (VectorKind::Float, float(1.8e19), float(f32::INFINITY), float(f32::NAN)),
            (VectorKind::Float16, vec![0xff, 0xfb], vec![0x00, 0xfc], vec![0x01, 0x7c]),
            (VectorKind::BFloat16, vec![0x7a, 0x5f], vec![0x80, 0xff], vec![0xc0, 0x7f]),
        ] {
            let many = finite.repeat(9);
            let too_long = unfit(kind, &many);
            assert_eq!(unfit(kind, &finite), None, "{kind}");
            assert_eq!(matches!(too_long, Some(Unfit::Norm(_))), kind != VectorKind::Float16);
            for bad in [&infinite, &nan] {
                assert!(matches!(unfit(kind, bad), Some(Unfit::NotFinite(_))), "{kind}");
                let last = [&many[..], bad].concat();
                assert!(matches!(unfit(kind, &last), Some(Unfit::NotFinite(_))), "{kind}");
            }
        }
        let largest = float(f32::MAX.sqrt());
        assert_eq!(unfit(VectorKind::Float, &largest), None, "its squared norm fits");
        assert_eq!(unfit(VectorKind::UInt8, &[0xff; 8]), None);
    }

    #[test]
    fn floats_become_the_nearest_halves() {
        let floats = [1.0, -0.5, 1.0 + f32::powi(2.0, -12), 1e6].map(f32::to_le_bytes).concat();
        let half = to_halves(&floats, VectorKind::Float16).unwrap();
        assert_eq!(half, [0x00, 0x3c, 0x00, 0xb8, 0x00, 0x3c, 0x00, 0x7c]);
        assert!(matches!(unfit(VectorKind::Float16, &half), Some(Unfit::NotFinite(_))));
        let brain = to_halves(&floats, VectorKind::BFloat16).unwrap();
        assert_eq!(brain, [0x80, 0x3f, 0x00, 0xbf, 0x80, 0x3f, 0x74, 0x49]);
        assert_eq!(to_halves(&floats, VectorKind::Float), None);
        assert_eq!(to_halves(&floats, VectorKind::Sparse), None);
    }

    #[test]
    fn sparse_vectors_are_pairs_by_ascending_index() {
        assert_eq!(check_sparse(&[]), Ok(()));
        assert_eq!(check_sparse(&sparse(&[(0, 1.0), (7, -2.0), (u32::MAX - 1, 0.0)])), Ok(()));
        assert_eq!(check_sparse(&[0; 12]), Err(SparseError::Ragged { bytes: 12 }));
        for (second, first) in [(3, 3), (2, 3)] {
            let found = check_sparse(&sparse(&[(first, 1.0), (second, 1.0)]));
            assert_eq!(found, Err(SparseError::Order { previous: first, index: second }));
        }
        assert_eq!(check_sparse(&sparse(&[(u32::MAX, 1.0)])), Err(SparseError::Index));
        let found = check_sparse(&sparse(&[(4, f32::NAN)]));
        assert_eq!(found, Err(SparseError::NotFinite { index: 4 }));
    }
}
