//! Scoring of codes: prefetching, the call of a kernel, and the portable sum.

#![expect(unsafe_code, reason = "rows are read through a raw view after one bounds check")]

use super::code_kernel::CodeKernel;
use super::codes::CodesView;
use super::lookup::{Form, LookupTable};
use super::product_table::ProductTable;
use crate::distance::prefetch_line;

/// Ids that are prefetched before the first of them is scored. More would push each other out
/// of the cache.
const WINDOW: usize = 256;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Estimates the distance of every code in `ids`, on the scale of
/// [`QueryDistance`](crate::distance::QueryDistance); smaller is nearer. `out[i]` is for
/// `ids[i]`. Codes are prefetched before they are scored.
///
/// # Panics
/// Where `ids` and `out` differ in length, an id is no row of `codes`, or `codes` have
/// another length than `table` was made for.
pub fn score_many(table: &LookupTable, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    assert_eq!(ids.len(), out.len(), "one estimate per id");
    assert_eq!(codes.code_bytes(), table.code_bytes(), "codes of another codebook");
    for (ids, out) in ids.chunks(WINDOW).zip(out.chunks_mut(WINDOW)) {
        let largest = ids.iter().fold(0, |most, &id| most.max(id));
        assert!((largest as usize) < codes.rows(), "id {largest} of {} codes", codes.rows());
        for &id in ids {
            let start = codes.pointer(id);
            // Most codes lie in one line: asking for it twice is not free.
            let bytes = start.addr() % LINE + codes.code_bytes();
            for line in 0..bytes.div_ceil(LINE) {
                prefetch_line(start.wrapping_add(LINE * line));
            }
        }
        // SAFETY: all ids were found to be rows, and table and codes to be equally wide; a form
        // exists only for kernels that the CPU was found to have.
        unsafe {
            match &table.form {
                Form::Product(table) => score(table, codes, ids, out),
                Form::Rabitq(query) => (query.score)(query, codes, ids, out),
            }
        }
        if table.jaccard {
            out.iter_mut().for_each(|estimate| *estimate = jaccard_of_cosine(*estimate));
        }
    }
}

/// The Jaccard distance of two vectors with equally many bits set, from their 1 - cos.
fn jaccard_of_cosine(distance: f32) -> f32 {
    let distance = distance.clamp(0.0, 1.0);
    2.0 * distance / (1.0 + distance)
}

/// # Safety
/// Every id is a row of `codes`, `out` is as long as `ids`, and `table` as wide as `codes`.
unsafe fn score(table: &ProductTable, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use super::{score_gather, score_vbmi};
        match table.kernel {
            CodeKernel::Scalar => {}
            CodeKernel::Avx512Vbmi if !table.split.is_empty() => {
                // SAFETY: a table of this kernel exists only where the CPU has it; the rest is
                // this function's own contract.
                return unsafe { score_vbmi::score(table, codes, ids, out) };
            }
            CodeKernel::Avx512Vbmi | CodeKernel::Avx512Gather => {
                // SAFETY: as above; VBMI is offered only along with the AVX-512 of the gather.
                return unsafe { score_gather::avx512(table, codes, ids, out) };
            }
            CodeKernel::Avx2Gather => {
                // SAFETY: as above.
                return unsafe { score_gather::avx2(table, codes, ids, out) };
            }
        }
    }
    // SAFETY: this function's own contract.
    unsafe { score_scalar(table, codes, ids, out) }
}

/// # Safety
/// As for [`score`].
unsafe fn score_scalar(table: &ProductTable, codes: CodesView<'_>, ids: &[u32], out: &mut [f32]) {
    let (quads, rest) = table.parts.as_chunks::<4>();
    for (&id, out) in ids.iter().zip(out) {
        // SAFETY: `id` is a row of `codes`.
        let code = unsafe { codes.row_unchecked(id) };
        let (code_quads, code_rest) = code.as_chunks::<4>();
        let mut sums = [0f32; 4];
        for (parts, code) in quads.iter().zip(code_quads) {
            for ((sum, parts), &c) in sums.iter_mut().zip(parts).zip(code) {
                *sum += parts.0[usize::from(c)];
            }
        }
        let rest: f32 = rest.iter().zip(code_rest).map(|(p, &c)| p.0[usize::from(c)]).sum();
        *out = table.bias + rest + (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}
