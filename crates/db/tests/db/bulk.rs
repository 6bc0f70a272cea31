//! Bulk loads: what they load, what they refuse, and that an interrupted one goes on where it was.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pipeann_db::bulk::{
    BatchSource, KeyColumn, LoadError, LoadOptions, LoadProgress, LoadReport, LoadWatch,
    SourceError, VectorFile, estimate, load,
};
use pipeann_db::catalog::{EntryChange, IndexState, NewCollection, NewIndex, Properties};
use pipeann_db::collection::{Collection, CollectionError, LoadState, RowQuery};
use pipeann_db::database::Database;
use pipeann_db::ids::{ErrorClass, Metric};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Value, VectorKind,
};

use crate::data::{DIM, batch, bytes, collection, create, open, place, rows, vector};

/// Rows that tell their number: key and seed.
pub(crate) struct Numbers {
    rows: u64,
    at: u64,
    /// A row whose note is too long.
    bad: Option<u64>,
}

impl Numbers {
    pub(crate) fn new(rows: u64) -> Self {
        Self { rows, at: 0, bad: None }
    }
}

impl BatchSource for Numbers {
    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn identity(&self) -> u128 {
        self.rows.into()
    }

    fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        self.at = row;
        Ok(())
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError> {
        let end = self.rows.min(self.at + most as u64);
        let some: Vec<_> = (self.at..end).map(|row| (row as i64, row as u32)).collect();
        let mut next = batch(&some);
        if let Some(bad) = self.bad.filter(|bad| (self.at..end).contains(bad)) {
            let notes = (self.at..end).map(|row| match row == bad {
                true => "seventeen letters".to_owned(),
                false => format!("note {row}"),
            });
            next.columns[1].values = pipeann_db::value::ColumnValues::VarChar(notes.collect());
        }
        self.at = end;
        Ok((!some.is_empty()).then_some(next))
    }
}

/// Breaks off after some batches.
struct Watch {
    started: Instant,
    batches: usize,
    seen: Vec<LoadProgress>,
}

impl Watch {
    fn for_batches(batches: usize) -> Self {
        Self { started: Instant::now(), batches, seen: Vec::new() }
    }
}

impl LoadWatch for Watch {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()> {
        self.seen.push(progress.clone());
        if self.seen.len() >= self.batches {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pause(&mut self) {
        std::thread::yield_now();
    }
}

/// Batches of some hundred rows.
pub(crate) fn small() -> LoadOptions {
    LoadOptions { batch_bytes: 32 << 10, ..LoadOptions::new("numbers") }
}

pub(crate) fn run(c: &Collection, rows: u64) -> Result<LoadReport, LoadError> {
    load(c, &mut Numbers::new(rows), &small(), &mut Watch::for_batches(usize::MAX))
}

pub(crate) fn expected(rows: u64) -> Vec<(i64, u32)> {
    (0..rows).map(|row| (row as i64, row as u32)).collect()
}

#[test]
fn a_load_is_watched_and_loads_every_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let before = estimate(&c, Some(5000)).unwrap();
    assert!(before.disk_bytes > 5000 * (16 + 8) && before.seconds > 0.0, "{before:?}");
    let mut watch = Watch::for_batches(usize::MAX);
    let report = load(&c, &mut Numbers::new(5000), &small(), &mut watch).unwrap();
    assert_eq!((report.rows, report.resumed_at), (5000, 0));
    assert!(watch.seen.len() > 5, "{} batches", watch.seen.len());
    assert!(watch.seen.windows(2).all(|pair| pair[0].rows < pair[1].rows));
    let last = watch.seen.last().unwrap();
    assert_eq!((last.rows, last.total, last.left), (5000, Some(5000), Some(Duration::ZERO)));
    assert_eq!(rows(&c), expected(5000));
    let again = run(&c, 5000).unwrap();
    assert_eq!((again.rows, again.resumed_at, again.logged_bytes), (5000, 5000, 0));
    assert_eq!(c.count(None).unwrap(), 5000, "a load that ended adds nothing when repeated");
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_snapshot_remembers_loads() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let c = create(&database);
    let mut watch = Watch::for_batches(3);
    let broken = load(&c, &mut Numbers::new(3000), &small(), &mut watch);
    assert!(matches!(broken, Err(LoadError::Interrupted { .. })));
    let there = c.count(None).unwrap();
    assert!(0 < there && there < 3000, "{there} rows");
    database.snapshot_to(&dir.path().join("copy")).unwrap();
    let copy = open(&dir.path().join("copy"));
    let copied = collection(&copy);
    let report = run(&copied, 3000).unwrap();
    assert_eq!((report.rows, report.resumed_at), (3000, there));
    assert_eq!(rows(&copied), expected(3000));
    assert_eq!(c.count(None).unwrap(), there);
}

#[test]
fn an_interrupted_load_goes_on_beside_other_writes() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = open(dir.path());
    let mut c = create(&database);
    let mut loaded = 0;
    for round in 0..3 {
        let mut watch = Watch::for_batches(2);
        let stopped = load(&c, &mut Numbers::new(5000), &small(), &mut watch).unwrap_err();
        let LoadError::Interrupted { rows: at } = stopped else { panic!("{stopped}") };
        assert_eq!(watch.seen[0].resumed_at, loaded, "round {round}");
        assert!(at > loaded, "round {round}");
        loaded = at;
        c.insert(batch(&[(9000 + round, 1)]), None).unwrap();
        if round == 1 {
            drop((c, database));
            database = open(dir.path());
            c = database.collection("default", "c").unwrap();
        }
        let state = LoadState { name: "numbers".into(), rows: loaded, finished: false };
        assert_eq!(c.loads().unwrap(), [state]);
    }
    let report = run(&c, 5000).unwrap();
    assert_eq!((report.rows, report.resumed_at), (5000, loaded));
    let mut found = rows(&c);
    found.retain(|(key, _)| *key < 9000);
    assert_eq!(found, expected(5000));
    assert_eq!(c.count(None).unwrap(), 5003);
    assert!(c.forget_load("numbers").unwrap() && !c.forget_load("numbers").unwrap());
    assert_eq!(run(&c, 5000).unwrap().resumed_at, 0, "a forgotten load begins anew");
}

