//! Portable kernels: the reference for the others, and what remains without SIMD.
//!
//! Lanes are written out as arrays so that the compiler may use whatever the target has.

use half::{bf16, f16};

use super::pair_op::{BYTE_BLOCK, PairFn, PairOp};
use crate::types::VectorType;

const LANES: usize = 8;

pub(super) fn pair_fn(op: PairOp, ty: VectorType) -> PairFn {
    match (op, ty) {
        (PairOp::SquaredL2, VectorType::F32) => f32_pair::<true>,
        (PairOp::Dot, VectorType::F32) => f32_pair::<false>,
        (PairOp::SquaredL2, VectorType::U8) => byte_pair::<true, false>,
        (PairOp::Dot, VectorType::U8) => byte_pair::<false, false>,
        (PairOp::SquaredL2, VectorType::I8) => byte_pair::<true, true>,
        (PairOp::Dot, VectorType::I8) => byte_pair::<false, true>,
        (PairOp::SquaredL2, VectorType::F16) => half_pair::<true, false>,
        (PairOp::Dot, VectorType::F16) => half_pair::<false, false>,
        (PairOp::SquaredL2, VectorType::BF16) => half_pair::<true, true>,
        (PairOp::Dot, VectorType::BF16) => half_pair::<false, true>,
        (PairOp::SquaredL2, VectorType::Binary) => bit_pair::<true>,
        (PairOp::Dot, VectorType::Binary) => bit_pair::<false>,
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
/// `dim` f16 components (bf16 where `BRAIN`) must be readable at `a` and at `b`.
unsafe fn half_pair<const L2: bool, const BRAIN: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    // SAFETY: the caller vouches for `dim` components of 2 bytes at either pointer.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.cast::<[u8; 2]>(), dim),
            std::slice::from_raw_parts(b.cast::<[u8; 2]>(), dim),
        )
    };
    half_sum::<L2, BRAIN>(a, b)
}

/// The sum over some components; also the tail of kernels without masked loads.
pub(super) fn half_sum<const L2: bool, const BRAIN: bool>(a: &[[u8; 2]], b: &[[u8; 2]]) -> f32 {
    let widen = |x| {
        if BRAIN { bf16::from_le_bytes(x).to_f32() } else { f16::from_le_bytes(x).to_f32() }
    };
    let mut sums = [0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, &x), &y) in sums.iter_mut().zip(a).zip(b) {
            *sum += term_f32::<L2>(widen(x), widen(y));
        }
    }
    sums.iter().sum()
}

/// # Safety
/// `dim` bytes must be readable at `a` and at `b`.
unsafe fn byte_pair<const L2: bool, const SIGNED: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    // SAFETY: the caller vouches for `dim` bytes at either pointer.
    let (a, b) =
        unsafe { (std::slice::from_raw_parts(a, dim), std::slice::from_raw_parts(b, dim)) };
    let blocks = a.chunks(BYTE_BLOCK).zip(b.chunks(BYTE_BLOCK));
    blocks.map(|(a, b)| byte_sum::<L2, SIGNED>(a, b)).sum::<i64>() as f32
}

/// The exact sum over at most [`BYTE_BLOCK`] components; also the tail of the SIMD kernels.
#[inline(always)]
pub(super) fn byte_sum<const L2: bool, const SIGNED: bool>(a: &[u8], b: &[u8]) -> i64 {
    // Products of 16-bit values are what plain SSE2 multiplies.
    let widen = |x: u8| if SIGNED { i16::from(x.cast_signed()) } else { i16::from(x) };
    let sum: i32 = a
        .iter()
        .zip(b)
        .map(|(&x, &y)| {
            let (x, y) = (widen(x), widen(y));
            if L2 { i32::from(x - y) * i32::from(x - y) } else { i32::from(x) * i32::from(y) }
        })
        .sum();
    i64::from(sum)
}

/// # Safety
/// `dim` bits, a multiple of 8, must be readable at `a` and at `b`.
unsafe fn bit_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    // SAFETY: the caller vouches for `dim` bits at either pointer.
    let (a, b) =
        unsafe { (std::slice::from_raw_parts(a, dim / 8), std::slice::from_raw_parts(b, dim / 8)) };
    bit_sum::<L2>(a, b) as f32
}

/// How many bits differ (`L2`), or are set in both: squares and products of zeros and ones.
#[inline(always)]
pub(super) fn bit_sum<const L2: bool>(a: &[u8], b: &[u8]) -> u32 {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words).map(|(&x, &y)| {
        let (x, y) = (u64::from_ne_bytes(x), u64::from_ne_bytes(y));
        (if L2 { x ^ y } else { x & y }).count_ones()
    });
    let rest = a_rest.iter().zip(b_rest);
    let rest = rest.map(|(x, y)| (if L2 { x ^ y } else { x & y }).count_ones());
    words.sum::<u32>() + rest.sum::<u32>()
}
