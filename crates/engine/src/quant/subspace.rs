//! Inner loops over the 256 centroids of one subspace: all distances, or the nearest.
//!
//! Centroids are transposed, so sixteen neighbouring values are the same component of sixteen
//! centroids. One portable body is compiled for the base target and for AVX2; AVX-512 is
//! written out.

#![expect(unsafe_code, reason = "SIMD kernels behind function pointers")]

use super::CENTROIDS;
use crate::distance::SimdLevel;

type TableFn = unsafe fn(&[f32], &[f32], &mut [f32; CENTROIDS]);
type NearestFn = unsafe fn(&[f32], &[f32]) -> (u8, f32);

/// The loops for one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubspaceKernel {
    squared_l2: TableFn,
    negated_dot: TableFn,
    nearest: NearestFn,
}

impl SubspaceKernel {
    /// The fastest that this CPU runs.
    pub(super) fn new() -> Self {
        Self::build(SimdLevel::detected())
    }

    /// Those of one instruction set, or `None` where this CPU lacks it.
    #[cfg(test)]
    pub(super) fn with_level(level: SimdLevel) -> Option<Self> {
        level.is_available().then(|| Self::build(level))
    }

    fn build(level: SimdLevel) -> Self {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => Self {
                squared_l2: x86::only_table_avx512::<true>,
                negated_dot: x86::only_table_avx512::<false>,
                nearest: x86::nearest_avx512,
            },
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => Self {
                squared_l2: x86::table_avx2::<true>,
                negated_dot: x86::table_avx2::<false>,
                nearest: x86::nearest_avx2,
            },
            _ => Self { squared_l2: table::<true>, negated_dot: table::<false>, nearest },
        }
    }

    /// Squared distance of `x` to every centroid.
    #[inline]
    pub(super) fn squared_l2(&self, centroids: &[f32], x: &[f32], out: &mut [f32; CENTROIDS]) {
        assert_eq!(centroids.len(), x.len() * CENTROIDS, "subspace of another width");
        // SAFETY: the CPU was found to run this level; the lengths were checked above.
        unsafe { (self.squared_l2)(centroids, x, out) }
    }

    /// -x.c for every centroid c.
    #[inline]
    pub(super) fn negated_dot(&self, centroids: &[f32], x: &[f32], out: &mut [f32; CENTROIDS]) {
        assert_eq!(centroids.len(), x.len() * CENTROIDS, "subspace of another width");
        // SAFETY: the CPU was found to run this level; the lengths were checked above.
        unsafe { (self.negated_dot)(centroids, x, out) }
    }

    /// The nearest centroid, the first of equals, and its squared distance.
    #[inline]
    pub(super) fn nearest(&self, centroids: &[f32], x: &[f32]) -> (u8, f32) {
        assert_eq!(centroids.len(), x.len() * CENTROIDS, "subspace of another width");
        // SAFETY: the CPU was found to run this level; the lengths were checked above.
        unsafe { (self.nearest)(centroids, x) }
    }
}

/// Centroids taken together by the portable body: what fits the registers of any target.
const LANES: usize = 32;

#[inline(always)]
fn lanes<const L2: bool>(centroids: &[f32], x: &[f32], first: usize) -> [f32; LANES] {
    let mut sums = [0f32; LANES];
    for (row, &x) in centroids.chunks_exact(CENTROIDS).zip(x) {
        for (sum, &c) in sums.iter_mut().zip(&row[first..first + LANES]) {
            if L2 {
                *sum += (x - c) * (x - c);
            } else {
                *sum -= x * c;
            }
        }
    }
    sums
}

#[inline(always)]
fn table<const L2: bool>(centroids: &[f32], x: &[f32], out: &mut [f32; CENTROIDS]) {
    for (block, out) in out.chunks_exact_mut(LANES).enumerate() {
        out.copy_from_slice(&lanes::<L2>(centroids, x, block * LANES));
    }
}

