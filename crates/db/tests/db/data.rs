//! What the tests of collections are made with.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection, UnixMs};
use pipeann_db::collection::{Collection, CollectionOptions, RowQuery, SearchHit, SearchRequest};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::field_index::GraphOptions;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Value, VectorKind,
};
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::VectorSet;

pub(crate) const DIM: usize = 4;

/// Small buffers, so that flushes come often; the memory is the test's own.
pub(crate) fn options() -> DatabaseOptions {
    let collection = CollectionOptions {
        flush_log_bytes: 1 << 20,
        row_buffer_bytes: 1 << 20,
        tail_bytes: 64 << 10,
        scalar_buffer_bytes: 64 << 10,
        search_threads: 2,
        accountant: Accountant::new(None),
        graph: GraphOptions {
            build_threads: 2,
            link_threads: 2,
            least_rows: 300,
            pending_rows: 400,
            dirty_bytes: 256 << 10,
            direct: false,
            ..GraphOptions::default()
        },
        ..CollectionOptions::default()
    };
    let others = DatabaseOptions::new(|| UnixMs(1_000_000));
    DatabaseOptions { collection, row_cache_bytes: 1 << 20, ..others }
}

/// Waits until what others do behind a call has come to be as it should.
///
/// # Panics
/// Where it does not.
pub(crate) fn eventually<T: Debug>(now: impl Fn() -> T, is_so: impl Fn(&T) -> bool) {
    let begun = Instant::now();
    loop {
        let now = now();
        if is_so(&now) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays {now:?}");
        std::thread::yield_now();
    }
}

pub(crate) fn open(dir: &Path) -> Database {
    Database::open(dir, options()).unwrap()
}

/// `id` int64, `note` varchar of at most 16 bytes, `v` a float vector.
pub(crate) fn schema() -> Schema {
    let field = |name: &str, data_type| FieldSpec::new(name, data_type);
    Schema::builder()
        .field(field("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(field("note", DataType::Scalar(ScalarType::VarChar)).max_bytes(16))
        .field(field("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap()
}

/// The collection `c`, new and loaded.
pub(crate) fn create(database: &Database) -> Arc<Collection> {
    let created = database.create_collection("default", "c", NewCollection::new(schema())).unwrap();
    load(database);
    created
}

pub(crate) fn load(database: &Database) {
    database.apply(EntryChange::Load { place: place(), partitions: None }).unwrap();
}

pub(crate) fn place() -> CollectionPath {
    CollectionPath::new("default", "c")
}

pub(crate) fn collection(database: &Database) -> Arc<Collection> {
    database.collection("default", "c").unwrap()
}

/// The vector of a row that is told apart by `seed`.
pub(crate) fn vector(seed: u32) -> [f32; DIM] {
    let mut state = seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    [(); DIM].map(|()| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state % 1000) as f32 / 100.0
    })
}

pub(crate) fn bytes(vectors: &[[f32; DIM]]) -> Vec<u8> {
    vectors.iter().flatten().flat_map(|c| c.to_le_bytes()).collect()
}

/// Rows of key and seed: the note and the vector tell the seed.
pub(crate) fn batch(rows: &[(i64, u32)]) -> Batch {
    let notes = rows.iter().map(|(_, seed)| format!("note {seed}"));
    with_notes(rows.iter().map(|&(key, seed)| (key, vector(seed))), notes)
}

/// Rows of these vectors.
pub(crate) fn batch_of(rows: &[(i64, [f32; DIM])]) -> Batch {
    with_notes(rows.iter().copied(), rows.iter().map(|(key, _)| format!("row {key}")))
}

fn with_notes(
    rows: impl Iterator<Item = (i64, [f32; DIM])>,
    notes: impl Iterator<Item = String>,
) -> Batch {
    let (keys, vectors): (Vec<i64>, Vec<_>) = rows.unzip();
    let vectors = DenseVectors::new(VectorKind::Float, DIM, bytes(&vectors)).unwrap();
    Batch {
        rows: keys.len(),
        columns: vec![
            Column::new("id", ColumnValues::Int64(keys)),
            Column::new("note", ColumnValues::VarChar(notes.collect())),
            Column::new("v", ColumnValues::Dense(vectors)),
        ],
    }
}

pub(crate) fn keys(keys: &[i64]) -> Vec<PrimaryKey> {
    keys.iter().copied().map(PrimaryKey::Int64).collect()
}

/// The seed that a row's note tells, after its vector has been found to tell the same.
pub(crate) fn seed(values: &[Value]) -> u32 {
    let [Value::VarChar(note), Value::Vector(found)] = values else { panic!("{values:?}") };
    let seed = note.strip_prefix("note ").unwrap().parse().unwrap();
    assert_eq!(*found, bytes(&[vector(seed)]), "the vector of another row");
    seed
}

pub(crate) const FIELDS: &[&str] = &["note", "v"];

/// All rows as key and seed, by row id.
pub(crate) fn rows(collection: &Collection) -> Vec<(i64, u32)> {
    let query = RowQuery { fields: FIELDS, ..RowQuery::default() };
    let found = collection.query(&query).unwrap();
    let key = |key: &PrimaryKey| match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(key) => panic!("{key}"),
    };
    found.iter().map(|row| (key(&row.key), seed(&row.values))).collect()
}

pub(crate) fn search_by(collection: &Collection, k: usize, near: [f32; DIM]) -> Vec<SearchHit> {
    let query = bytes(&[near]);
    let queries = VectorSet::new(&query, DIM, VectorType::F32).unwrap();
    let search = SearchRequest {
        metric: Some(Metric::L2),
        output: FIELDS.into(),
        ..SearchRequest::new("v", queries, k)
    };
    collection.search(&search).unwrap().hits.remove(0)
}

pub(crate) fn distance(a: [f32; DIM], b: [f32; DIM]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// All files below `dir`, sorted.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out.sort();
    out
}

/// Names in `dir`, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
