//! AVX-512 kernels. Tails are masked loads, so every dimension takes the same path.
//!
//! u8 squared differences are widened to i16 and summed by `vpmaddwd` or, with VNNI,
//! `vpdpwssd`. VNNI's byte product takes unsigned x signed, so the dot product is computed as
//! a.(b - 128) + 128 sum(a), both by `vpdpbusd`. Partial sums are folded every 32768
//! components, before an `i32` could overflow.

use std::arch::x86_64::*;

use super::{Op, PairFn, U8_BLOCK};
use crate::types::VectorType;

pub(super) fn pair_fn(op: Op, ty: VectorType, vnni: bool) -> PairFn {
    match (op, ty, vnni) {
        (Op::SquaredL2, VectorType::F32, _) => f32_pair::<true>,
        (Op::Dot, VectorType::F32, _) => f32_pair::<false>,
        (Op::SquaredL2, VectorType::U8, false) => u8_pair::<true>,
        (Op::Dot, VectorType::U8, false) => u8_pair::<false>,
        (Op::SquaredL2, VectorType::U8, true) => u8_squared_l2_vnni,
        (Op::Dot, VectorType::U8, true) => u8_dot_vnni,
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_f32<const L2: bool>(sum: __m512, x: __m512, y: __m512) -> __m512 {
    if L2 {
        let d = _mm512_sub_ps(x, y);
        _mm512_fmadd_ps(d, d, sum)
    } else {
        _mm512_fmadd_ps(x, y, sum)
    }
}

/// # Safety
/// The CPU has AVX-512 F; `dim` f32 components are readable at `a` and at `b`.
#[target_feature(enable = "avx512f")]
unsafe fn f32_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let (a, b) = (a.cast::<f32>(), b.cast::<f32>());
    let mut sums = [_mm512_setzero_ps(); 4];
    let mut i = 0;
    while i + 64 <= dim {
        for (lane, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `i + 64 <= dim`, so the 16 components at `i + 16 lane` are readable.
            let (x, y) = unsafe {
                (_mm512_loadu_ps(a.add(i + 16 * lane)), _mm512_loadu_ps(b.add(i + 16 * lane)))
            };
            *sum = step_f32::<L2>(*sum, x, y);
        }
        i += 64;
    }
    while i + 16 <= dim {
        // SAFETY: `i + 16 <= dim`, so the 16 components at `i` are readable.
        let (x, y) = unsafe { (_mm512_loadu_ps(a.add(i)), _mm512_loadu_ps(b.add(i))) };
        sums[0] = step_f32::<L2>(sums[0], x, y);
        i += 16;
    }
    if i < dim {
        let mask = (1u16 << (dim - i)) - 1;
        // SAFETY: the mask admits only components below `dim`; masked lanes are not accessed.
        let (x, y) = unsafe {
            (_mm512_maskz_loadu_ps(mask, a.add(i)), _mm512_maskz_loadu_ps(mask, b.add(i)))
        };
        sums[1] = step_f32::<L2>(sums[1], x, y);
    }
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    _mm512_reduce_add_ps(sum)
}

/// Up to 64 bytes at `p + i`, zero from `end` on.
///
/// # Safety
/// The CPU has AVX-512 BW; `i < end`, and the bytes below `end` are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load_bytes(p: *const u8, i: usize, end: usize) -> __m512i {
    if i + 64 <= end {
        // SAFETY: 64 bytes at `i` lie below `end`, which the caller vouches for.
        unsafe { _mm512_loadu_si512(p.add(i).cast()) }
    } else {
        let mask = (1u64 << (end - i)) - 1;
        // SAFETY: the mask admits only bytes below `end`; masked lanes are not accessed.
        unsafe { _mm512_maskz_loadu_epi8(mask, p.add(i).cast()) }
    }
}

/// |x - y| of unsigned bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn absolute_difference(x: __m512i, y: __m512i) -> __m512i {
    _mm512_sub_epi8(_mm512_max_epu8(x, y), _mm512_min_epu8(x, y))
}

/// # Safety
/// The CPU has AVX-512 F and BW; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn u8_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let zero = _mm512_setzero_si512();
    let mut total = 0u64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + U8_BLOCK);
        let (mut low, mut high) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            let (x, y) = if L2 {
                let d = absolute_difference(x, y);
                (d, d)
            } else {
                (x, y)
            };
            let (xl, yl) = (_mm512_unpacklo_epi8(x, zero), _mm512_unpacklo_epi8(y, zero));
            let (xh, yh) = (_mm512_unpackhi_epi8(x, zero), _mm512_unpackhi_epi8(y, zero));
            low = _mm512_add_epi32(low, _mm512_madd_epi16(xl, yl));
            high = _mm512_add_epi32(high, _mm512_madd_epi16(xh, yh));
            i += 64;
        }
        i = end;
        total += fold(_mm512_add_epi32(low, high));
    }
    total as f32
}

/// # Safety
/// The CPU has AVX-512 F, BW and VNNI; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn u8_squared_l2_vnni(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let zero = _mm512_setzero_si512();
    let mut total = 0u64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + U8_BLOCK);
        let (mut low, mut high) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            let d = absolute_difference(x, y);
            let (dl, dh) = (_mm512_unpacklo_epi8(d, zero), _mm512_unpackhi_epi8(d, zero));
            low = _mm512_dpwssd_epi32(low, dl, dl);
            high = _mm512_dpwssd_epi32(high, dh, dh);
            i += 64;
        }
        i = end;
        total += fold(_mm512_add_epi32(low, high));
    }
    total as f32
}

/// # Safety
/// The CPU has AVX-512 F, BW and VNNI; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn u8_dot_vnni(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let zero = _mm512_setzero_si512();
    let (flip, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
    let mut total = 0u64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + U8_BLOCK);
        let (mut shifted, mut plain) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            // Where the mask put zeros, x = 0 makes both products vanish.
            shifted = _mm512_dpbusd_epi32(shifted, x, _mm512_xor_si512(y, flip));
            plain = _mm512_dpbusd_epi32(plain, x, ones);
            i += 64;
        }
        i = end;
        total += fold(_mm512_add_epi32(shifted, _mm512_slli_epi32::<7>(plain)));
    }
    total as f32
}

/// The sum of the lanes, known to be within 0..2^31 for one block.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(lanes: __m512i) -> u64 {
    u64::from(_mm512_reduce_add_epi32(lanes).cast_unsigned())
}
