//! Borrowed vectors: a row-major matrix of one component type, as raw little-endian bytes.
//!
//! Kernels take bytes and tolerate any alignment, so that a row can be borrowed from a numpy
//! array, a mapped file or the middle of a page without a copy.

use super::{VectorType, to_f32};

/// Why bytes are no set of vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorSetError {
    /// A dimension of zero.
    #[error("vectors need at least one dimension")]
    NoDimension,
    /// The length is no multiple of a row.
    #[error("{bytes} bytes are no whole number of {dim}-dimensional {ty} vectors")]
    Ragged {
        /// Length found.
        bytes: usize,
        /// Dimension asked for.
        dim: usize,
        /// Component type.
        ty: VectorType,
    },
    /// Bits that do not fill bytes.
    #[error("binary vectors have a multiple of 8 dimensions, not {dim}")]
    Bits {
        /// Dimension asked for.
        dim: usize,
    },
}

/// Rows x dimension vectors, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct VectorSet<'a> {
    bytes: &'a [u8],
    dim: usize,
    ty: VectorType,
}

impl<'a> VectorSet<'a> {
    /// Views `bytes` as rows of `dim` components of `ty`.
    ///
    /// # Errors
    /// [`VectorSetError`] where the length does not fit.
    pub fn new(bytes: &'a [u8], dim: usize, ty: VectorType) -> Result<Self, VectorSetError> {
        if dim == 0 {
            return Err(VectorSetError::NoDimension);
        }
        if !ty.takes_dim(dim) {
            return Err(VectorSetError::Bits { dim });
        }
        if !bytes.len().is_multiple_of(ty.vector_bytes(dim)) {
            return Err(VectorSetError::Ragged { bytes: bytes.len(), dim, ty });
        }
        Ok(Self { bytes, dim, ty })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.bytes.len() / self.row_bytes()
    }

    /// Components of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Component type.
    pub fn vector_type(&self) -> VectorType {
        self.ty
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.ty.vector_bytes(self.dim)
    }

    /// All bytes, row after row.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of row `i`.
    ///
    /// # Panics
    /// Where `i` is not below [`rows`](Self::rows).
    #[inline]
    pub fn row(&self, i: usize) -> &'a [u8] {
        let n = self.row_bytes();
        &self.bytes[i * n..(i + 1) * n]
    }

    /// Row `i` as f32 components, into `out` (length: dimension).
    pub fn row_f32(&self, i: usize, out: &mut [f32]) {
        to_f32(self.row(i), self.ty, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_more_bytes_than_can_be_counted_are_no_rows() {
        for dim in [1 << 62, (1 << 62) + 1, usize::MAX] {
            let set = VectorSet::new(&[], dim, VectorType::F32).expect("no row is a whole number");
            assert_eq!(set.rows(), 0, "{dim}");
            let one = VectorSet::new(&[0; 4], dim, VectorType::F32);
            assert!(matches!(one, Err(VectorSetError::Ragged { .. })), "{dim}");
        }
    }
}
