//! Scoring by gathers from the f32 table, 8 or 16 subspaces of one code at a time.

#![expect(unsafe_code, reason = "gathers and unchecked loads")]

use std::arch::x86_64::*;

use super::product_table::ProductTable;
use super::{CENTROIDS, CodesView};

/// # Safety
/// The CPU has AVX2 and FMA; every id is a row of `codes`, `out` is as long as `ids`, and
/// `table` as wide as `codes`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2(
    table: &ProductTable,
    codes: CodesView<'_>,
    ids: &[u32],
    out: &mut [f32],
) {
    let rows = _mm256_mullo_epi32(
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        _mm256_set1_epi32(CENTROIDS as i32),
    );
    let (blocks, rest) = table.parts.as_chunks::<8>();
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        let (code_blocks, code_rest) = code.as_chunks::<8>();
        let mut sums = [_mm256_setzero_ps(); 2];
        for (s, (parts, code)) in blocks.iter().zip(code_blocks).enumerate() {
            let code = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*code)));
            let index = _mm256_add_epi32(code, rows);
            // SAFETY: lane k reads value 256 k + (a byte) of the 8 x 256 values of `parts`.
            let values = unsafe { _mm256_i32gather_ps::<4>(parts.as_ptr().cast(), index) };
            sums[s % 2] = _mm256_add_ps(sums[s % 2], values);
        }
        let sum = _mm256_add_ps(sums[0], sums[1]);
        let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
        let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        let sum = _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)));
        let rest: f32 = rest.iter().zip(code_rest).map(|(p, &c)| p.0[usize::from(c)]).sum();
        *out = table.bias + rest + sum;
    }
}

/// # Safety
/// The CPU has AVX-512 F; every id is a row of `codes`, `out` is as long as `ids`, and
/// `table` as wide as `codes`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn avx512(
    table: &ProductTable,
    codes: CodesView<'_>,
    ids: &[u32],
    out: &mut [f32],
) {
    let rows = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32(CENTROIDS as i32),
    );
    let (blocks, rest) = table.parts.as_chunks::<16>();
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        let (code_blocks, code_rest) = code.as_chunks::<16>();
        let mut sums = [_mm512_setzero_ps(); 2];
        for (s, (parts, code)) in blocks.iter().zip(code_blocks).enumerate() {
            // SAFETY: `code` is 16 bytes long.
            let code = unsafe { _mm_loadu_si128(code.as_ptr().cast()) };
            let index = _mm512_add_epi32(_mm512_cvtepu8_epi32(code), rows);
            // SAFETY: lane k reads value 256 k + (a byte) of the 16 x 256 values of `parts`.
            let values = unsafe { _mm512_i32gather_ps::<4>(index, parts.as_ptr().cast()) };
            sums[s % 2] = _mm512_add_ps(sums[s % 2], values);
        }
        let rest: f32 = rest.iter().zip(code_rest).map(|(p, &c)| p.0[usize::from(c)]).sum();
        *out = table.bias + rest + _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
    }
}
