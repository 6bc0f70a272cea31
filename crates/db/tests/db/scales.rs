//! Rows whose lengths lie orders apart: each is found before and after it joins the graph, whichever
//! came first.

use std::path::Path;

use pipeann_db::catalog::{Change, NewIndex, Properties};
use pipeann_db::collection::{Collection, VectorSearch};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, batch_of, bytes, collection, create, load, open, place, vector};

const ALIKE: i64 = 600;
const OTHERS: i64 = 600;

/// The first rows have norms near 1; the others up to 1e18.
fn row(key: i64) -> [f32; DIM] {
    let scale = if key < ALIKE { 1.0 } else { 10f32.powi((key % 19) as i32) };
    vector(key as u32 + 9).map(|x| x * scale)
}

fn insert(c: &Collection, keys: std::ops::Range<i64>) {
    let rows: Vec<_> = keys.map(|key| (key, row(key))).collect();
    rows.chunks(100).for_each(|some| drop(c.insert(batch_of(some), None).unwrap()));
}

/// How many rows are the nearest to themselves.
fn found(c: &Collection, keys: std::ops::Range<i64>) -> usize {
    let rows: Vec<_> = keys.map(row).collect();
    let bytes = bytes(&rows);
    let search = VectorSearch {
        field: "v",
        k: 1,
        metric: None,
        list: None,
        partitions: None,
        filter: None,
        output: &[],
    };
    let queries = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let hits = c.search(&search, queries).unwrap();
    hits.iter().filter(|hits| hits[0].distance == 0.0).count()
}

fn index(database: &pipeann_db::database::Database, c: &Collection) {
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let new =
        NewIndex { field, name, kind: "DISKANN".to_owned(), metric, parameters: Properties::new() };
    database.apply(Change::CreateIndex { place: place(), new }).unwrap();
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
