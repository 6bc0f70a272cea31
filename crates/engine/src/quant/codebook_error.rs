//! Why bytes are no codebook, and what they would begin with if they were one.

/// What every codebook begins with.
pub(super) const MAGIC: [u8; 4] = *b"PQCB";
/// The newest layout: the one with a mean.
pub(super) const RABITQ: u16 = 3;

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
    #[error("codebook layout {found}; this version reads 1 to {RABITQ}")]
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
    /// A nonzero field that the layout has no use for.
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
    /// Codes of a number of bits that there is not, or that the code length contradicts.
    #[error("{bits} bits for each of {dim} dimensions do not make codes of {code_bytes} bytes")]
    Bits {
        /// Bits of a component.
        bits: u16,
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
    /// A NaN or infinite centroid or mean, or an error that is no number.
    #[error("codebook with a centroid, a mean or an error that is not finite")]
    NotFinite,
}
