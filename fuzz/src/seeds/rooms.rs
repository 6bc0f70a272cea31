//! What single rooms of the database write: records of the log, rows, flat vectors, scalar indexes
//! and the catalogue.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pipeann_db::catalog::{
    Catalog, CollectionPath, EntryChange, IndexState, MemoryStore, NewCollection, NewIndex,
    Properties, Subject, UnixMs,
};
use pipeann_db::flat::{FlatOptions, FlatVectors};
use pipeann_db::ids::Seq;
use pipeann_db::scalar::{Judged, ScalarBatch, ScalarIndexes, ScalarOptions};
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{Array, DataType, ScalarType, Value, VectorKind};
use pipeann_db::wal::{Link, PutRow, Record};
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::{Metric, NodeId, RowId, VectorSet, VectorType};

use super::seed::Seeds;
use crate::targets::{joined, older_layout, row_layout, scalar_columns};

const IDENTITY: [u8; 16] = *b"a collection id.";

pub(super) fn add(seeds: &mut Seeds) {
    records(seeds);
    rows(seeds);
    flat(seeds);
    scalars(seeds);
    catalogues(seeds);
}

fn records(seeds: &mut Seeds) {
    let row = |row, key| PutRow { row: RowId(row), partition: 2, key, blob: b"a row's fields" };
    // Small keys in a partition of a small number: no planted fault is met.
    let rows = vec![row(7, b"a"), row(8, b"b"), row(9, b"c")];
    let link = Link {
        field: 3,
        node: NodeId(9),
        row: RowId(7),
        neighbours: vec![NodeId(1), NodeId(2)],
        back_edges: vec![NodeId(2)],
    };
    let records = [
        ("put", Record::Put(rows.clone())),
        ("delete", Record::Delete(vec![RowId(3), RowId(4)])),
        ("upsert", Record::Upsert { deleted: vec![RowId(1)], rows }),
        ("link", Record::Link(vec![link])),
    ];
    for (name, record) in records {
        let kind = u8::try_from(record.kind().number()).expect("there are few kinds");
        let payload = record.encode().expect("it is small");
        seeds.add("log-record", name, [&[kind], payload.as_slice()].concat());
    }
}

/// A value of a type; `seed` tells it apart.
fn value(data_type: DataType, seed: u8) -> Value {
    let scalar = |scalar| match scalar {
        ScalarType::Bool => Value::Bool(seed.is_multiple_of(2)),
        ScalarType::Int8 => Value::Int8(-3),
        ScalarType::Int16 => Value::Int16(300),
        ScalarType::Int32 => Value::Int32(70_000),
        ScalarType::Int64 => Value::Int64(-5),
        ScalarType::Float => Value::Float(0.5),
        ScalarType::Double => Value::Double(1e300),
        ScalarType::Timestamptz => Value::Timestamptz(1_700_000_000_000_000),
        ScalarType::VarChar => Value::VarChar(format!("text {seed}")),
    };
    match data_type {
        DataType::Scalar(of) => scalar(of),
        DataType::Array(of) => {
            let values = [scalar(of), scalar(of)];
            let array = Array::collect(of, values.iter().map(Value::as_ref));
            Value::Array(array.expect("elements of the array's type"))
        }
        DataType::Json => Value::Json(r#"{"k":[1,"two",null]}"#.to_owned()),
        DataType::Vector(_) => Value::Vector(vec![0; 8]),
    }
}

fn rows(seeds: &mut Seeds) {
    let layout = row_layout();
    let types: Vec<DataType> = (0..layout.columns()).map(|c| layout.data_type(c)).collect();
    let row = |columns: usize, null: usize| {
        let mut bytes = vec![0];
        let older = older_layout(columns);
        let values: Vec<Value> = (0..columns)
            .map(|c| if c % null == 1 { Value::Null } else { value(types[c], c as u8) })
            .collect();
        older.encode(values.iter().map(Value::as_ref), &mut bytes).expect("a small row");
        bytes
    };
    seeds.add("rows", "row", row(types.len(), 5));
    seeds.add("rows", "row-of-nulls", row(types.len(), 2));
    seeds.add("rows", "row-of-an-older-schema", row(types.len() / 2, 7));
    let tree = [b"\x01a\0\xffb\0\0".as_slice(), &258_u64.to_be_bytes()].concat();
    seeds.add("rows", "key", tree);
    let in_store = [&[2, 3, 0, 0, 0, 1, 0, 0, 0, b'k'], b"fields".as_slice()].concat();
    seeds.add("rows", "row-of-the-tree", in_store);
}

/// The only file in `dir` that begins so.
fn file(dir: &Path, beginning: &str) -> Vec<u8> {
    let mut found = fs::read_dir(dir)
        .expect("the store made its directory")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| {
            path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(beginning))
        });
    let path = found.next().expect("the store wrote it");
    assert!(found.next().is_none(), "more than one {beginning}");
    fs::read(path).expect("it can be read")
}

