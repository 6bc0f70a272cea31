//! A store of flat vectors with at most one segment: its list of segments, and the segment.
//!
//! An input is the list, then the beginning of the segment's first block, each behind its length in
//! two bytes, then what stands behind the blocks. The rest of the block is zero: it would be most
//! of the input.

use pipeann_db::flat::{FlatError, FlatOptions, FlatSearch, FlatVectors};
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::{Metric, RowId, VectorSet, VectorType};

use super::scratch::{dir_with, split};
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["empty", "segment", "rows", "bits"];

const BLOCK_BYTES: usize = 64 << 10;
/// The dimension is the caller's, so it is no part of what is hostile.
const MOST_DIM: usize = 4096;

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((list, rest)) = split(data) else { return };
    let Some((block, behind)) = split(rest) else { return };
    let word = |at: usize| list.get(at..at + 4).and_then(|w| w.first_chunk().copied());
    let (Some(dim), Some(code)) = (word(32), word(36)) else { return };
    let ty = u16::try_from(u32::from_le_bytes(code)).ok().and_then(VectorType::from_code);
    let (dim, ty) = (u32::from_le_bytes(dim) as usize, ty.unwrap_or(VectorType::U8));
    // The caller's, as a schema lets it be.
    let unit = if ty == VectorType::Binary { 8 } else { 1 };
    let dim = dim.clamp(1, MOST_DIM).next_multiple_of(unit);
    let number = list.get(80..88).and_then(|n| n.first_chunk().copied()).map(u64::from_le_bytes);
    let mut segment = block.to_vec();
    // A segment without rows has no block.
    if !block.is_empty() {
        segment.resize(BLOCK_BYTES, 0);
    }
    segment.extend(behind);
    let files = [
        ("FLAT".to_owned(), list),
        (format!("segment-{:06}", number.unwrap_or(1)), segment.as_slice()),
    ];
    let dir = dir_with("flat", &files[..1 + usize::from(number.is_some())]);
    let field = list[16..32].first_chunk().copied().expect("the slice has 16 bytes");
    let options = FlatOptions {
        tail_bytes: 1 << 20,
        accountant: Accountant::new(None),
        ..FlatOptions::new(field, dim, ty)
    };
    let mut out = vec![0; ty.vector_bytes(options.dim)];
    let query = out.clone();
    bounded(list.len() + segment.len(), || {
        let Ok(flat) = FlatVectors::open(&dir, &options) else { return };
        reached.mark("empty", flat.is_empty());
        reached.mark("segment", !flat.is_empty());
        let scanned = flat.scan(|rows, vectors| {
            assert_eq!(rows.len(), vectors.rows());
            reached.mark("rows", true);
            reached.mark("bits", ty == VectorType::Binary);
            Ok::<(), FlatError>(())
        });
        let found = flat.get(RowId(1), &mut out);
        let metric = if ty == VectorType::Binary { Metric::Hamming } else { Metric::L2 };
        let within = DistanceRange::default();
        let search = FlatSearch { k: 3, metric, within, threads: 1, from: RowId(0) };
        let query = VectorSet::new(&query, options.dim, ty).expect("a vector's bytes");
        let answer = flat.search(query, search, &|_| true);
        assert!(scanned.is_err() || answer.is_ok(), "{answer:?} of {found:?}");
    });
}
