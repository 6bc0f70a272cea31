//! AVX-512 kernels. Tails are masked loads, so every dimension takes the same path.
//!
//! Squared differences of bytes are widened to i16 and summed by `vpmaddwd` or, with VNNI,
//! `vpdpwssd`. VNNI's byte product takes unsigned x signed, so that of two unsigned ones is computed
//! as a.(b - 128) + 128 sum(a), and that of two signed ones as (a + 128).b - 128 sum(b), by
//! `vpdpbusd`. Partial sums are folded every 32768 components, before an `i32` could overflow.

use std::arch::x86_64::*;

use super::pair_op::{BYTE_BLOCK, PairFn, PairOp};
use super::{avx2, avx512_half};
use crate::types::VectorType;

/// Which of the sets beside AVX-512 F, BW, DQ and VL the CPU has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extensions {
    pub(super) vnni: bool,
    pub(super) vpopcntdq: bool,
}

impl Extensions {
    pub(super) fn detected() -> Self {
        Self {
            vnni: std::is_x86_feature_detected!("avx512vnni"),
            vpopcntdq: std::is_x86_feature_detected!("avx512vpopcntdq"),
        }
    }
}

pub(super) fn pair_fn(op: PairOp, ty: VectorType, has: Extensions) -> PairFn {
    match (op, ty) {
        (PairOp::SquaredL2, VectorType::F32) => f32_pair::<true>,
        (PairOp::Dot, VectorType::F32) => f32_pair::<false>,
        (PairOp::SquaredL2, VectorType::U8) if has.vnni => squared_l2_vnni::<false>,
        (PairOp::SquaredL2, VectorType::U8) => byte_pair::<true, false>,
        (PairOp::Dot, VectorType::U8) if has.vnni => dot_vnni::<false>,
        (PairOp::Dot, VectorType::U8) => byte_pair::<false, false>,
        (PairOp::SquaredL2, VectorType::I8) if has.vnni => squared_l2_vnni::<true>,
        (PairOp::SquaredL2, VectorType::I8) => byte_pair::<true, true>,
        (PairOp::Dot, VectorType::I8) if has.vnni => dot_vnni::<true>,
        (PairOp::Dot, VectorType::I8) => byte_pair::<false, true>,
        (_, VectorType::F16 | VectorType::BF16) => avx512_half::pair_fn(op, ty),
        (PairOp::SquaredL2, VectorType::Binary) if has.vpopcntdq => bit_pair::<true>,
        (PairOp::Dot, VectorType::Binary) if has.vpopcntdq => bit_pair::<false>,
        (PairOp::SquaredL2, VectorType::Binary) => avx2::bit_pair::<true>,
        (PairOp::Dot, VectorType::Binary) => avx2::bit_pair::<false>,
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

/// |x - y| of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn absolute_difference<const SIGNED: bool>(x: __m512i, y: __m512i) -> __m512i {
    if SIGNED {
        _mm512_sub_epi8(_mm512_max_epi8(x, y), _mm512_min_epi8(x, y))
    } else {
        _mm512_sub_epi8(_mm512_max_epu8(x, y), _mm512_min_epu8(x, y))
    }
}

/// All bits of each byte that is below zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn signs(x: __m512i) -> __m512i {
    _mm512_movm_epi8(_mm512_movepi8_mask(x))
}

/// # Safety
/// The CPU has AVX-512 F and BW; `dim` bytes are readable at `a` and at `b`.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn byte_pair<const L2: bool, const SIGNED: bool>(
    a: *const u8,
    b: *const u8,
    dim: usize,
) -> f32 {
    let zero = _mm512_setzero_si512();
    let mut total = 0i64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + BYTE_BLOCK);
        let (mut low, mut high) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            let (x, y) = if L2 {
                let d = absolute_difference::<SIGNED>(x, y);
                (d, d)
            } else {
                (x, y)
            };
            // The upper bytes; a difference fills all bits of its byte and has no sign.
            let (xs, ys) = if SIGNED && !L2 { (signs(x), signs(y)) } else { (zero, zero) };
            let (xl, yl) = (_mm512_unpacklo_epi8(x, xs), _mm512_unpacklo_epi8(y, ys));
            let (xh, yh) = (_mm512_unpackhi_epi8(x, xs), _mm512_unpackhi_epi8(y, ys));
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
unsafe fn squared_l2_vnni<const SIGNED: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let zero = _mm512_setzero_si512();
    let mut total = 0i64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + BYTE_BLOCK);
        let (mut low, mut high) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            let d = absolute_difference::<SIGNED>(x, y);
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
unsafe fn dot_vnni<const SIGNED: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let zero = _mm512_setzero_si512();
    // Flipping the highest bit adds 128 to a signed byte, and takes it from an unsigned one.
    let (flip, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
    let mut total = 0i64;
    let mut i = 0;
    while i < dim {
        let end = dim.min(i + BYTE_BLOCK);
        let (mut shifted, mut plain) = (zero, zero);
        while i < end {
            // SAFETY: `i < end <= dim`, and `dim` bytes are readable at either pointer.
            let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
            // Where the mask put zeros, the operand that is not flipped makes products vanish.
            if SIGNED {
                shifted = _mm512_dpbusd_epi32(shifted, _mm512_xor_si512(x, flip), y);
                plain = _mm512_dpbusd_epi32(plain, ones, y);
            } else {
                shifted = _mm512_dpbusd_epi32(shifted, x, _mm512_xor_si512(y, flip));
                plain = _mm512_dpbusd_epi32(plain, x, ones);
            }
            i += 64;
        }
        i = end;
        let plain = _mm512_slli_epi32::<7>(plain);
        total += fold(if SIGNED {
            _mm512_sub_epi32(shifted, plain)
        } else {
            _mm512_add_epi32(shifted, plain)
        });
    }
    total as f32
}

/// The sum of the lanes, which fits an `i32` for one block.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(lanes: __m512i) -> i64 {
    i64::from(_mm512_reduce_add_epi32(lanes))
}

/// # Safety
/// The CPU has AVX-512 F, BW and VPOPCNTDQ; `dim` bits, a multiple of 8, are readable at `a` and
/// at `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
unsafe fn bit_pair<const L2: bool>(a: *const u8, b: *const u8, dim: usize) -> f32 {
    let end = dim / 8;
    let mut sum = _mm512_setzero_si512();
    let mut i = 0;
    while i < end {
        // SAFETY: `i < end`, and `end` bytes are readable at either pointer.
        let (x, y) = unsafe { (load_bytes(a, i, end), load_bytes(b, i, end)) };
        let bits = if L2 { _mm512_xor_si512(x, y) } else { _mm512_and_si512(x, y) };
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(bits));
        i += 64;
    }
    _mm512_reduce_add_epi64(sum) as f32
}
