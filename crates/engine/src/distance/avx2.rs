//! AVX2 kernels: what most x86-64 machines without AVX-512 run.
//!
//! f32 tails are masked loads; tails of fewer than 32 bytes are summed in scalar code. Partial sums
//! of bytes are folded every 32768 components, before an `i32` could overflow.

use std::arch::x86_64::*;

use super::pair_op::{BYTE_BLOCK, PairFn, PairOp};
use super::{avx2_half, scalar};
use crate::types::VectorType;

pub(super) fn pair_fn(op: PairOp, ty: VectorType) -> PairFn {
    match (op, ty) {
        (PairOp::SquaredL2, VectorType::F32) => f32_pair::<true>,
        (PairOp::Dot, VectorType::F32) => f32_pair::<false>,
        (PairOp::SquaredL2, VectorType::U8) => byte_pair::<true, false>,
        (PairOp::Dot, VectorType::U8) => byte_pair::<false, false>,
        (PairOp::SquaredL2, VectorType::I8) => byte_pair::<true, true>,
        (PairOp::Dot, VectorType::I8) => byte_pair::<false, true>,
        (_, VectorType::F16 | VectorType::BF16) => avx2_half::pair_fn(op, ty),
        (PairOp::SquaredL2, VectorType::Binary) => bit_pair::<true>,
        (PairOp::Dot, VectorType::Binary) => bit_pair::<false>,
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step_f32<const L2: bool>(sum: __m256, x: __m256, y: __m256) -> __m256 {
    if L2 {
        let d = _mm256_sub_ps(x, y);
        _mm256_fmadd_ps(d, d, sum)
    } else {
        _mm256_fmadd_ps(x, y, sum)
    }
}

/// # Safety
/// The CPU has AVX2 and FMA; `dim` f32 components are readable at `a` and at `b`.
#[target_feature(enable = "avx2,fma")]
unsafe fn f32_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let (a, b) = (a.cast::<f32>(), b.cast::<f32>());
    let mut sums = [_mm256_setzero_ps(); 4];
    let mut i = 0;
    while i + 32 <= dim {
        for (lane, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `i + 32 <= dim`, so the 8 components at `i + 8 lane` are readable.
            let (x, y) = unsafe {
                (_mm256_loadu_ps(a.add(i + 8 * lane)), _mm256_loadu_ps(b.add(i + 8 * lane)))
            };
            *sum = step_f32::<L2>(*sum, x, y);
        }
        i += 32;
    }
    while i + 8 <= dim {
        // SAFETY: `i + 8 <= dim`, so the 8 components at `i` are readable.
        let (x, y) = unsafe { (_mm256_loadu_ps(a.add(i)), _mm256_loadu_ps(b.add(i))) };
        sums[0] = step_f32::<L2>(sums[0], x, y);
        i += 8;
    }
    if i < dim {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((dim - i) as i32), lanes);
        // SAFETY: the mask admits only components below `dim`; masked lanes are not accessed.
        let (x, y) =
            unsafe { (_mm256_maskload_ps(a.add(i), mask), _mm256_maskload_ps(b.add(i), mask)) };
        sums[1] = step_f32::<L2>(sums[1], x, y);
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)))
}

/// # Safety
/// The CPU has AVX2; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx2,fma")]
unsafe fn byte_pair<const L2: bool, const SIGNED: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    let zero = _mm256_setzero_si256();
    let whole = dim - dim % 32;
    let mut total = 0i64;
    let mut i = 0;
    while i < whole {
        let end = whole.min(i + BYTE_BLOCK);
        let (mut low, mut high) = (zero, zero);
        while i < end {
            // SAFETY: `i` and `end` are multiples of 32 with `i < end <= dim`, so 32 bytes at
            // `i` are readable at either pointer.
            let (x, y) = unsafe {
                (_mm256_loadu_si256(a.add(i).cast()), _mm256_loadu_si256(b.add(i).cast()))
            };
            let (x, y) = if L2 {
                let d = absolute_difference::<SIGNED>(x, y);
                (d, d)
            } else {
                (x, y)
            };
            // The upper bytes; a difference fills all bits of its byte and has no sign.
            let (xs, ys) = if SIGNED && !L2 {
                (_mm256_cmpgt_epi8(zero, x), _mm256_cmpgt_epi8(zero, y))
            } else {
                (zero, zero)
            };
            let (xl, yl) = (_mm256_unpacklo_epi8(x, xs), _mm256_unpacklo_epi8(y, ys));
            let (xh, yh) = (_mm256_unpackhi_epi8(x, xs), _mm256_unpackhi_epi8(y, ys));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(xl, yl));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(xh, yh));
            i += 32;
        }
        total += fold(_mm256_add_epi32(low, high));
    }
    // SAFETY: `whole <= dim`, and `dim` bytes are readable at either pointer.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.add(whole), dim - whole),
            std::slice::from_raw_parts(b.add(whole), dim - whole),
        )
    };
    (total + scalar::byte_sum::<L2, SIGNED>(a, b)) as f32
}

/// |x - y| of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn absolute_difference<const SIGNED: bool>(x: __m256i, y: __m256i) -> __m256i {
    if SIGNED {
        _mm256_sub_epi8(_mm256_max_epi8(x, y), _mm256_min_epi8(x, y))
    } else {
        _mm256_sub_epi8(_mm256_max_epu8(x, y), _mm256_min_epu8(x, y))
    }
}

/// The sum of the lanes, which fits an `i32` for one block.
#[inline]
#[target_feature(enable = "avx2")]
fn fold(lanes: __m256i) -> i64 {
    let sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
    i64::from(_mm_cvtsi128_si32(sum))
}

/// # Safety
/// The CPU has POPCNT; `dim` bits, a multiple of 8, are readable at `a` and at `b`.
#[target_feature(enable = "popcnt")]
pub(super) unsafe fn bit_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    // SAFETY: the caller vouches for `dim` bits at either pointer.
    let (a, b) =
        unsafe { (std::slice::from_raw_parts(a, dim / 8), std::slice::from_raw_parts(b, dim / 8)) };
    // The portable sum, compiled with the instruction that counts.
    scalar::bit_sum::<L2>(a, b) as f32
}