#[inline(always)]
fn nearest(centroids: &[f32], x: &[f32]) -> (u8, f32) {
    let mut best = [f32::INFINITY; LANES];
    let mut blocks = [0u32; LANES];
    for block in 0..CENTROIDS / LANES {
        let sums = lanes::<true>(centroids, x, block * LANES);
        for ((best, at), sum) in best.iter_mut().zip(&mut blocks).zip(sums) {
            let nearer = sum < *best;
            *best = if nearer { sum } else { *best };
            *at = if nearer { block as u32 } else { *at };
        }
    }
    let mut found = (0, f32::INFINITY);
    for (lane, (&sum, &block)) in best.iter().zip(&blocks).enumerate() {
        let index = block as usize * LANES + lane;
        if sum < found.1 || (sum == found.1 && index < found.0) {
            found = (index, sum);
        }
    }
    (found.0 as u8, found.1)
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::CENTROIDS;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn table_avx2<const L2: bool>(
        centroids: &[f32],
        x: &[f32],
        out: &mut [f32; CENTROIDS],
    ) {
        super::table::<L2>(centroids, x, out);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn nearest_avx2(centroids: &[f32], x: &[f32]) -> (u8, f32) {
        super::nearest(centroids, x)
    }

    /// Distances to 16 `N` centroids from `first` on.
    ///
    /// # Safety
    /// `centroids` holds 256 values for each of `x`; `first` + 16 `N` is at most 256.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn vectors<const L2: bool, const N: usize>(
        centroids: &[f32],
        x: &[f32],
        first: usize,
    ) -> [__m512; N] {
        let mut sums = [_mm512_setzero_ps(); N];
        for (k, &x) in x.iter().enumerate() {
            let x = _mm512_set1_ps(x);
            for (v, sum) in sums.iter_mut().enumerate() {
                let at = k * CENTROIDS + first + 16 * v;
                // SAFETY: row `k` has 256 values, and `first + 16 v + 16` is at most 256.
                let c = unsafe { _mm512_loadu_ps(centroids.as_ptr().add(at)) };
                *sum = if L2 {
                    let d = _mm512_sub_ps(x, c);
                    _mm512_fmadd_ps(d, d, *sum)
                } else {
                    _mm512_fnmadd_ps(x, c, *sum)
                };
            }
        }
        sums
    }

    /// The table of a subspace, and the least and the largest of it. All 256 sums stand in registers
    /// at once: the centroids of all subspaces are more than the first-level cache holds, and are
    /// read from one end to the other.
    ///
    /// # Safety
    /// The CPU has AVX-512 F; `centroids` holds 256 values for each of `x`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in super::super) unsafe fn table_avx512<const L2: bool>(
        centroids: &[f32],
        x: &[f32],
        out: &mut [f32; CENTROIDS],
    ) -> (f32, f32) {
        // SAFETY: the caller vouches for the lengths; 16 vectors are 256 centroids.
        let sums = unsafe { vectors::<L2, 16>(centroids, x, 0) };
        let (mut least, mut most) = (sums, sums);
        for half in [8, 4, 2, 1] {
            for v in 0..half {
                least[v] = _mm512_min_ps(least[v], least[v + half]);
                most[v] = _mm512_max_ps(most[v], most[v + half]);
            }
        }
        for (sum, out) in sums.into_iter().zip(out.as_chunks_mut::<16>().0) {
            // SAFETY: `out` has room for the 16 values of a vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
        }
        (_mm512_reduce_min_ps(least[0]), _mm512_reduce_max_ps(most[0]))
    }

    /// # Safety
    /// As for [`table_avx512`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn only_table_avx512<const L2: bool>(
        centroids: &[f32],
        x: &[f32],
        out: &mut [f32; CENTROIDS],
    ) {
        // SAFETY: this function's own contract.
        unsafe { table_avx512::<L2>(centroids, x, out) };
    }

    /// # Safety
    /// The CPU has AVX-512 F; `centroids` holds 256 values for each of `x`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn nearest_avx512(centroids: &[f32], x: &[f32]) -> (u8, f32) {
        let mut best = _mm512_set1_ps(f32::INFINITY);
        let mut at = _mm512_setzero_si512();
        let mut index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for block in 0..CENTROIDS / 64 {
            // SAFETY: the caller vouches for the lengths; there are four blocks of 64.
            for sum in unsafe { vectors::<true, 4>(centroids, x, block * 64) } {
                let nearer = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(sum, best);
                best = _mm512_mask_mov_ps(best, nearer, sum);
                at = _mm512_mask_mov_epi32(at, nearer, index);
                index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
            }
        }
        let least = _mm512_reduce_min_ps(best);
        let equal = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(best, _mm512_set1_ps(least));
        (_mm512_mask_reduce_min_epu32(equal, at) as u8, least)
    }
}
