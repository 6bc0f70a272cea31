//! Portable kernels: the reference for the others, and what remains without SIMD.
//!
//! Lanes are written out as arrays so that the compiler may use whatever the target has.

use super::{Op, PairFn, U8_BLOCK};
use crate::types::VectorType;

const LANES: usize = 8;

pub(super) fn pair_fn(op: Op, ty: VectorType) -> PairFn {
    match (op, ty) {
        (Op::SquaredL2, VectorType::F32) => f32_pair::<true>,
        (Op::Dot, VectorType::F32) => f32_pair::<false>,
        (Op::SquaredL2, VectorType::U8) => u8_pair::<true>,
        (Op::Dot, VectorType::U8) => u8_pair::<false>,
    }
}

/// # Safety
/// `dim` f32 components must be readable at `a` and at `b`.
unsafe fn f32_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let (a, b) = (a.cast::<[u8; 4]>(), b.cast::<[u8; 4]>());
    // SAFETY: the caller vouches for `dim` components of 4 bytes at either pointer.
    let (a, b) =
        unsafe { (std::slice::from_raw_parts(a, dim), std::slice::from_raw_parts(b, dim)) };
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for (x, y) in a_lanes.iter().zip(b_lanes) {
        let (x, y) = (x.map(f32::from_le_bytes), y.map(f32::from_le_bytes));
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += term_f32::<L2>(x, y);
        }
    }
    let rest: f32 = a_rest
        .iter()
        .zip(b_rest)
        .map(|(&x, &y)| term_f32::<L2>(f32::from_le_bytes(x), f32::from_le_bytes(y)))
        .sum();
    sums.iter().sum::<f32>() + rest
}

#[inline(always)]
fn term_f32<const L2: bool>(x: f32, y: f32) -> f32 {
    if L2 { (x - y) * (x - y) } else { x * y }
}

/// # Safety
/// `dim` bytes must be readable at `a` and at `b`.
unsafe fn u8_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    // SAFETY: the caller vouches for `dim` bytes at either pointer.
    let (a, b) =
        unsafe { (std::slice::from_raw_parts(a, dim), std::slice::from_raw_parts(b, dim)) };
    a.chunks(U8_BLOCK).zip(b.chunks(U8_BLOCK)).map(|(a, b)| u8_sum::<L2>(a, b)).sum::<u64>() as f32
}

/// The exact sum over at most [`U8_BLOCK`] components; also the tail of the SIMD kernels.
#[inline(always)]
pub(super) fn u8_sum<const L2: bool>(a: &[u8], b: &[u8]) -> u64 {
    let sum: i32 = a
        .iter()
        .zip(b)
        .map(|(&x, &y)| {
            // Products of 16-bit values are what plain SSE2 multiplies.
            let (x, y) = (i16::from(x), i16::from(y));
            if L2 { i32::from(x - y) * i32::from(x - y) } else { i32::from(x) * i32::from(y) }
        })
        .sum();
    u64::from(sum.cast_unsigned())
}
