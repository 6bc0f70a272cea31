//! Filling both forms of a table at once: what is computed for a subspace is still in registers when its
//! least and its largest part are found, and still near when it is brought to 16 bits.

#![expect(unsafe_code, reason = "AVX-512 with unchecked loads")]

use std::arch::x86_64::*;

use super::product::Product;
use super::query_parts::{SplitParts, SubspaceParts};
use super::subspace::x86::table_avx512;

/// Computes the table of `query` and brings it to 16 bits: answers bias and step, so that a sum of
/// parts is about bias + step x the sum of the integers, which is at most 65535.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn fill<const L2: bool>(
    product: &Product,
    query: &[f32],
    parts: &mut [SubspaceParts],
    leasts: &mut [f32],
    out: &mut [SplitParts],
) -> (f32, f32) {
    let (mut bias, mut range) = (0f32, 0f32);
    for (s, (parts, of)) in parts.iter_mut().zip(leasts.iter_mut()).enumerate() {
        let (centroids, x) = (product.subspace(s), &query[product.span(s)]);
        // SAFETY: a subspace has 256 centroids for each of its components.
        let (least, most) = unsafe { table_avx512::<L2>(centroids, x, &mut parts.0) };
        *of = least;
        bias += least;
        range += most - least;
    }
    // Rounding adds at most one half to each part.
    let step = range / (65_535 - parts.len()) as f32;
    let inverse = _mm512_set1_ps(if step > 0.0 { 1.0 / step } else { 0.0 });
    // Of two vectors of integers the lowest bytes, then the second ones.
    // SAFETY: the table is 64 bytes long.
    let bytes = unsafe { _mm512_loadu_si512(LOW_THEN_HIGH.as_ptr().cast()) };
    // From the end, since what was computed last is still near.
    for ((parts, least), out) in parts.iter().zip(leasts).zip(out).rev() {
        let least = _mm512_set1_ps(*least);
        let (low, high) = (out.low.as_chunks_mut::<64>().0, out.high.as_chunks_mut::<64>().0);
        for ((parts, low), high) in parts.0.as_chunks::<64>().0.iter().zip(low).zip(high) {
            let steps = |at: usize| {
                // SAFETY: `at` is 0, 16, 32 or 48, and there are 64 values.
                let part = unsafe { _mm512_loadu_ps(parts.as_ptr().add(at)) };
                _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_sub_ps(part, least), inverse))
            };
            let first = _mm512_permutex2var_epi8(steps(0), bytes, steps(16));
            let second = _mm512_permutex2var_epi8(steps(32), bytes, steps(48));
            // SAFETY: `low` and `high` are 64 bytes long.
            unsafe {
                let lows = _mm512_shuffle_i64x2::<0x44>(first, second);
                _mm512_storeu_si512(low.as_mut_ptr().cast(), lows);
                let highs = _mm512_shuffle_i64x2::<0xEE>(first, second);
                _mm512_storeu_si512(high.as_mut_ptr().cast(), highs);
            }
        }
    }
    (bias, step)
}

/// Where in two vectors of 16 integers the lowest byte of each stands, and where the second.
const LOW_THEN_HIGH: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 32 {
        places[at] = 4 * at as u8;
        places[32 + at] = 4 * at as u8 + 1;
        at += 1;
    }
    places
};