/// An index of the collection's vectors that is not built yet.
fn declare_index(database: &Database) {
    let new = NewIndex {
        field: "v".into(),
        name: None,
        kind: "AUTOINDEX".into(),
        metric: Some(Metric::L2),
        parameters: Properties::from([("max_degree".into(), "16".into())]),
    };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
}

#[test]
fn an_index_whose_build_was_interrupted_is_waited_for_and_told() {
    let dir = tempfile::tempdir().unwrap();
    {
        let database = open(dir.path());
        let c = create(&database);
        declare_index(&database);
        let rows_alone = LoadOptions { build_indexes: false, ..small() };
        let mut watch = Watch::for_batches(usize::MAX);
        load(&c, &mut Numbers::new(5000), &rows_alone, &mut watch).unwrap();
        c.build_index("v").unwrap();
    }
    let database = open(dir.path());
    let c = collection(&database);
    let report = run(&c, 5000).unwrap();
    assert_eq!((report.resumed_at, &*report.indexes), (5000, &["v".to_owned()][..]));
    assert!(report.index_time > Duration::ZERO);
    let status = c.index_status("v").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 5000 }, 5000));
}

#[test]
fn declared_indexes_are_built_behind_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    declare_index(&database);
    let expected = estimate(&c, Some(5000)).unwrap().indexes;
    assert!(expected[0].cpu_seconds > 0.0 && expected[0].disk_bytes > 5000 * 16, "{expected:?}");
    let mut watch = Watch::for_batches(usize::MAX);
    let report = load(&c, &mut Numbers::new(5000), &small(), &mut watch).unwrap();
    assert_eq!((report.rows, &*report.indexes), (5000, &["v".to_owned()][..]));
    let index = watch.seen.iter().filter_map(|progress| progress.index.as_ref());
    assert!(index.clone().count() > 0 && index.clone().all(|index| index.total == 5000));
    let status = c.index_status("v").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 5000 }, 5000));
    assert_eq!(estimate(&c, Some(5000)).unwrap().indexes, []);
    let more = LoadOptions { name: "more".into(), ..small() };
    let mut watch = Watch::for_batches(usize::MAX);
    let report = load(&c, &mut Numbers::new(1000), &more, &mut watch).unwrap();
    assert_eq!(report.indexes, [""; 0], "rows join an index that is there");
    let status = c.index_status("v").unwrap();
    assert_eq!((status.linked, status.pending), (6000, 0));
}

