//! Calls whose asker goes: they end, and change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pipeann_db::asker::{Asker, Gone, TooMuch, within};
use pipeann_db::catalog::NewCollection;
use pipeann_db::collection::{
    Collection, CollectionError, Filter, Grouping, RowQuery, SearchRequest,
};
use pipeann_db::database::Database;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, Value, VectorKind,
};
use pipeann_engine::types::VectorSet;

use crate::data::{
    DIM, FIELDS, batch, bytes as bytes_of, create, eventually, keys, load, open, options, vector,
};
use crate::gate::Gate;
use crate::graph::{built, compare};

/// Goes at the look with this number, and takes so many bytes of answer.
struct Leaver {
    looks: AtomicUsize,
    last: usize,
    most_bytes: u64,
}

impl Asker for Leaver {
    fn gone(&self) -> Option<Gone> {
        (self.looks.fetch_add(1, Ordering::Relaxed) >= self.last).then_some(Gone::Left)
    }

    fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
        let fits = bytes <= self.most_bytes;
        fits.then_some(()).ok_or(TooMuch::Answer { most_bytes: self.most_bytes })
    }
}

fn leaves_after(last: usize) -> Arc<Leaver> {
    Arc::new(Leaver { looks: AtomicUsize::new(0), last, most_bytes: u64::MAX })
}

fn rows(c: &Collection, filter: &str) -> Result<usize, CollectionError> {
    let filter = Some(Filter::new(filter));
    c.query(&RowQuery { fields: FIELDS, filter, ..RowQuery::default() }).map(|rows| rows.len())
}

fn filled(dir: &std::path::Path) -> (pipeann_db::database::Database, Arc<Collection>) {
    let database = open(dir);
    let c = create(&database);
    for first in (0..4000).step_by(1000) {
        let rows: Vec<(i64, u32)> = (first..first + 1000).map(|i| (i, i as u32)).collect();
        c.insert(batch(&rows), None).unwrap();
    }
    (database, c)
}

/// Has to be looked at row by row: no index knows what is calculated.
const LOOKED_AT: &str = "id * 2 + 1 > 0";

#[test]
fn a_long_filter_whose_asker_goes_is_read_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, c) = filled(dir.path());
    let keys: Vec<String> = (0..100_000).map(|key| key.to_string()).collect();
    // Whoever reads to the end meets the error there.
    let wrong = format!("id in [{}] !", keys.join(","));
    let leaver = leaves_after(2);
    let found = within(Some(leaver.clone()), || rows(&c, &wrong));
    assert!(matches!(found, Err(CollectionError::Gone(Gone::Left))), "{found:?}");
    assert_eq!(leaver.looks.load(Ordering::Relaxed), 3, "nothing is read after it went");
    let refused = within(Some(leaves_after(usize::MAX)), || rows(&c, &wrong));
    assert!(matches!(refused, Err(CollectionError::Filter(_))), "{refused:?}");
    let right = wrong.trim_end_matches('!');
    assert_eq!(within(Some(leaves_after(usize::MAX)), || rows(&c, right)).unwrap(), 4000);
}

#[test]
fn a_filter_whose_asker_goes_is_evaluated_no_further_and_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, c) = filled(dir.path());
    // Asked for again, so that a whole answer would be remembered.
    for _ in 0..3 {
        let leaver = leaves_after(2);
        let found = within(Some(leaver.clone()), || rows(&c, LOOKED_AT));
        assert!(matches!(found, Err(CollectionError::Gone(Gone::Left))), "{found:?}");
        let looks = leaver.looks.load(Ordering::Relaxed);
        assert_eq!(looks, 3, "nothing is done after it went");
    }
    let stayer = leaves_after(usize::MAX);
    assert_eq!(within(Some(stayer.clone()), || rows(&c, LOOKED_AT)).unwrap(), 4000);
    assert!(stayer.looks.load(Ordering::Relaxed) > 10, "it is looked at on the way");
    assert_eq!(rows(&c, LOOKED_AT).unwrap(), 4000);
}

#[test]
fn a_delete_whose_asker_goes_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, c) = filled(dir.path());
    let delete = || c.delete_matching(Filter::new(LOOKED_AT), None);
    let deleted = within(Some(leaves_after(2)), delete);
    assert!(matches!(deleted, Err(CollectionError::Gone(_))), "{deleted:?}");
    assert_eq!(c.count(None).unwrap(), 4000);
}

/// Counts the bytes of answers, and takes a million at once.
#[derive(Default)]
struct Counter(AtomicU64);

impl Asker for Counter {
    fn gone(&self) -> Option<Gone> {
        None
    }

    fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
        let sum = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if sum > 1_000_000 { Err(TooMuch::Answer { most_bytes: 1_000_000 }) } else { Ok(()) }
    }

    fn shrinks(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[test]
fn rows_that_are_looked_at_for_their_groups_are_not_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let scalar = |name: &str, scalar| FieldSpec::new(name, DataType::Scalar(scalar));
    let schema = Schema::builder()
        .field(scalar("id", ScalarType::Int64).primary_key())
        .field(scalar("kind", ScalarType::Int64))
        .field(scalar("text", ScalarType::VarChar).max_bytes(1000))
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    load(&database);
    let rows = 2_000;
    let text = "x".repeat(1000);
    let longs = |of: fn(i64) -> i64| ColumnValues::Int64((0..rows).map(of).collect());
    let all: Vec<_> = (0..rows as u32).map(vector).collect();
    let dense = DenseVectors::new(VectorKind::Float, DIM, bytes_of(&all)).unwrap();
    let texts = ColumnValues::VarChar((0..rows).map(|_| &text).collect::<Texts>());
    let columns = vec![
        Column::new("id", longs(|id| id)),
        Column::new("kind", longs(|id| id % 3)),
        Column::new("text", texts),
        Column::new("v", ColumnValues::Dense(dense)),
    ];
    c.insert(Batch { rows: rows as usize, columns }, None).unwrap();
    let near = bytes_of(&[vector(5)]);
    let search = SearchRequest {
        metric: Some(Metric::L2),
        output: ["text", "kind"].into(),
        groups: Some(Grouping { output: 1, size: 2, fill: false }),
        ..SearchRequest::new("v", VectorSet::new(&near, DIM, VectorType::F32).unwrap(), 10)
    };
    let counter = Arc::new(Counter::default());
    let hits = within(Some(counter.clone()), || c.search(&search)).unwrap().hits.remove(0);
    assert_eq!(hits.len(), 6);
    for hit in &hits {
        let PrimaryKey::Int64(key) = hit.row.key else { panic!("{hit:?}") };
        let values = [Value::VarChar(text.clone()), Value::Int64(key % 3)];
        assert_eq!(hit.row.values, values);
    }
    let bytes = counter.0.load(Ordering::Relaxed);
    // Those of the first ten are read at once.
    assert!(bytes < 30_000, "{bytes} bytes for six rows of a kilobyte");
    // What is looked at for one query is gone when the next one is looked at.
    let near: Vec<_> = (0..40).map(vector).collect();
    let near = bytes_of(&near);
    let vectors = VectorSet::new(&near, DIM, VectorType::F32).unwrap().into();
    let counter = Arc::new(Counter::default());
    let found = within(Some(counter.clone()), || c.search(&SearchRequest { vectors, ..search }));
    assert!(found.unwrap().hits.iter().all(|hits| hits.len() == 6));
}

#[test]
fn an_exact_search_whose_asker_goes_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, c) = filled(dir.path());
    let near: Vec<[f32; DIM]> = (0..200).map(vector).collect();
    let queries = bytes_of(&near);
    let queries = VectorSet::new(&queries, DIM, VectorType::F32).unwrap();
    let search = SearchRequest {
        metric: Some(Metric::L2),
        output: FIELDS.into(),
        ..SearchRequest::new("v", queries, 10)
    };
    let leaver = leaves_after(2);
    let found = within(Some(leaver.clone()), || c.search(&search));
    assert!(matches!(found, Err(CollectionError::Gone(Gone::Left))), "{found:?}");
    assert_eq!(c.search(&search).unwrap().hits.len(), 200);
}

#[test]
fn a_write_whose_rows_would_wait_for_a_graph_ends_with_its_asker_and_deletes_wait_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::new();
    let mut settings = options();
    settings.collection.graph.backend = Some(gate.clone());
    settings.collection.graph.pending_rows = 10;
    let database = Database::open(dir.path(), settings).unwrap();
    let (c, mut model) = built(&database, 600);
    let shut = gate.shut();
    let some: Vec<_> = (600..620).map(|key| (key, key as u32 * 10)).collect();
    c.insert(batch(&some), None).unwrap();
    model.extend(some);
    let pending = || c.index_status("graph").unwrap().pending;
    assert_eq!(pending(), 20);
    for _ in 0..2 {
        let leaver = leaves_after(2);
        let refused = within(Some(leaver.clone()), || c.insert(batch(&[(-1, 1)]), None));
        assert!(matches!(refused, Err(CollectionError::Gone(Gone::Left))), "{refused:?}");
        assert_eq!(leaver.looks.load(Ordering::Relaxed), 3, "it is looked at on the way");
    }
    let waits = || c.wait_for_index("graph");
    assert!(matches!(within(Some(leaves_after(2)), waits), Err(CollectionError::Gone(_))));
    // Of rows in the graph, and of some that wait.
    let deleted = [3, 600, 601];
    assert_eq!(c.delete(&keys(&deleted)).unwrap().rows, 3);
    assert_eq!(c.delete_matching(Filter::new("id == 5"), None).unwrap().rows, 1);
    model.retain(|key, _| ![3, 5, 600, 601].contains(key));
    assert_eq!(pending(), 18);
    drop(shut);
    eventually(pending, |&pending| pending == 0);
    c.insert(batch(&[(-1, 1)]), None).unwrap();
    model.insert(-1, 1);
    compare(&c, &model);
}

#[test]
fn rows_are_read_as_far_as_their_asker_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, c) = filled(dir.path());
    let little = Leaver { looks: AtomicUsize::new(0), last: usize::MAX, most_bytes: 10 };
    let found = within(Some(Arc::new(little)), || rows(&c, "id >= 0"));
    assert!(matches!(found, Err(CollectionError::AnswerTooLarge { most_bytes: 10 })), "{found:?}");
}
