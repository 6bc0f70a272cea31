//! Distances between vectors: SIMD kernels chosen at run time, and what search and build make
//! of them.
//!
//! Vectors arrive as raw little-endian bytes of any alignment and any dimension. Sums of bytes and
//! bits are exact integers, rounded once to f32; those of floats are accumulated in f32 lanes, so
//! that levels differ in the last bits. Bits are components of 0 and 1: the squared distance of two
//! is how many differ, their product how many are set in both. Nothing here checks for NaN or infinity, which pass through.
//! Nothing allocates but [`PairDistance::new`].

#![expect(unsafe_code, reason = "SIMD kernels read raw bytes through function pointers")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_half;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_half;
mod level;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod pair;
mod pair_op;
mod prefetch;
mod products;
mod query;
mod scalar;
#[cfg(test)]
mod tests;

pub use level::SimdLevel;
pub use pair::PairDistance;
pub use pair_op::PairOp;
pub use prefetch::prefetch;
pub(crate) use prefetch::prefetch_line;
pub(crate) use products::Products;
pub use query::QueryDistance;

use crate::types::VectorType;
use pair_op::PairFn;

/// One operation at one component type and dimension, bound to the best code for this CPU.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pair: PairFn,
    dot: PairFn,
    dim: usize,
    bytes: usize,
}

impl Kernel {
    /// The fastest kernel that this CPU runs.
    pub fn new(op: PairOp, ty: VectorType, dim: usize) -> Self {
        Self::build(op, ty, dim, SimdLevel::detected())
    }

    /// The kernel of one instruction set, or `None` where this CPU lacks it.
    pub fn with_level(op: PairOp, ty: VectorType, dim: usize, level: SimdLevel) -> Option<Self> {
        level.is_available().then(|| Self::build(op, ty, dim, level))
    }

    /// `level` must be available.
    fn build(op: PairOp, ty: VectorType, dim: usize, level: SimdLevel) -> Self {
        Self {
            pair: pair_fn(op, ty, level),
            dot: pair_fn(PairOp::Dot, ty, level),
            dim,
            bytes: ty.vector_bytes(dim),
        }
    }

    /// Components of the vectors it takes.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The operation on two vectors, as raw bytes of any alignment.
    ///
    /// # Panics
    /// Where a vector has another length than the dimension asks for.
    #[inline]
    pub fn eval(&self, a: &[u8], b: &[u8]) -> f32 {
        assert!(a.len() == self.bytes && b.len() == self.bytes, "vector of another dimension");
        // SAFETY: both slices hold `dim` components (checked above), and the function was
        // picked for an instruction set that this CPU was found to have.
        unsafe { (self.pair)(a.as_ptr(), b.as_ptr(), self.dim) }
    }

    /// x.x: the squared norm of a vector, whatever the operation of this kernel.
    ///
    /// # Panics
    /// Where the vector has another length than the dimension asks for.
    #[inline]
    pub fn squared_norm(&self, x: &[u8]) -> f32 {
        assert!(x.len() == self.bytes, "vector of another dimension");
        // SAFETY: as in `eval`.
        unsafe { (self.dot)(x.as_ptr(), x.as_ptr(), self.dim) }
    }
}

/// The code for one operation; the caller has made sure that the CPU has `level`.
fn pair_fn(op: PairOp, ty: VectorType, level: SimdLevel) -> PairFn {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => avx512::pair_fn(op, ty, avx512::Extensions::detected()),
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => avx2::pair_fn(op, ty),
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        SimdLevel::Neon => neon::pair_fn(op, ty),
        _ => scalar::pair_fn(op, ty),
    }
}
