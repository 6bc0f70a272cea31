//! Inner products of many rows with many: small matrix products with register blocking.
//!
//! One side is packed into panels of [`COLUMNS`] rows, interleaved by component, so that a step
//! loads one component of a whole panel; the other side is read as it lies, [`ROWS`] rows at a
//! time, each component broadcast. The sums of a block stay in registers. One body is compiled
//! for every instruction set.

use super::SimdLevel;

/// Rows of the packed side that a panel holds.
pub(crate) const COLUMNS: usize = 32;
/// Rows of the other side that are multiplied together.
const ROWS: usize = 6;

/// `a`, `b` (one panel), the dimension, the products, and how far apart rows of these are.
type BlockFn = unsafe fn(&[f32], &[f32], usize, &mut [f32], usize);

/// Multiplies rows of f32 components by packed rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Products {
    block: BlockFn,
    row: BlockFn,
    dim: usize,
}

impl Products {
    /// The fastest code that this CPU runs, for rows of `dim` components.
    pub(crate) fn new(dim: usize) -> Self {
        Self::with_level(dim, SimdLevel::detected()).expect("the detected level is available")
    }

    /// The code of one instruction set, or `None` where this CPU lacks it.
    pub(crate) fn with_level(dim: usize, level: SimdLevel) -> Option<Self> {
        let (block, row): (BlockFn, BlockFn) = match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => (avx512::<ROWS>, avx512::<1>),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => (avx2::<ROWS>, avx2::<1>),
            _ => (portable::<ROWS>, portable::<1>),
        };
        level.is_available().then_some(Self { block, row, dim })
    }

    /// Components of the rows.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// Floats that `rows` rows take when packed: whole panels.
    pub(crate) fn packed_len(&self, rows: usize) -> usize {
        rows.next_multiple_of(COLUMNS) * self.dim
    }

    /// Packs `rows` (row-major) into panels; the missing rows of the last one are zero.
    ///
    /// # Panics
    /// Where `packed` has another length than [`packed_len`](Self::packed_len).
    pub(crate) fn pack(&self, rows: &[f32], packed: &mut [f32]) {
        let dim = self.dim;
        assert_eq!(packed.len(), self.packed_len(rows.len() / dim), "panels for all rows");
        let panels = packed.chunks_exact_mut(COLUMNS * dim);
        for (panel, rows) in panels.zip(rows.chunks(COLUMNS * dim)) {
            if rows.len() < COLUMNS * dim {
                panel.fill(0.0);
            }
            for (column, row) in rows.chunks_exact(dim).enumerate() {
                for (place, &x) in panel[column..].iter_mut().step_by(COLUMNS).zip(row) {
                    *place = x;
                }
            }
        }
    }

    /// The products of all of `a` (row-major) with all packed rows, into `out`: for each row of
    /// `a` as many as the panels have rows.
    ///
    /// # Panics
    /// Where lengths do not fit.
    pub(crate) fn products(&self, a: &[f32], packed: &[f32], out: &mut [f32]) {
        let dim = self.dim;
        let width = packed.len() / dim;
        assert!(width.is_multiple_of(COLUMNS) && packed.len() == width * dim, "whole panels");
        assert_eq!(out.len(), a.len() / dim * width, "a place for each product");
        for (a, out) in a.chunks(ROWS * dim).zip(out.chunks_mut(ROWS * width)) {
            for (i, panel) in packed.chunks_exact(COLUMNS * dim).enumerate() {
                let out = &mut out[i * COLUMNS..];
                if a.len() == ROWS * dim {
                    // SAFETY: the function was picked for an instruction set that this CPU has.
                    unsafe { (self.block)(a, panel, dim, out, width) };
                    continue;
                }
                for (r, a) in a.chunks_exact(dim).enumerate() {
                    // SAFETY: as above.
                    unsafe { (self.row)(a, panel, dim, &mut out[r * width..], width) };
                }
            }
        }
    }
}

/// Sums of a panel for `R` rows; `FUSED` where the CPU multiplies and adds in one step.
#[inline(always)]
fn block<const R: usize, const FUSED: bool>(
    a: &[f32],
    panel: &[f32],
    dim: usize,
    out: &mut [f32],
    width: usize,
) {
    let rows: [&[f32]; R] = std::array::from_fn(|r| &a[r * dim..(r + 1) * dim]);
    let mut sums = [[0.0f32; COLUMNS]; R];
    let (panel, _) = panel.as_chunks::<COLUMNS>();
    for (k, components) in panel.iter().enumerate().take(dim) {
        for r in 0..R {
            let x = rows[r][k];
            for c in 0..COLUMNS {
                sums[r][c] = if FUSED {
                    x.mul_add(components[c], sums[r][c])
                } else {
                    sums[r][c] + x * components[c]
                };
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        out[r * width..r * width + COLUMNS].copy_from_slice(sums);
    }
}

/// # Safety
/// The CPU has AVX-512 F and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,fma")]
unsafe fn avx512<const R: usize>(a: &[f32], b: &[f32], dim: usize, out: &mut [f32], width: usize) {
    block::<R, true>(a, b, dim, out, width);
}

/// # Safety
/// The CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const R: usize>(a: &[f32], b: &[f32], dim: usize, out: &mut [f32], width: usize) {
    block::<R, true>(a, b, dim, out, width);
}

fn portable<const R: usize>(a: &[f32], b: &[f32], dim: usize, out: &mut [f32], width: usize) {
    // NEON, which AArch64 always has, fuses; elsewhere a fused step would be a call.
    block::<R, { cfg!(target_arch = "aarch64") }>(a, b, dim, out, width);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_a_plain_loop_at_every_level() {
        for (rows, others, dim) in [(1, 1, 1), (6, 32, 16), (7, 33, 5), (20, 70, 100)] {
            let value = |i: usize| ((i * 37 + 11) % 64) as f32 - 30.0;
            let a: Vec<f32> = (0..rows * dim).map(value).collect();
            let b: Vec<f32> = (0..others * dim).map(|i| value(i * 3 + 5)).collect();
            for level in SimdLevel::ALL {
                let Some(products) = Products::with_level(dim, level) else { continue };
                let mut packed = vec![f32::NAN; products.packed_len(others)];
                products.pack(&b, &mut packed);
                let width = packed.len() / dim;
                let mut out = vec![f32::NAN; rows * width];
                products.products(&a, &packed, &mut out);
                for i in 0..rows {
                    for j in 0..width {
                        let row = &a[i * dim..(i + 1) * dim];
                        let want: f32 = match b.get(j * dim..(j + 1) * dim) {
                            Some(other) => row.iter().zip(other).map(|(x, y)| x * y).sum(),
                            None => 0.0,
                        };
                        assert_eq!(out[i * width + j], want, "{level:?} {rows}x{others}x{dim}");
                    }
                }
            }
        }
    }
}
