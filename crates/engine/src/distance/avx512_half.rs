//! AVX-512 kernels for the two formats of 16 bits: widened to f32, summed there.
//!
//! Tails are masked loads, so every dimension takes the same path.

use std::arch::x86_64::*;

use super::pair_op::{PairFn, PairOp};
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

/// The 16 components at `p + 2 i`, zero from `end` on.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; `i < end`, and the components below `end` are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn widen<const BRAIN: bool>(p: *const u8, i: usize, end: usize) -> __m512 {
    let packed = if i + 16 <= end {
        // SAFETY: the 16 components at `i` lie below `end`; the load allows any alignment.
        unsafe { _mm256_loadu_si256(p.add(2 * i).cast()) }
    } else {
        let mask = (1u16 << (end - i)) - 1;
        // SAFETY: the mask admits only components below `end`; masked lanes are not accessed.
        unsafe { _mm256_maskz_loadu_epi16(mask, p.add(2 * i).cast()) }
    };
    if BRAIN {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(packed)))
    } else {
        _mm512_cvtph_ps(packed)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step<const L2: bool>(sum: __m512, x: __m512, y: __m512) -> __m512 {
    if L2 {
        let d = _mm512_sub_ps(x, y);
        _mm512_fmadd_ps(d, d, sum)
    } else {
        _mm512_fmadd_ps(x, y, sum)
    }
}

/// # Safety
/// The CPU has AVX-512 F, BW and VL; `dim` components of 2 bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn half_pair<const L2: bool, const BRAIN: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    let mut sums = [_mm512_setzero_ps(); 4];
    let mut i = 0;
    while i + 64 <= dim {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let at = i + 16 * lane;
            // SAFETY: `i + 64 <= dim`, so the 16 components at `at` are readable.
            let (x, y) = unsafe { (widen::<BRAIN>(a, at, dim), widen::<BRAIN>(b, at, dim)) };
            *sum = step::<L2>(*sum, x, y);
        }
        i += 64;
    }
    while i < dim {
        // SAFETY: `i < dim`, and the components below `dim` are readable at either pointer.
        let (x, y) = unsafe { (widen::<BRAIN>(a, i, dim), widen::<BRAIN>(b, i, dim)) };
        sums[0] = step::<L2>(sums[0], x, y);
        i += 16;
    }
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    _mm512_reduce_add_ps(sum)
}
