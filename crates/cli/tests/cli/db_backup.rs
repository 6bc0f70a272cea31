//! Databases from the command line: info, verify, backup, restore.

use std::path::Path;
use std::sync::Arc;

use pipeann_db::catalog::{NewCollection, UnixMs};
use pipeann_db::collection::Collection;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::schema::{Batch, FieldSpec, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, ScalarType};

use crate::data::{Place, text};

fn open(dir: &Path) -> Database {
    Database::open(dir, DatabaseOptions::new(|| UnixMs(1_000_000))).unwrap()
}

fn create(database: &Database) -> Arc<Collection> {
    let id = FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key();
    let vector = FieldSpec::new("v", DataType::Vector(pipeann_db::value::VectorKind::Float)).dim(2);
    let schema = Schema::builder().field(id).field(vector).build().unwrap();
    database.create_collection("default", "c", NewCollection::new(schema)).unwrap()
}

fn insert(collection: &Collection, keys: std::ops::Range<i64>) {
    let rows = keys.clone().count();
    let vectors = vec![0; rows * 8];
    let kind = pipeann_db::value::VectorKind::Float;
    let vectors = pipeann_db::value::DenseVectors::new(kind, 2, vectors).unwrap();
    let columns = vec![
        Column::new("id", ColumnValues::Int64(keys.collect())),
        Column::new("v", ColumnValues::Dense(vectors)),
    ];
    collection.insert(Batch { rows, columns }, None).unwrap();
}

#[test]
fn a_database_is_backed_up_beside_its_writer_restored_and_verified() {
    let place = Place::new(10);
    // This process has it open all the time.
    let database = open(&place.path("d"));
    let c = create(&database);
    insert(&c, 0..500);
    c.flush().unwrap();
    let first = place.json("db backup d b1").remove(0);
    assert_eq!(first["collections"][0]["last_record"], 1);
    assert_eq!(first["bytes"], first["copied_bytes"]);
    insert(&c, 500..600);
    let second = place.json("db backup d b2 --since b1").remove(0);
    assert!(second["copied_bytes"].as_u64() < second["bytes"].as_u64(), "{second}");
    let info = place.json("db info d").remove(0);
    assert_eq!(info["collections"][0]["rows"], 600);
    assert_eq!(place.json("db info b2").remove(0)["collections"][0]["last_record"], 2);
    for dir in ["d", "b1", "b2"] {
        assert_eq!(
            place.json(&format!("db verify {dir}")).remove(0)["damage"],
            serde_json::json!([])
        );
    }
    place.json("db restore b2 r");
    let shown = text(&place.run("db info r").stdout);
    assert!(shown.contains("default/c") && shown.contains("600"), "{shown}");
    assert!(text(&place.run("db verify r").stdout).contains("no damage"));
    assert!(place.refusal("db restore b2 r").contains("not an empty directory"));
    assert!(place.refusal("db backup d r").contains("not an empty directory"));
    assert!(place.refusal("db backup b2 x").contains("no database"));
    assert!(place.refusal("db restore d x").contains("no backup"));
    assert!(place.refusal("db info x").contains("No such file"), "and it is not made");
    assert!(!place.path("x").exists());
}

#[test]
fn damage_is_named_and_ends_with_one() {
    let place = Place::new(10);
    let database = open(&place.path("d"));
    let c = create(&database);
    insert(&c, 0..500);
    c.flush().unwrap();
    place.json("db backup d b");
    drop((c, database));
    let flip = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    for tree in ["rows", "keys"] {
        let tables = place.path(&format!("d/collections/2/rows/{tree}/tables"));
        let table = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
        flip(&table);
        let out = place.run("db verify d");
        let told = text(&out.stdout) + &text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("{tree}/tables")), "{told}");
        flip(&table);
    }
    let table = place.path("b/files/CATALOG");
    flip(&table);
    let out = place.run("db verify b");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("files/CATALOG"), "{}", text(&out.stdout));
    assert!(place.refusal("db restore b r").contains("files/CATALOG"));
    assert!(!place.path("r").exists());
}