#[test]
fn a_bad_row_is_named_by_its_place_in_the_source_and_can_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let mut source = Numbers { bad: Some(3210), ..Numbers::new(5000) };
    let mut watch = Watch::for_batches(usize::MAX);
    let error = load(&c, &mut source, &small(), &mut watch).unwrap_err();
    assert!(error.to_string().starts_with("field `note`, row 3210: "), "{error}");
    assert!(std::error::Error::source(&error).is_none(), "all of it is told above");
    assert_eq!(error.class(), ErrorClass::FixInput);
    let there = c.count(None).unwrap();
    assert!((1000..=3210).contains(&there), "{there} rows of the batches before");
    assert_eq!(run(&c, 5000).unwrap().resumed_at, there);
    assert_eq!(rows(&c), expected(5000));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    load(&c, &mut Numbers::new(5000), &small(), &mut Watch::for_batches(1)).unwrap_err();
    let other = run(&c, 4000).unwrap_err();
    assert!(matches!(other, LoadError::Collection(CollectionError::LoadSource { .. })), "{other}");
    for name in ["", &"n".repeat(256)] {
        let error = c.begin_load(name, 1).unwrap_err();
        assert!(matches!(error, CollectionError::LoadName { .. }), "{error}");
    }
    let running = c.begin_load("twice", 1).unwrap();
    let error = c.begin_load("twice", 1).unwrap_err();
    assert!(matches!(error, CollectionError::LoadRunning { .. }), "{error}");
    assert!(c.forget_load("twice").is_err());
    drop(running);
    c.begin_load("twice", 1).unwrap();
}

#[test]
fn a_damaged_list_of_loads_refuses_loads_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    run(&c, 2000).unwrap();
    let path = dir.path().join(format!("collections/{}/LOADS", c.entry().unwrap().id.0));
    drop((c, database));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let database = open(dir.path());
    let c = database.collection("default", "c").unwrap();
    assert_eq!(c.count(None).unwrap(), 2000);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    let error = run(&c, 2000).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Stop);
    assert!(error.to_string().contains("LOADS"), "{error}");
}

fn vectors_file(dir: &Path, name: &str, rows: u32) -> PathBuf {
    let vectors: Vec<_> = (0..rows).map(vector).collect();
    let path = dir.join(name);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&[rows.to_le_bytes(), (DIM as u32).to_le_bytes()].concat()).unwrap();
    file.write_all(&bytes(&vectors)).unwrap();
    path
}

#[test]
fn a_file_of_vectors_is_loaded_with_counted_keys() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    let path = vectors_file(dir.path(), "a.fbin", 3000);
    let key = || Some(KeyColumn { field: "id".into(), first: 100 });
    let mut source = VectorFile::open(&path, "v", key()).unwrap();
    load(&c, &mut source, &small(), &mut Watch::for_batches(1)).unwrap_err();
    let mut source = VectorFile::open(&path, "v", key()).unwrap();
    load(&c, &mut source, &small(), &mut Watch::for_batches(usize::MAX)).unwrap();
    let found = c.query(&RowQuery { fields: &["v"], ..RowQuery::default() }).unwrap();
    assert_eq!(found.len(), 3000);
    for (row, found) in found.iter().enumerate() {
        assert_eq!(found.key, PrimaryKey::Int64(100 + row as i64));
        assert_eq!(found.values, [Value::Vector(bytes(&[vector(row as u32)]))]);
    }
}

#[test]
fn files_that_are_no_vectors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(vectors_file(dir.path(), "a.fbin", 300)).unwrap();
    let headed = |rows: u32, dim: u32, rest: &[u8]| {
        [&rows.to_le_bytes()[..], &dim.to_le_bytes(), rest].concat()
    };
    for (name, bytes, says) in [
        ("cut.fbin", whole[..500].to_vec(), "the file has 500 bytes"),
        ("head.fbin", vec![1; 7], "head.fbin"),
        ("none.fbin", headed(0, 4, &[]), "0 rows"),
        ("flat.fbin", headed(3, 0, &[]), "the file has 8 bytes"),
        ("a.txt", headed(1, 1, &[0; 4]), "known are .fbin"),
        ("bits.bbin", headed(3, 12, b"abc"), "a multiple of 8"),
        // Sizes that are 2^64, and so 0 where nobody looks.
        ("huge.fbin", headed(1 << 31, 1 << 31, &[]), "32768"),
        ("wide.u8bin", headed(1, 32_769, &[0; 32_769]), "32768"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = VectorFile::open(&path, "v", None).unwrap_err();
        assert!(error.to_string().contains(says), "{name}: {error}");
        assert_eq!(error.class, ErrorClass::FixInput, "{name}");
    }
    // One row of 16 GiB that takes no room: it is refused before it is read.
    let sparse = dir.path().join("sparse.fbin");
    std::fs::write(&sparse, headed(1, u32::MAX, &[])).unwrap();
    let file = std::fs::File::options().write(true).open(&sparse).unwrap();
    file.set_len(8 + 4 * u64::from(u32::MAX)).unwrap();
    let error = VectorFile::open(&sparse, "v", None).unwrap_err();
    assert!(error.to_string().contains("32768"), "{error}");
    std::fs::write(dir.path().join("bits.bbin"), headed(3, 16, b"abcdef")).unwrap();
    let mut bits = VectorFile::open(&dir.path().join("bits.bbin"), "v", None).unwrap();
    assert_eq!(bits.next(2).unwrap().unwrap().rows, 2);
}

