//! Scoring of 64 codes at once: a 256-entry byte table is four registers, and two permutations
//! look up 64 codes in it.
//!
//! Codes are transposed, eight subspaces at a time, so that a register holds the same subspace
//! of 64 codes. Tables are 16 bits wide (see `product_table`), looked up as low and high bytes, and
//! the sums cannot overflow because `split_vbmi` scales them to fit.

#![expect(unsafe_code, reason = "AVX-512 with unchecked loads")]

use std::arch::x86_64::*;

use super::CENTROIDS;
use super::codes::CodesView;
use super::product_table::ProductTable;

/// Codes scored together.
const BATCH: usize = 64;

/// A rest of fewer codes than this is cheaper to look up one by one.
const FEWEST: usize = 5;

/// Groups of eight subspaces whose codes are collected in one pass over the ids.
const GROUPS: usize = 4;

/// # Safety
/// The CPU has AVX-512 F, BW and VBMI; every id is a row of `codes`, `out` is as long as
/// `ids`, and `table`, which has its 16-bit form, as wide as `codes`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn score(
    table: &ProductTable,
    codes: CodesView<'_>,
    ids: &[u32],
    out: &mut [f32],
) {
    for (ids, out) in ids.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
        // SAFETY: this function's own contract; a chunk has 1 to 64 ids.
        unsafe {
            if ids.len() < FEWEST {
                score_few(table, codes, ids, out);
            } else {
                score_batch(table, codes, ids, out);
            }
        }
    }
}

/// The same integers added one by one, so that an estimate does not depend on its company.
///
/// # Safety
/// As for [`score`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn score_few(table: &ProductTable, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        let (mut low, mut high) = (0u32, 0u32);
        for (split, &c) in table.split.iter().zip(code) {
            low += u32::from(split.low[usize::from(c)]);
            high += u32::from(split.high[usize::from(c)]);
        }
        // Wraps where the sums of a batch would, which takes a table of NaN or infinity.
        let steps = (low + (high << 8)) as u16;
        *out = f32::from(steps).mul_add(table.split_step, table.split_bias);
    }
}

/// # Safety
/// As for [`score`], with 1 to 64 ids.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn score_batch(table: &ProductTable, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    // Columns of ids that are not there keep zeros, which are valid codes of nothing.
    let mut columns = [[0u64; BATCH]; GROUPS];
    let mut sums = [_mm512_setzero_si512(); 2];
    for (chunk, split) in table.split.chunks(8 * GROUPS).enumerate() {
        let first = chunk * 8 * GROUPS;
        for (i, &id) in ids.iter().enumerate() {
            // SAFETY: `id` is a row of `codes`.
            let code = unsafe { codes.row_unchecked(id) };
            let code = &code[first..first + split.len()];
            let (words, rest) = code.as_chunks::<8>();
            for (column, &word) in columns.iter_mut().zip(words) {
                column[i] = u64::from_le_bytes(word);
            }
            if !rest.is_empty() {
                columns[words.len()][i] = partial_word(code, rest);
            }
        }
        for (column, split) in columns.iter().zip(split.chunks(8)) {
            // SAFETY: `column` is 64 words long.
            let codes = unsafe { transpose(column) };
            for (codes, split) in codes.into_iter().zip(split) {
                let negative = _mm512_movepi8_mask(codes);
                let low = look_up(&split.low, codes, negative);
                let high = look_up(&split.high, codes, negative);
                sums[0] = _mm512_add_epi16(sums[0], _mm512_unpacklo_epi8(low, high));
                sums[1] = _mm512_add_epi16(sums[1], _mm512_unpackhi_epi8(low, high));
            }
        }
    }
    store(table, sums, out);
}

