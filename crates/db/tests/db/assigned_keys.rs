//! Keys that rows are given which bring none, beside keys that upserts bring.

use std::sync::Arc;

use pipeann_db::catalog::NewCollection;
use pipeann_db::collection::{Collection, RowQuery, keys_of_request};
use pipeann_db::database::Database;
use pipeann_db::replication::MemoryLog;
use pipeann_db::replication::requests::RequestAnswer;
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, VectorKind,
};

use crate::data::{DIM, bytes, collection, load, open, vector};
use crate::shared::Server;

/// The collection `c`, which assigns keys of this type.
fn create(database: &Database, kind: ScalarType) -> Arc<Collection> {
    let id = FieldSpec::new("id", DataType::Scalar(kind)).auto_id();
    let id = if kind == ScalarType::VarChar { id.max_bytes(40) } else { id };
    let schema = Schema::builder()
        .field(id)
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    load(database);
    c
}

fn vectors(rows: usize) -> Batch {
    let all: Vec<_> = (0..rows as u32).map(vector).collect();
    let dense = DenseVectors::new(VectorKind::Float, DIM, bytes(&all)).unwrap();
    Batch { rows, columns: vec![Column::new("v", ColumnValues::Dense(dense))] }
}

fn number(key: &PrimaryKey) -> i64 {
    match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(key) => key.parse().unwrap(),
    }
}

/// Upserts rows of these keys.
fn upsert(c: &Collection, keys: impl IntoIterator<Item = i64>) {
    let keys: Vec<i64> = keys.into_iter().collect();
    let mut batch = vectors(keys.len());
    let schema = Arc::clone(&c.entry().unwrap().schema);
    let values = match schema.primary_key().spec.data_type {
        DataType::Scalar(ScalarType::Int64) => ColumnValues::Int64(keys),
        _ => ColumnValues::VarChar(keys.iter().map(i64::to_string).collect::<Texts>()),
    };
    batch.columns.push(Column::new("id", values));
    c.upsert(batch, None).unwrap();
}

/// Inserts so many rows, and tells their keys, which follow from the first row.
fn insert(c: &Collection, rows: usize) -> Vec<i64> {
    let made = c.insert(vectors(rows), None).unwrap();
    let answer = RequestAnswer { first_row: made.rows.start, rows: rows as u64, removed: 0 };
    let schema = Arc::clone(&c.entry().unwrap().schema);
    let again = keys_of_request(&schema, &vectors(rows), answer);
    assert_eq!(again, made.keys);
    made.keys.iter().map(number).collect()
}

/// All rows have keys of their own.
fn assert_distinct(c: &Collection, rows: usize) {
    let found = c.query(&RowQuery::default()).unwrap();
    let mut keys: Vec<i64> = found.iter().map(|row| number(&row.key)).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((found.len(), keys.len()), (rows, rows));
}

const KINDS: [ScalarType; 2] = [ScalarType::Int64, ScalarType::VarChar];

#[test]
fn keys_that_upserts_have_brought_are_passed_over() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let database = open(dir.path());
        let c = create(&database, kind);
        upsert(&c, [5]);
        assert_eq!(insert(&c, 2), [2, 3]);
        assert_eq!(insert(&c, 10), (6..16).collect::<Vec<_>>(), "one of which would be 5");
        upsert(&c, [18, 20, -3, 0, 1 << 62]);
        assert_eq!(insert(&c, 2), [21, 22]);
        assert_eq!(insert(&c, 1), [23]);
        assert_distinct(&c, 1 + 2 + 10 + 5 + 3);
        // Keys that are given out are free again where their rows are gone.
        upsert(&c, [30]);
        c.delete(&[match kind {
            ScalarType::Int64 => PrimaryKey::Int64(30),
            _ => PrimaryKey::VarChar("30".into()),
        }])
        .unwrap();
        assert_eq!(insert(&c, 8), (25..33).collect::<Vec<_>>());
    }
}

#[test]
fn rows_that_were_carried_over_keep_their_keys_to_themselves() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let database = open(dir.path());
        let c = create(&database, kind);
        upsert(&c, 100..3_200);
        drop((c, database));
        let database = open(dir.path());
        let c = collection(&database);
        assert_eq!(insert(&c, 99), (3_200..3_299).collect::<Vec<_>>());
        upsert(&c, 5_000..5_010);
        let rest: Vec<i64> = (0..20).flat_map(|_| insert(&c, 100)).collect();
        assert!(rest.is_sorted() && rest.iter().all(|key| !(5_000..5_010).contains(key)));
        assert_distinct(&c, 3_100 + 99 + 10 + 2_000);
        c.flush().unwrap();
        assert_distinct(&c, 3_100 + 99 + 10 + 2_000);
    }
}

#[test]
fn a_leader_knows_the_keys_that_came_while_another_led() {
    for kind in KINDS {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let log = MemoryLog::default();
        let mut a = Server::open(one.path(), &log, 0);
        let mut b = Server::open(two.path(), &log, 0);
        a.lead();
        let c = create(&a.database, kind);
        assert_eq!(insert(&c, 2), [1, 2]);
        b.lead();
        let d = b.collection();
        upsert(&d, [5]);
        assert_eq!(insert(&d, 1), [4]);
        a.database.follow().unwrap();
        a.lead();
        assert_eq!(insert(&c, 2), [6, 7]);
        b.database.follow().unwrap();
        b.catch_up();
        assert_distinct(&d, 6);
        assert_distinct(&c, 6);
    }
}

#[test]
fn many_threads_are_given_keys_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, ScalarType::Int64);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let c = &c;
            scope.spawn(move || {
                for round in 0..30 {
                    insert(c, 7);
                    // Where nobody else upserts.
                    upsert(c, [10_000 + thread * 1_000 + round]);
                }
            });
        }
    });
    assert_distinct(&c, 4 * 30 * 8);
    upsert(&c, [2_000]);
    let rest: Vec<i64> = (0..150).flat_map(|_| insert(&c, 10)).collect();
    assert!(!rest.contains(&2_000), "{rest:?}");
    assert_distinct(&c, 4 * 30 * 8 + 1 + 1_500);
}
