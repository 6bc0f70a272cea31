//! Takeovers that end, that are given up and that are cut off.

use std::path::Path;

use pipeann_db::catalog::{UnixMs, WantedLoad};
use pipeann_db::database::{Database, DatabaseOptions};

use super::*;
use crate::proto::common::KeyValuePair;
use crate::proto::schema::field_data::Field;
use crate::proto::schema::scalar_field::Data;
use crate::proto::schema::vector_field::Data as Vectors;
use crate::proto::schema::{
    DataType, FieldSchema, LongArray, PackedFloats, ScalarField, StringArray, VectorField,
};
use crate::service::FrontendSettings;

fn service(dir: &Path) -> InProcess {
    let now = || UnixMs(1_000_000);
    let database = Arc::new(Database::open(dir, DatabaseOptions::new(now)).unwrap());
    InProcess::new(FrontendSettings { database, now: Arc::new(now) })
}

fn schema(name: &str) -> Vec<u8> {
    let field = |id: i64, name: &str, data_type: DataType| FieldSchema {
        field_id: id,
        name: name.into(),
        data_type: data_type.into(),
        is_primary_key: id == 100,
        ..Default::default()
    };
    let with = |mut field: FieldSchema, key: &str, value: &str| {
        field.type_params = vec![KeyValuePair { key: key.into(), value: value.into() }];
        field
    };
    let fields = vec![
        field(100, "id", DataType::Int64),
        with(field(101, "v", DataType::FloatVector), "dim", "2"),
        with(field(102, "note", DataType::VarChar), "max_length", "9"),
    ];
    CollectionSchema { name: name.into(), fields, ..Default::default() }.encode_to_vec()
}

fn scalars(name: &str, data: Data) -> FieldData {
    FieldData {
        field_name: name.into(),
        field: Some(Field::Scalars(ScalarField { data: Some(data) })),
        ..Default::default()
    }
}

/// A record with these vectors' components and notes.
fn record(id: i64, components: usize, notes: &[&str]) -> Vec<u8> {
    let data = (0..components).flat_map(|_| (id as f32).to_le_bytes()).collect();
    let floats = Vectors::FloatVector(PackedFloats { data });
    let vector = FieldData {
        field_name: "v".into(),
        field: Some(Field::Vectors(VectorField { dim: 2, data: Some(floats) })),
        ..Default::default()
    };
    let notes = notes.iter().map(|&note| note.into()).collect();
    lite::record(vec![
        scalars("id", Data::LongData(LongArray { data: vec![id] })),
        vector,
        scalars("note", Data::StringData(StringArray { data: notes })),
    ])
}

fn add(taking: &mut Takeover, ids: std::ops::Range<i64>) {
    for id in ids {
        taking.add(id.to_string().as_bytes(), &record(id, 2, &["a"])).unwrap();
    }
}

/// Names of databases, and of the collections of the default one.
fn seen(service: &InProcess) -> (Vec<String>, Vec<String>) {
    let catalog = service.call().catalog();
    let databases = catalog.databases().map(|(name, _)| name.to_owned()).collect();
    let collections = catalog.collections("default").unwrap();
    (databases, collections.map(|entry| entry.name.clone()).collect())
}

#[test]
fn a_collection_is_seen_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    // The longest name that there can be.
    let name = "b".repeat(255);
    let mut taking = service.take_over(&name, &schema(&name)).unwrap();
    add(&mut taking, 0..5000);
    assert_eq!(seen(&service).1, [""; 0], "half of it is there");
    let taken = taking.finish(std::iter::empty()).unwrap();
    assert_eq!((taken.rows, taken.indexes.len()), (5000, 0));
    assert_eq!(seen(&service), (vec!["default".into()], vec![name.clone()]));
    let refused = service.check_takeover(&name, &schema(&name)).unwrap_err();
    assert!(refused.reason.contains("there is a collection"), "{}", refused.reason);
    let entry = service.call().entry("", &name).unwrap();
    assert_eq!(entry.load, WantedLoad::Released, "its vectors have no index");
    assert_eq!(service.call().collection("", &name).unwrap().count(None).unwrap(), 5000);
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    let mut taking = service.take_over("books", &schema("books")).unwrap();
    add(&mut taking, 0..5000);
    drop(taking);
    assert_eq!(seen(&service), (vec!["default".into()], vec![]));
}

#[test]
fn what_a_crash_leaves_is_not_seen_and_goes_with_the_next_takeover() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    // A user has a database of that name, with a collection of this one.
    let request = wire::CreateDatabaseRequest { db_name: STAGING.into(), ..Default::default() };
    crate::service::databases::create(&service.call(), request).unwrap();
    let theirs = wire::CreateCollectionRequest {
        db_name: STAGING.into(),
        collection_name: "books".into(),
        schema: schema("books"),
        ..Default::default()
    };
    collections::create(&service.call(), theirs).unwrap();

    let mut taking = service.take_over("books", &schema("books")).unwrap();
    add(&mut taking, 0..5000);
    let half = format!("{STAGING}_1");
    assert_eq!(taking.staging.database, half);
    // As a process that ends here.
    std::mem::forget(taking);
    assert_eq!(seen(&service).1, [""; 0]);
    service.check_takeover("books", &schema("books")).unwrap();
    assert!(service.call().entry(&half, "books").is_ok());

    let mut taking = service.take_over("books", &schema("books")).unwrap();
    add(&mut taking, 0..3);
    assert_eq!(taking.finish(std::iter::empty()).unwrap().rows, 3);
    let expected = (vec![STAGING.to_owned(), "default".to_owned()], vec!["books".to_owned()]);
    assert_eq!(seen(&service), expected);
    assert!(service.call().entry(STAGING, "books").is_ok(), "the user's own stays");
}

#[test]
fn a_record_without_one_value_of_each_field_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(dir.path());
    let mut taking = service.take_over("books", &schema("books")).unwrap();
    taking.add(b"0", &record(0, 2, &["a"])).unwrap();
    // Together they would be as many values as rows, each behind the other's.
    for (components, notes, field) in [
        (2, &["a", "b"][..], "note"),
        (2, &[], "note"),
        (4, &["a"], "v"),
        (1, &["a"], "v"),
        (0, &["a"], "v"),
    ] {
        let refused = taking.add(b"1", &record(1, components, notes)).unwrap_err();
        assert!(refused.reason.contains(&format!("field {field}")), "{}", refused.reason);
    }
    taking.add(b"1", &record(1, 2, &["b"])).unwrap();
    assert_eq!(taking.finish(std::iter::empty()).unwrap().rows, 2);
}
