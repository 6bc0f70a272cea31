//! The codebook as bytes, without checksum: the file around it brings one.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `PQCB` |
//! | 4 | 2 | layout version, 2; 1 is read as well |
//! | 6 | 2 | metric |
//! | 8 | 4 | dim |
//! | 12 | 4 | code bytes |
//! | 16 | 4 | codebook version |
//! | 20 | 4 | error on the rows of the training, f32; 0xffffffff: not known; 0 in layout 1 |
//! | 24 | 4 x 256 x dim | centroids, f32, transposed within each subspace |
//!
//! All fields are little-endian.

use super::{CENTROIDS, Codebook};
use crate::types::Metric;

const MAGIC: [u8; 4] = *b"PQCB";
const LAYOUT: u16 = 2;
/// Stands for an error that is not known.
const UNKNOWN: u32 = u32::MAX;
/// The layout before, without the error.
const WITHOUT_ERROR: u16 = 1;
const HEADER_BYTES: usize = 24;

/// Why bytes or parts are no codebook. None is worth a retry: the input is damaged, or from a
/// newer version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodebookError {
    /// Bytes of another kind.
    #[error("no codebook: it begins with {found:02x?} instead of {MAGIC:02x?}")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A layout that this version does not know.
    #[error("codebook layout {found}; this version reads layout {LAYOUT}")]
    Layout {
        /// The number found.
        found: u16,
    },
    /// A metric that this version does not know.
    #[error("codebook for the unknown metric {found}")]
    Metric {
        /// The number found.
        found: u16,
    },
    /// A nonzero field that layout 1 has no use for.
    #[error("codebook with {found:#010x} in a reserved field that must be 0")]
    Reserved {
        /// The value found.
        found: u32,
    },
    /// Dimension and code length that exclude each other.
    #[error("codes of {code_bytes} bytes do not suit {dim} dimensions: 1 to {dim} would")]
    Shape {
        /// Dimension.
        dim: usize,
        /// Code length.
        code_bytes: usize,
    },
    /// Another length in bytes than the header asks for.
    #[error("codebook of {found} bytes instead of {expected}")]
    Length {
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Another number of centroid components than the dimension asks for.
    #[error("{found} centroid components for {dim} dimensions; there must be 256 for each")]
    Centroids {
        /// Dimension.
        dim: usize,
        /// Components found.
        found: usize,
    },
    /// A NaN or infinite centroid, or an error that is no number.
    #[error("codebook with a centroid or an error that is not finite")]
    NotFinite,
}

impl Codebook {
    /// The codebook as bytes that describe themselves.
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |n: usize| u32::try_from(n).expect("dimensions fit 32 bits").to_le_bytes();
        let mut out = Vec::with_capacity(HEADER_BYTES + self.centroids().len() * 4);
        out.extend(MAGIC);
        out.extend(LAYOUT.to_le_bytes());
        out.extend((self.metric() as u16).to_le_bytes());
        out.extend(number(self.dim()));
        out.extend(number(self.code_bytes()));
        out.extend(self.version().to_le_bytes());
        out.extend(self.training_error().map_or(UNKNOWN, f32::to_bits).to_le_bytes());
        out.extend(self.centroids().iter().flat_map(|c| c.to_le_bytes()));
        out
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. Allocates only after the length was
    /// found to be right.
    ///
    /// # Errors
    /// [`CodebookError`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodebookError> {
        let found = bytes.len() as u64;
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(CodebookError::Length { expected: HEADER_BYTES as u64, found });
        };
        let field16 = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let field32 = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let magic = field32(0).to_le_bytes();
        if magic != MAGIC {
            return Err(CodebookError::Magic { found: magic });
        }
        let layout = field16(4);
        if layout != LAYOUT && layout != WITHOUT_ERROR {
            return Err(CodebookError::Layout { found: layout });
        }
        let metric =
            Metric::from_code(field16(6)).ok_or(CodebookError::Metric { found: field16(6) })?;
        let (dim, code_bytes, version) = (field32(8), field32(12), field32(16));
        if layout == WITHOUT_ERROR && field32(20) != 0 {
            return Err(CodebookError::Reserved { found: field32(20) });
        }
        let known = layout == LAYOUT && field32(20) != UNKNOWN;
        let training_error = known.then(|| f32::from_bits(field32(20)));
        if training_error.is_some_and(|e| !e.is_finite() || e < 0.0) {
            return Err(CodebookError::NotFinite);
        }
        let expected = HEADER_BYTES as u64 + u64::from(dim) * (4 * CENTROIDS as u64);
        if found != expected {
            return Err(CodebookError::Length { expected, found });
        }
        let (values, _) = body.as_chunks::<4>();
        let centroids = values.iter().map(|&v| f32::from_le_bytes(v)).collect();
        let book = Self::from_parts(dim as usize, code_bytes as usize, metric, version, centroids)?;
        Ok(book.with_training_error(training_error))
    }
}
