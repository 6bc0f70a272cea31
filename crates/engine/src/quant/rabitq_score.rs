//! Scoring of RaBitQ codes: which kernel, and the portable one, which is compiled for AVX2 as well.

#![expect(unsafe_code, reason = "rows are read through a raw view after one bounds check")]

use super::CodesView;
use super::kind::FACTOR_BYTES;
use super::rabitq::BLOCK;
#[cfg(target_arch = "x86_64")]
use super::rabitq_avx512;
use super::rabitq_query::{RabitqQuery, ScoreFn};
use crate::distance::SimdLevel;

/// The scoring for an instruction set, which must be available, and codes of so many bits.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "kernels for a number of bits are for AVX-512 only")
)]
pub(super) fn score_fn(level: SimdLevel, bits: usize) -> ScoreFn {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 if std::is_x86_feature_detected!("avx512vnni") => {
            rabitq_avx512::score_fn(bits)
        }
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 | SimdLevel::Avx512 => score_avx2,
        _ => score_portable,
    }
}

/// # Safety
/// Every id is a row of `codes`, which are as long as the query's, and `out` is as long as `ids`.
unsafe fn score_portable(q: &RabitqQuery, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    // SAFETY: this function's own contract.
    unsafe { score(q, codes, ids, out) }
}

/// # Safety
/// The CPU has AVX2; the rest as for [`score_portable`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn score_avx2(q: &RabitqQuery, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    // SAFETY: this function's own contract.
    unsafe { score(q, codes, ids, out) }
}

/// # Safety
/// As for [`score_portable`].
#[inline(always)]
unsafe fn score(q: &RabitqQuery, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        *out = q.estimate(code, product(q, &code[FACTOR_BYTES..]));
    }
}

/// The product of a code's components with the query's.
#[inline(always)]
fn product(q: &RabitqQuery, mut blocks: &[u8]) -> i32 {
    let mut sums = [0i32; 8];
    for first in (0..q.len).step_by(BLOCK) {
        let bytes = (q.len - first).min(BLOCK) / 8;
        let (block, rest) = blocks.split_at(bytes * q.bits);
        blocks = rest;
        for at in 0..bytes {
            // Eight components, one in each byte.
            let mut eight = 0u64;
            for plane in 0..q.bits {
                eight |= spread(block[plane * bytes + at]) << plane;
            }
            let query = &q.whole[first + 8 * at..][..8];
            for ((sum, value), &x) in sums.iter_mut().zip(eight.to_le_bytes()).zip(query) {
                *sum = sum.wrapping_add(i32::from(value) * i32::from(x));
            }
        }
    }
    sums.iter().fold(0, |sum: i32, &lane| sum.wrapping_add(lane))
}

/// Bit k as the lowest bit of byte k.
#[inline(always)]
fn spread(bits: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Byte k keeps bit k only; adding brings it up to the byte's highest bit.
    let each = (u64::from(bits) * ONES) & 0x8040_2010_0804_0201;
    ((each + 0x007f_7f7f_7f7f_7f7f) >> 7) & ONES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_to_bytes_of_their_own() {
        for bits in 0..=u8::MAX {
            let bytes: [u8; 8] = std::array::from_fn(|k| bits >> k & 1);
            assert_eq!(spread(bits), u64::from_le_bytes(bytes), "{bits:#010b}");
        }
    }
}