/// The last `rest.len()` bytes of `code` as the low bytes of a word.
#[inline(always)]
fn partial_word(code: &[u8], rest: &[u8]) -> u64 {
    match code.last_chunk::<8>() {
        Some(&last) => u64::from_le_bytes(last) >> (8 * (8 - rest.len())),
        None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Entries of `table` for 64 codes; `upper` marks the codes from 128 on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &[u8; CENTROIDS], codes: __m512i, upper: __mmask64) -> __m512i {
    let quarters = table.as_chunks::<64>().0;
    let quarter = |i: usize| {
        // SAFETY: a quarter is 64 bytes long.
        unsafe { _mm512_loadu_si512(quarters[i].as_ptr().cast()) }
    };
    let lower_half = _mm512_permutex2var_epi8(quarter(0), codes, quarter(1));
    let upper_half = _mm512_permutex2var_epi8(quarter(2), codes, quarter(3));
    _mm512_mask_blend_epi8(upper, lower_half, upper_half)
}

/// From 64 words of eight codes to eight registers, each with one subspace's 64 codes.
///
/// # Safety
/// The CPU has what is enabled here.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn transpose(column: &[u64; BATCH]) -> [__m512i; 8] {
    let mut eights = [_mm512_setzero_si512(); 8];
    for (eight, words) in eights.iter_mut().zip(column.as_chunks::<8>().0) {
        // SAFETY: `words` is 64 bytes long.
        *eight = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    }
    // SAFETY: each selection is 64 bytes long.
    let (first, second) = unsafe {
        (
            _mm512_loadu_si512(SELECTIONS[0].as_ptr().cast()),
            _mm512_loadu_si512(SELECTIONS[1].as_ptr().cast()),
        )
    };
    // 16 ids a lane, four subspaces a register.
    let pair = |i: usize, selection: __m512i| {
        _mm512_permutex2var_epi8(eights[2 * i], selection, eights[2 * i + 1])
    };
    let [a, b, c, d] = lanes_across(std::array::from_fn(|i| pair(i, first)));
    let [e, f, g, h] = lanes_across(std::array::from_fn(|i| pair(i, second)));
    [a, b, c, d, e, f, g, h]
}

/// Transposes a 4 x 4 matrix of 128-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_across(m: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) =
        (_mm512_shuffle_i32x4::<0x44>(m[0], m[1]), _mm512_shuffle_i32x4::<0xee>(m[0], m[1]));
    let (cd_low, cd_high) =
        (_mm512_shuffle_i32x4::<0x44>(m[2], m[3]), _mm512_shuffle_i32x4::<0xee>(m[2], m[3]));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Where each byte of a lane comes from among 16 words: first for subspaces 0 to 3, one a
/// lane, then for 4 to 7.
const SELECTIONS: [[u8; 64]; 2] = {
    let mut selections = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (subspace, word) = (i / 16, i % 16);
        selections[i / 64][i % 64] = (word * 8 + subspace) as u8;
        i += 1;
    }
    selections
};

/// Turns sums into estimates, for as many codes as `out` is long. In every lane of 16 ids,
/// `sums[0]` has the first eight and `sums[1]` the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(table: &ProductTable, sums: [__m512i; 2], out: &mut [f32]) {
    let (bias, step) = (_mm512_set1_ps(table.split_bias), _mm512_set1_ps(table.split_step));
    let [low, high] = sums;
    let lanes = [
        (_mm512_extracti32x4_epi32::<0>(low), _mm512_extracti32x4_epi32::<0>(high)),
        (_mm512_extracti32x4_epi32::<1>(low), _mm512_extracti32x4_epi32::<1>(high)),
        (_mm512_extracti32x4_epi32::<2>(low), _mm512_extracti32x4_epi32::<2>(high)),
        (_mm512_extracti32x4_epi32::<3>(low), _mm512_extracti32x4_epi32::<3>(high)),
    ];
    for (out, (low, high)) in out.chunks_mut(16).zip(lanes) {
        let steps = _mm512_cvtepu16_epi32(_mm256_set_m128i(high, low));
        let values = _mm512_fmadd_ps(_mm512_cvtepi32_ps(steps), step, bias);
        let mask = if out.len() == 16 { !0 } else { (1u16 << out.len()) - 1 };
        // SAFETY: the mask admits only as many values as `out` is long.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), mask, values) };
    }
}
