//! Flat vectors against a naive model, and against damage.

mod damage;
mod documentation;
mod model;
mod opening;

use std::path::Path;

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use super::{FlatHit, FlatOptions, FlatSearch, FlatVectors};
use crate::ids::{Metric, RowId, Seq, VectorType};

const FIELD: [u8; 16] = *b"a field's own id";
const DIM: usize = 5;

fn options() -> FlatOptions {
    FlatOptions {
        tail_bytes: 4 << 20,
        accountant: Accountant::new(None),
        ..FlatOptions::new(FIELD, DIM, VectorType::U8)
    }
}

fn open(dir: &Path) -> FlatVectors {
    FlatVectors::open(dir, &options()).unwrap()
}

/// Rows and their vectors, as a log would have them.
type Batch = Vec<(u64, [u8; DIM])>;

fn append(flat: &FlatVectors, seq: u64, batch: &[(u64, [u8; DIM])]) {
    let rows: Vec<_> = batch.iter().map(|row| RowId(row.0)).collect();
    let bytes: Vec<_> = batch.iter().flat_map(|row| row.1).collect();
    flat.append(Seq(seq), &rows, set(&bytes)).unwrap();
}

fn set(bytes: &[u8]) -> VectorSet<'_> {
    VectorSet::new(bytes, DIM, VectorType::U8).unwrap()
}

/// Applies what `flat` has not applied yet; batches are numbered from 1.
fn replay(flat: &FlatVectors, log: &[Batch]) {
    for (i, batch) in log.iter().enumerate().skip(flat.applied().0 as usize) {
        append(flat, i as u64 + 1, batch);
    }
}

/// Batches of `rows` rows each with vectors that look like chance.
fn log(batches: u64, rows: u64) -> Vec<Batch> {
    let vector = |row: u64| {
        let x = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[..DIM].try_into().unwrap()
    };
    let batch = |b: u64| (b * rows..(b + 1) * rows).map(|row| (row, vector(row))).collect();
    (0..batches).map(batch).collect()
}

/// The answer by sorting everything.
fn naive(
    log: &[Batch],
    query: &[u8],
    k: usize,
    metric: Metric,
    allow: impl Fn(RowId) -> bool,
) -> Vec<FlatHit> {
    let distance = QueryDistance::new(metric, VectorType::U8, query);
    let mut hits: Vec<_> = log
        .iter()
        .flatten()
        .filter(|row| allow(RowId(row.0)))
        .map(|row| FlatHit { distance: distance.distance(&row.1), row: RowId(row.0) })
        .collect();
    hits.sort_by(|a, b| a.distance.partial_cmp(&b.distance).unwrap().then(a.row.cmp(&b.row)));
    hits.truncate(k);
    hits
}

/// Fails unless `flat` holds the rows of `log`, once each, in every way of asking.
fn assert_holds(flat: &FlatVectors, log: &[Batch]) {
    let expected: Vec<_> = log.iter().flatten().copied().collect();
    let mut found = Vec::new();
    flat.scan(|rows, vectors| {
        for (i, row) in rows.iter().enumerate() {
            found.push((row.0, vectors.row(i).try_into().unwrap()));
        }
        Ok::<(), super::FlatError>(())
    })
    .unwrap();
    assert_eq!(found, expected);
    assert_eq!((flat.len(), flat.applied()), (expected.len() as u64, Seq(log.len() as u64)));
    for (row, vector) in &expected {
        let mut out = [0; DIM];
        assert!(flat.get(RowId(*row), &mut out).unwrap());
        assert_eq!(out, *vector, "row {row}");
    }
    let mut untouched = [7; DIM];
    assert!(!flat.get(RowId(u64::MAX), &mut untouched).unwrap());
    assert_eq!(untouched, [7; DIM]);
}
