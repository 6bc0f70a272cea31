//! What a kernel is to compute of two vectors, and the form that its code has at every level.

/// A raw operation on a pair of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PairOp {
    /// Sum of squared differences.
    SquaredL2,
    /// Sum of products.
    Dot,
}

/// Reads `dim` components at either pointer, at any alignment.
pub(super) type PairFn = unsafe fn(*const u8, *const u8, usize) -> f32;

/// The most bytes whose sums of squares or products fit an `i32`: 32768 x 255^2 < 2^31.
pub(super) const BYTE_BLOCK: usize = 32_768;