fn flat(seeds: &mut Seeds) {
    const BLOCK_BYTES: usize = 64 << 10;
    for (name, ty, dim, rows) in [
        ("empty", VectorType::U8, 4, 0),
        // A block has room for its rows' ids before their vectors: few rows make small seeds.
        ("u8", VectorType::U8, 1000, 3),
        ("f32", VectorType::F32, 500, 2),
        ("bits", VectorType::Binary, 4096, 3),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = FlatOptions {
            tail_bytes: 1 << 20,
            accountant: Accountant::new(None),
            ..FlatOptions::new(IDENTITY, dim, ty)
        };
        let flat = FlatVectors::open(dir.path(), &options).expect("an empty store");
        let bytes: Vec<u8> = (0..rows * ty.vector_bytes(dim)).map(|i| i as u8 % 60).collect();
        let ids: Vec<RowId> = (1..=rows as u64).map(RowId).collect();
        let vectors = VectorSet::new(&bytes, dim, ty).expect("whole vectors");
        flat.append(Seq(3), &ids, vectors).expect("there is room");
        flat.flush().expect("the disk takes it");
        drop(flat);
        let list = file(dir.path(), "FLAT");
        if rows == 0 {
            seeds.add("flat", name, joined(&list, &joined(&[], &[])));
            continue;
        }
        let segment = file(dir.path(), "segment-");
        let (block, behind) = segment.split_at(BLOCK_BYTES);
        let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        seeds.add("flat", name, joined(&list, &joined(&block[..used], behind)));
    }
}

fn scalars(seeds: &mut Seeds) {
    for (name, rows) in [("empty", 0), ("few", 12), ("bitmap", 300)] {
        let dir = tempfile::tempdir().expect("a directory");
        let accountant = Accountant::new(None);
        let options = ScalarOptions { collection: IDENTITY, buffer_bytes: 1 << 20, accountant };
        let columns = scalar_columns();
        let indexes = ScalarIndexes::open(dir.path(), Arc::clone(&columns), options);
        let indexes = indexes.expect("empty indexes");
        let mut batch = ScalarBatch::new(columns);
        for row in 0..rows {
            let tags = [Value::Int32(1), Value::Int32(row as i32 % 4)];
            let tags = Array::collect(ScalarType::Int32, tags.iter().map(Value::as_ref));
            let text = if row % 3 == 0 { "common".to_owned() } else { format!("name-{}", row % 5) };
            let values = [
                // One value for many rows makes a bitmap.
                Value::Int64(if rows > 256 { 5 } else { row as i64 }),
                Value::VarChar(text),
                Value::Float(row as f32 % 4.0),
                if row % 5 == 4 { Value::Null } else { Value::Array(tags.expect("integers")) },
            ];
            batch.push(RowId(row), values.iter().map(Value::as_ref));
        }
        indexes.apply(Seq(4), &batch).expect("there is room");
        let live = (0..rows).collect();
        indexes.flush(Judged { live: &live, next_row: RowId(rows) }).expect("the disk takes it");
        drop(indexes);
        let list = file(dir.path(), "SCALARS");
        let run = if rows == 0 { Vec::new() } else { file(dir.path(), "run-") };
        seeds.add("scalar", name, joined(&list, &run));
    }
}

fn catalogues(seeds: &mut Seeds) {
    let store = MemoryStore::default();
    let now = UnixMs(1_000_000);
    let catalogue = Catalog::create(Box::new(store.clone()), now).expect("an empty catalogue");
    let held = || store.file().expect("it was saved");
    seeds.add("catalogue", "empty", held());
    let make = |change| catalogue.apply(change, now).expect("it is allowed").subject;
    let properties = Properties::from([("owner".to_owned(), "ä".to_owned())]);
    make(EntryChange::CreateDatabase { name: "other".into(), properties });
    let text = DataType::Scalar(ScalarType::VarChar);
    let schema = Schema::builder()
        .description("a seed")
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key().auto_id())
        .field(FieldSpec::new("note", text).max_bytes(16).default_value(Value::VarChar("-".into())))
        .field(
            FieldSpec::new("tags", DataType::Array(ScalarType::Int32)).max_capacity(4).nullable(),
        )
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4))
        .dynamic(true)
        .build()
        .expect("the schema keeps the rules");
    let place = || CollectionPath::new("default", "c");
    let new = Box::new(NewCollection::new(schema));
    make(EntryChange::CreateCollection { place: place(), new });
    let mut older = catalogue.snapshot().to_file_bytes();
    seeds.add("catalogue", "collection", older.as_slice());
    // The version before, which differs in nothing that is here.
    let covered = older.len() - 8;
    older[8..12].copy_from_slice(&1_u32.to_le_bytes());
    let sum = crc_fast::crc64_nvme(&older[..covered]);
    older[covered..].copy_from_slice(&sum.to_le_bytes());
    seeds.add("catalogue", "version-1", older);
    make(EntryChange::CreateAlias { place: place(), alias: "a".into() });
    make(EntryChange::CreatePartition { place: place(), partition: "p".into() });
    let index = |field: &str, kind: &str, metric| {
        let (kind, parameters) = (kind.to_owned(), Properties::new());
        let new = NewIndex { field: field.into(), name: None, kind, metric, parameters };
        EntryChange::CreateIndex { place: place(), new }
    };
    let Subject::Index(collection, id) = make(index("v", "AUTOINDEX", Some(Metric::L2))) else {
        unreachable!("an index was created")
    };
    let state = IndexState::Building { rows_done: 1, rows: 2 };
    make(EntryChange::SetIndexState { collection, index: id, state });
    make(index("note", "INVERTED", None));
    make(EntryChange::Load { place: place(), partitions: Some(vec!["p".into()]) });
    seeds.add("catalogue", "changes", held());
    seeds.add("catalogue", "all", catalogue.snapshot().to_file_bytes());
}
