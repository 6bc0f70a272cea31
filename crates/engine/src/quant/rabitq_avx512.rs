//! Scoring of RaBitQ codes by AVX-512 with VNNI: 64 components at a time, one masked addition for
//! each bit, and two products of bytes for the two halves of the query's integers.

#![expect(unsafe_code, reason = "AVX-512 with unchecked loads")]

use std::arch::x86_64::*;

use super::CodesView;
use super::kind::FACTOR_BYTES;
use super::rabitq::BLOCK;
use super::rabitq_query::{RabitqQuery, ScoreFn};

/// The scoring of codes of 1 to 8 bits. The CPU must have AVX-512 F, BW and VNNI.
pub(super) fn score_fn(bits: usize) -> ScoreFn {
    match bits {
        1 => score::<1>,
        2 => score::<2>,
        3 => score::<3>,
        4 => score::<4>,
        5 => score::<5>,
        6 => score::<6>,
        7 => score::<7>,
        _ => score::<8>,
    }
}

/// # Safety
/// The CPU has AVX-512 F, BW and VNNI; every id is a row of `codes`, which are as long as the
/// query's and of `BITS` bits, and `out` is as long as `ids`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn score<const BITS: usize>(
    q: &RabitqQuery,
    codes: CodesView<'_>,
    ids: &[u32],
    out: &mut [f32],
) {
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        *out = q.estimate(code, product::<BITS>(q, &code[FACTOR_BYTES..]));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn product<const BITS: usize>(q: &RabitqQuery, blocks: &[u8]) -> i32 {
    let mut sums = [_mm512_setzero_si512(); 2];
    let queries = q.high.as_chunks::<BLOCK>().0.iter().zip(q.low.as_chunks::<BLOCK>().0);
    for (block, (high, low)) in blocks.chunks(BITS * BLOCK / 8).zip(queries) {
        let mut values = _mm512_setzero_si512();
        let bytes = block.len() / BITS;
        for plane in 0..BITS {
            let bits = word(&block[plane * bytes..][..bytes]);
            values =
                _mm512_mask_add_epi8(values, bits, values, _mm512_set1_epi8((1 << plane) as i8));
        }
        // SAFETY: both are 64 bytes long.
        let (high, low) = unsafe {
            (_mm512_loadu_si512(high.as_ptr().cast()), _mm512_loadu_si512(low.as_ptr().cast()))
        };
        sums[0] = _mm512_dpbusd_epi32(sums[0], values, high);
        sums[1] = _mm512_dpbusd_epi32(sums[1], values, low);
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_slli_epi32::<8>(sums[0]), sums[1]))
}

/// Up to eight bytes as the low bytes of a word.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(&whole) => u64::from_le_bytes(whole),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}