/// Rows of a key, a vector and a text, of which the last are long; it notes what was asked of it.
struct Lengthening {
    dim: usize,
    rows: u64,
    long_from: u64,
    at: u64,
    asked: usize,
}

impl Lengthening {
    fn collection(&self, database: &Database) -> std::sync::Arc<Collection> {
        let vector = FieldSpec::new("v", DataType::Vector(VectorKind::Float));
        let text = FieldSpec::new("note", DataType::Scalar(ScalarType::VarChar)).max_bytes(65_535);
        let schema = Schema::builder()
            .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(vector.dim(self.dim as u32))
            .field(text)
            .build()
            .unwrap();
        database.create_collection("default", "c", NewCollection::new(schema)).unwrap()
    }

    fn text(&self, row: u64) -> String {
        let length = if row < self.long_from { 4 } else { 60_000 };
        format!("{row:length$}")
    }
}

impl BatchSource for Lengthening {
    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn identity(&self) -> u128 {
        7
    }

    fn seek(&mut self, row: u64) -> Result<(), SourceError> {
        self.at = row;
        Ok(())
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError> {
        self.asked = self.asked.max(most);
        let end = self.rows.min(self.at + most as u64);
        let some = self.at..end;
        self.at = end;
        let rows = some.clone().count();
        let vectors = vec![0; rows * 4 * self.dim];
        let vectors = DenseVectors::new(VectorKind::Float, self.dim, vectors).unwrap();
        let texts = some.clone().map(|row| self.text(row)).collect();
        let columns = vec![
            Column::new("id", ColumnValues::Int64(some.map(|row| row as i64).collect())),
            Column::new("v", ColumnValues::Dense(vectors)),
            Column::new("note", ColumnValues::VarChar(texts)),
        ];
        Ok((rows > 0).then_some(Batch { rows, columns }))
    }
}

#[test]
fn batches_of_large_rows_have_few_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let mut source = Lengthening { dim: 32_768, rows: 100, long_from: 100, at: 0, asked: 0 };
    let c = source.collection(&database);
    let options = LoadOptions::new("wide");
    let mut watch = Watch::for_batches(usize::MAX);
    load(&c, &mut source, &options, &mut watch).unwrap();
    assert_eq!(c.count(None).unwrap(), 100);
    let largest = source.asked as u64 * 4 * 32_768;
    assert!(largest <= options.batch_bytes, "{largest} bytes of vectors were asked for at once");
}

#[test]
fn rows_that_become_large_are_read_and_written_in_smaller_batches() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let mut source = Lengthening { dim: 2, rows: 12_000, long_from: 11_960, at: 0, asked: 0 };
    let c = source.collection(&database);
    let options = LoadOptions { batch_bytes: 256 << 10, ..LoadOptions::new("texts") };
    let mut watch = Watch::for_batches(usize::MAX);
    load(&c, &mut source, &options, &mut watch).unwrap();
    // As many as take 64 MiB where every text is as long as it may be.
    assert!(source.asked <= 1024, "{} rows were asked for at once", source.asked);
    let long: Vec<_> = watch.seen.iter().map(|progress| progress.rows).collect();
    let steps = long.windows(2).filter(|pair| pair[0] >= 11_960).map(|pair| pair[1] - pair[0]);
    assert!(steps.clone().count() >= 7 && steps.clone().all(|rows| rows <= 5), "{long:?}");
    let fields = &["note"][..];
    let found = c.query(&RowQuery { fields, ..RowQuery::default() }).unwrap();
    assert_eq!(found.len(), 12_000);
    for (row, found) in (0..).zip(&found) {
        assert_eq!(found.key, PrimaryKey::Int64(row as i64));
        assert!(found.values == [Value::VarChar(source.text(row))], "row {row}");
    }
}
