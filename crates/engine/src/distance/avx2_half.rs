//! AVX2 kernels for the two formats of 16 bits: widened to f32, summed there.
//!
//! f16 is widened by F16C, bf16 by a shift, since it is the upper half of an f32. Tails of fewer
//! than 8 components are summed in scalar code.

use std::arch::x86_64::*;

use super::pair_op::{PairFn, PairOp};
use super::scalar;
use crate::types::VectorType;

/// The kernel for bf16, or for f16 where `ty` is anything else.
pub(super) fn pair_fn(op: PairOp, ty: VectorType) -> PairFn {
    match (op, ty) {
        (PairOp::SquaredL2, VectorType::BF16) => half_pair::<true, true>,
        (PairOp::Dot, VectorType::BF16) => half_pair::<false, true>,
        (PairOp::SquaredL2, _) => half_pair::<true, false>,
        (PairOp::Dot, _) => half_pair::<false, false>,
    }
}

/// # Safety
/// The CPU has AVX2 and F16C; 8 components are readable at `p`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen<const BRAIN: bool>(p: *const u8) -> __m256 {
    // SAFETY: the caller vouches for 16 bytes; the load allows any alignment.
    let packed = unsafe { _mm_loadu_si128(p.cast()) };
    if BRAIN {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(packed)))
    } else {
        _mm256_cvtph_ps(packed)
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step<const L2: bool>(sum: __m256, x: __m256, y: __m256) -> __m256 {
    if L2 {
        let d = _mm256_sub_ps(x, y);
        _mm256_fmadd_ps(d, d, sum)
    } else {
        _mm256_fmadd_ps(x, y, sum)
    }
}

/// # Safety
/// The CPU has AVX2, FMA and F16C; `dim` components of 2 bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn half_pair<const L2: bool, const BRAIN: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    let mut sums = [_mm256_setzero_ps(); 4];
    let mut i = 0;
    while i + 32 <= dim {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let at = 2 * (i + 8 * lane);
            // SAFETY: `i + 32 <= dim`, so the 8 components at `i + 8 lane` are readable.
            let (x, y) = unsafe { (widen::<BRAIN>(a.add(at)), widen::<BRAIN>(b.add(at))) };
            *sum = step::<L2>(*sum, x, y);
        }
        i += 32;
    }
    while i + 8 <= dim {
        // SAFETY: `i + 8 <= dim`, so the 8 components at `i` are readable.
        let (x, y) = unsafe { (widen::<BRAIN>(a.add(2 * i)), widen::<BRAIN>(b.add(2 * i))) };
        sums[0] = step::<L2>(sums[0], x, y);
        i += 8;
    }
    // SAFETY: `i <= dim`, and `dim` components are readable at either pointer.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.add(2 * i).cast::<[u8; 2]>(), dim - i),
            std::slice::from_raw_parts(b.add(2 * i).cast::<[u8; 2]>(), dim - i),
        )
    };
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    let whole = _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)));
    whole + scalar::half_sum::<L2, BRAIN>(a, b)
}
