//! Rewriting: other node ids and codes, the same rows.

use std::sync::atomic::AtomicBool;

use super::{
    Place, Rows, assert_sound, built, consolidate, delete_all, insert_all, live, params, read_only,
    recall, rows_of,
};
use crate::build::{BuildOptions, Silent, build};
use crate::types::{Metric, RowId, VectorSet, VectorType};
use crate::update::{LiveIndex, Rewrite, UpkeepOptions};

const DIM: usize = 32;

fn truths(rows: &Rows, queries: &Rows, live: impl Iterator<Item = usize> + Clone) -> Vec<Vec<u64>> {
    (0..queries.len()).map(|q| rows.truth(queries.row(q), 10, live.clone())).collect()
}

/// Recall@10 and pages that a query looks at.
fn recall_and_pages(
    index: &LiveIndex,
    queries: &Rows,
    truth: &[Vec<u64>],
    list: usize,
) -> (f64, f64) {
    let mut pages = 0;
    let recall = recall(queries, truth, |q| {
        let answer = index.search(q, &params(list), None).unwrap();
        pages += answer.stats.reads + answer.stats.resident_pages;
        answer.hits
    });
    (recall, pages as f64 / truth.len() as f64)
}

#[test]
fn a_rewrite_brings_rows_together_that_inserts_have_strewn() {
    let rows = Rows::clustered(8_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let place = built(&rows, 4_000);
    let index = live(&place.path);
    for step in 0..8 {
        delete_all(&index, step * 500..(step + 1) * 500);
        insert_all(&index, &rows, 4_000 + step * 500..4_500 + step * 500);
        consolidate(&index);
        index.checkpoint(1).unwrap();
    }
    // One that is still part of the graph.
    index.delete(RowId(7_999)).unwrap();
    let truth = truths(&rows, &queries, 4_000..7_999);
    let (strewn, more) = recall_and_pages(&index, &queries, &truth, 30);
    let before: Vec<Vec<u64>> = (0..queries.len())
        .map(|q| rows_of(&index.search(queries.row(q), &params(60), None).unwrap().hits))
        .collect();
    let report = index.rewrite(9, Rewrite::default()).unwrap();
    let (tidy, fewer) = recall_and_pages(&index, &queries, &truth, 30);
    assert!(fewer < 0.95 * more, "{fewer} pages, {more} before");
    assert!(tidy >= strewn - 0.01, "{tidy}, {strewn} before");
    let same = recall(&queries, &before, |q| index.search(q, &params(60), None).unwrap().hits);
    assert!(same >= 0.99, "{same}");
    assert_eq!((index.rows(), index.tombstones(), index.applied()), (3_999, 1, 9));
    let manifest = read_only(&place.path).manifest().clone();
    assert_eq!(manifest.head.nodes, 40, "one node in a hundred");
    assert_eq!(manifest.partitions[0].segments.len(), 1);
    assert_eq!(u64::from(manifest.partitions[0].pages), report.changed_pages);
    assert_eq!(manifest.codebook_version, 1);
    // It goes on as before.
    assert_eq!(consolidate(&index), 1);
    index.insert(RowId(9_000), rows.row(0)).unwrap();
    let hits = index.search(rows.row(0), &params(30), None).unwrap().hits;
    assert_eq!((hits[0].row, hits[0].distance), (RowId(9_000), 0.0));
    index.checkpoint(10).unwrap();
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn a_link_made_before_a_rewrite_changes_nothing_after_it() {
    let rows = Rows::clustered(700, DIM, 1);
    let place = built(&rows, 500);
    let index = live(&place.path);
    let links: Vec<_> =
        (500..700).map(|row| index.insert(RowId(row as u64), rows.row(row)).unwrap()).collect();
    index.rewrite(1, Rewrite::default()).unwrap();
    let moved = links.iter().filter(|l| index.node_of(l.row) != Some(l.node)).count();
    assert!(moved > 100, "{moved} of 200 have other nodes");
    for link in &links {
        index.apply_link(link, rows.row(link.row.0 as usize)).unwrap();
    }
    assert_eq!((index.rows(), index.pending_bytes()), (700, 0));
}

#[test]
fn a_pass_that_a_rewrite_interrupts_begins_anew() {
    let rows = Rows::clustered(2_000, DIM, 1);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    delete_all(&index, 0..200);
    assert!(!index.consolidate(20).unwrap().finished);
    index.rewrite(1, Rewrite::default()).unwrap();
    assert_eq!((index.tombstones(), consolidate(&index)), (200, 200));
    index.checkpoint(2).unwrap();
    for row in (200..2_000).step_by(50) {
        let hits = index.search(rows.row(row), &params(100), None).unwrap().hits;
        assert_eq!(hits[0].distance, 0.0, "row {row}");
    }
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn an_index_without_rows_is_rewritten_as_it_is() {
    let rows = Rows::clustered(300, DIM, 1);
    let place = built(&rows, 100);
    let index = live(&place.path);
    delete_all(&index, 0..100);
    consolidate(&index);
    index.rewrite(1, Rewrite { retrain: true }).unwrap();
    insert_all(&index, &rows, 100..300);
    index.rewrite(2, Rewrite { retrain: true }).unwrap();
    assert_eq!(index.rows(), 200);
    drop(index);
    assert_sound(&place.path);
}

/// Rows, and as many again where no row was before.
fn with_others(rows: &Rows) -> Rows {
    let others = rows.bytes.iter().map(|x| 255 - x);
    Rows { bytes: rows.bytes.iter().copied().chain(others).collect(), dim: rows.dim }
}

/// An index whose codes are short, so that they show what they were trained for.
fn built_with_short_codes(rows: &Rows, count: usize) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    let mut options = BuildOptions::new(Metric::L2);
    (options.graph.degree, options.graph.list, options.graph.threads) = (24, 48, 1);
    options.code_bytes = Some(4);
    let set = VectorSet::new(&rows.bytes[..count * rows.dim], rows.dim, VectorType::U8).unwrap();
    build(set, &path, &options, &Silent, &AtomicBool::new(false)).unwrap();
    Place { _dir: dir, path }
}

#[test]
fn codes_are_trained_again_for_rows_of_another_kind() {
    let rows = with_others(&Rows::clustered(4_000, DIM, 1));
    let queries = with_others(&Rows::clustered(60, DIM, 2));
    let place = built_with_short_codes(&rows, 4_000);
    let index = live(&place.path);
    let options = UpkeepOptions::default();
    assert!(!index.retrain_due(&options).unwrap(), "{:?}", index.code_drift());
    insert_all(&index, &rows, 4_000..8_000);
    let drift = index.code_drift().unwrap().unwrap();
    assert!(drift > 2.0 && index.retrain_due(&options).unwrap(), "{drift}");
    let truth = truths(&rows, &queries, 0..8_000);
    index.rewrite(1, Rewrite { retrain: false }).unwrap();
    let (before, before_pages) = recall_and_pages(&index, &queries, &truth, 12);
    assert!(index.retrain_due(&options).unwrap(), "a rewrite alone trains nothing");
    index.rewrite(2, Rewrite { retrain: true }).unwrap();
    let (after, after_pages) = recall_and_pages(&index, &queries, &truth, 12);
    assert!(
        after >= before + 0.01 || after_pages < 0.9 * before_pages,
        "{after} in {after_pages} pages, {before} in {before_pages} before"
    );
    assert!(index.code_drift().unwrap().unwrap() < 1.1, "{:?}", index.code_drift());
    assert_eq!(read_only(&place.path).manifest().codebook_version, 2);
    drop(index);
    assert_sound(&place.path);
    let index = live(&place.path);
    assert!(!index.retrain_due(&options).unwrap(), "the error of the training is on disk");
    index.insert(RowId(9_000), rows.row(5_000)).unwrap();
    index.checkpoint(3).unwrap();
    assert_eq!(read_only(&place.path).manifest().codebook_version, 2);
}
