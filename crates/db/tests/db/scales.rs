//! Rows whose lengths lie orders apart: each is found before and after it joins the graph, whichever
//! came first.

use std::path::Path;

use pipeann_db::catalog::{EntryChange, IndexState, NewIndex, Properties};
use pipeann_db::collection::{Collection, SearchRequest};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, batch_of, bytes, collection, create, load, open, place, vector};

const ALIKE: i64 = 600;
const OTHERS: i64 = 600;

/// The first rows have norms near 1; the others up to 1e18.
fn row(key: i64) -> [f32; DIM] {
    let scale = if key < ALIKE { 1.0 } else { 10f32.powi((key % 19) as i32) };
    alike(key).map(|x| x * scale)
}

fn alike(key: i64) -> [f32; DIM] {
    vector(key as u32 + 9)
}

fn insert(c: &Collection, keys: std::ops::Range<i64>) {
    let rows: Vec<_> = keys.map(|key| (key, row(key))).collect();
    rows.chunks(100).for_each(|some| drop(c.insert(batch_of(some), None).unwrap()));
}

/// How many rows are the nearest to themselves.
fn found(c: &Collection, keys: std::ops::Range<i64>) -> usize {
    found_of(c, &keys.map(row).collect::<Vec<_>>())
}

fn found_of(c: &Collection, rows: &[[f32; DIM]]) -> usize {
    let bytes = bytes(rows);
    let queries = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let search = SearchRequest::new("v", queries, 1);
    let hits = c.search(&search).unwrap().hits;
    hits.iter().filter(|hits| hits[0].distance == 0.0).count()
}

fn index(database: &pipeann_db::database::Database, c: &Collection) {
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let new =
        NewIndex { field, name, kind: "DISKANN".to_owned(), metric, parameters: Properties::new() };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
}

fn wait(c: &Collection, rows: u64) {
    while c.wait_for_index("graph").unwrap().linked < rows {
        std::thread::yield_now();
    }
}

fn again(dir: &Path) {
    let database = open(dir);
    load(&database);
    let c = collection(&database);
    assert_eq!(found(&c, 0..ALIKE + OTHERS), (ALIKE + OTHERS) as usize, "opened again");
}

#[test]
fn long_rows_that_come_after_a_graph_of_short_ones_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    insert(&c, 0..ALIKE);
    index(&database, &c);
    insert(&c, ALIKE..ALIKE + OTHERS);
    assert_eq!(found(&c, 0..ALIKE + OTHERS), (ALIKE + OTHERS) as usize, "before they join");
    wait(&c, (ALIKE + OTHERS) as u64);
    assert_eq!(found(&c, 0..ALIKE + OTHERS), (ALIKE + OTHERS) as usize, "after they joined");
    drop((c, database));
    again(dir.path());
}

#[test]
fn short_rows_that_come_after_a_graph_of_long_ones_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    insert(&c, ALIKE..ALIKE + OTHERS);
    index(&database, &c);
    insert(&c, 0..ALIKE);
    wait(&c, (ALIKE + OTHERS) as u64);
    assert_eq!(found(&c, 0..ALIKE + OTHERS), (ALIKE + OTHERS) as usize);
    drop((c, database));
    again(dir.path());
}

/// Rows beyond what the codes of a graph stand for: it takes a few, and is built anew for more.
fn longer_rows_are_found(count: usize, stays: bool) {
    for scale in [3.0, 8.0, 13.0] {
        let dir = tempfile::tempdir().unwrap();
        let database = open(dir.path());
        let c = create(&database);
        insert(&c, 0..ALIKE);
        index(&database, &c);
        let keys = (ALIKE..).take(count);
        let rows: Vec<_> = keys.map(|key| (key, alike(key).map(|x| x * scale))).collect();
        for (key, row) in &rows {
            c.insert(batch_of(&[(*key, *row)]), None).unwrap();
            c.wait_for_index("graph").unwrap();
            assert_eq!(found_of(&c, &[*row]), 1, "row {key}, {scale} times as long");
        }
        let IndexState::Finished { rows: built } = c.index_status("graph").unwrap().state else {
            panic!("nobody builds")
        };
        assert_eq!(built == ALIKE as u64, stays || scale < 4.0, "{scale}: built with {built}");
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        assert_eq!(found_of(&c, &rows), count, "{scale} times as long");
    }
}

#[test]
fn a_few_rows_that_are_longer_than_all_codes_are_found() {
    longer_rows_are_found(30, true);
}

#[test]
fn many_rows_that_are_longer_than_all_codes_are_found() {
    longer_rows_are_found(100, false);
}
