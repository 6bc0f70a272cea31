//! Codes of bits through inserts, a change of the rows' kind, and an opening afterwards.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Rows, assert_sound, built, delete_all, insert_all, live, params, read_only, recall};
use crate::build::{BuildOptions, Silent, build};
use crate::quant::CodeKind;
use crate::search::Hit;
use crate::types::{Metric, RowId, VectorSet, VectorType};
use crate::update::{Rewrite, UpkeepOptions};

const DIM: usize = 32;

/// An index of the first rows with this many bytes for a code of bits.
fn built_with_bits(rows: &Rows, count: usize, code_bytes: usize) -> super::Place {
    let place = built(rows, 1);
    let mut options = BuildOptions { overwrite: true, ..BuildOptions::new(Metric::L2) };
    (options.graph.degree, options.graph.list, options.graph.threads) = (24, 48, 1);
    (options.codes, options.code_bytes) = (CodeKind::Rabitq, Some(code_bytes));
    let set = VectorSet::new(&rows.bytes[..count * rows.dim], rows.dim, VectorType::U8).unwrap();
    build(set, &place.path, &options, &Silent, &AtomicBool::new(false)).unwrap();
    place
}

#[test]
fn rows_are_coded_by_bits_as_they_come_and_again_when_the_mean_has_moved() {
    let near = Rows::clustered(2_000, DIM, 1);
    let others = near.bytes.iter().map(|x| x / 2 + 127);
    let rows = Rows { bytes: near.bytes.iter().copied().chain(others).collect(), dim: DIM };
    let place = built_with_bits(&rows, 2_000, 20);
    let index = live(&place.path);
    let options = UpkeepOptions::default();
    assert!(!index.retrain_due(&options).unwrap(), "{:?}", index.code_drift());
    insert_all(&index, &rows, 2_000..4_000);
    delete_all(&index, 0..1_500);
    let queries = Rows { bytes: rows.bytes[2_500 * DIM..2_560 * DIM].to_vec(), dim: DIM };
    let truth: Vec<Vec<u64>> =
        (0..queries.len()).map(|q| rows.truth(queries.row(q), 10, 1_500..4_000)).collect();
    let found = |hits: &dyn Fn(&[u8]) -> Vec<Hit>| recall(&queries, &truth, hits);
    let live_recall = found(&|q| index.search(q, &params(40), None).unwrap().hits);
    assert!(live_recall > 0.95, "{live_recall}");
    assert!(index.retrain_due(&options).unwrap(), "{:?}", index.code_drift());
    index.rewrite(1, Rewrite { retrain: true }).unwrap();
    assert!(index.code_drift().unwrap().unwrap() < 1.1, "{:?}", index.code_drift());
    drop(index);
    assert_sound(&place.path);
    let index = read_only(&place.path);
    assert_eq!((index.manifest().codebook_version, index.manifest().code_bytes), (2, 20));
    assert_eq!((index.codebook().kind(), index.codebook().bits()), (CodeKind::Rabitq, Some(3)));
    let again = found(&|q| index.search(q, &params(40), None).unwrap().hits);
    assert!(again > 0.95, "{again}");
}

#[test]
fn the_nearest_of_some_rows_are_ranked_by_codes_of_bits() {
    let rows = Rows::clustered(3_000, DIM, 1);
    let place = built_with_bits(&rows, 3_000, 24);
    let index = read_only(&place.path);
    let rows_allowed: Vec<RowId> = (0..3_000).step_by(60).map(RowId).collect();
    let allow = Arc::new(index.allow_rows(&rows_allowed).unwrap());
    for query in 0..30 {
        let query = rows.row(query * 7 + 1);
        let hits = index.search(query, &params(20), Some(Arc::clone(&allow))).unwrap().hits;
        let found: Vec<u64> = hits.iter().map(|hit| hit.row.0).collect();
        let truth = rows.truth(query, 10, (0..3_000).step_by(60));
        let same = truth.iter().filter(|row| found.contains(row)).count();
        assert!(same >= 9, "{found:?} of {truth:?}");
    }
}
