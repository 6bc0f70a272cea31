//! Files of a database that was written to, and of its backup.

use std::fs;
use std::path::{Path, PathBuf};

use pipeann_db::access::Grant;
use pipeann_db::catalog::{NewCollection, Properties, TIME_TO_LIVE, UnixMs};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};

use super::seed::Seeds;

const DIM: usize = 2;

pub(super) fn add(seeds: &mut Seeds) {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, backup) = (dir.path().join("d"), dir.path().join("b"));
    let options = || DatabaseOptions::new(|| UnixMs(1_000_000_000));
    let database = Database::open(&path, options()).expect("an empty database");
    database.backup(&dir.path().join("e"), None).expect("an empty backup");
    write(&database);
    database.backup(&backup, None).expect("a backup");
    drop(database);
    for name in ["LIVE", "AGES", "LOADS", "ACCESS"] {
        seeds.add("collection-files", name.to_lowercase(), file(&path, name));
    }
    let state = file(&path, "STATE");
    seeds.add("rows", "state", [&[3], state.as_slice()].concat());
    seeds.add("backup", "backup", file(&backup, "BACKUP"));
    seeds.add("backup", "backup-of-nothing", file(&dir.path().join("e"), "BACKUP"));
}

/// Rows in two partitions, some of them gone, which live for a while; a load that was begun; users.
fn write(database: &Database) {
    let field = |name: &str, data_type| FieldSpec::new(name, data_type);
    let schema = Schema::builder()
        .field(field("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(field("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .expect("the schema keeps the rules");
    let properties = Properties::from([(TIME_TO_LIVE.to_owned(), "1000".to_owned())]);
    let new = NewCollection { properties, ..NewCollection::new(schema) };
    let c = database.create_collection("default", "c", new).expect("a collection");
    let keys: Vec<i64> = (0..20).collect();
    let vectors: Vec<u8> = (0..keys.len() * DIM).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let vectors = DenseVectors::new(VectorKind::Float, DIM, vectors).expect("whole vectors");
    let batch = Batch {
        rows: keys.len(),
        columns: vec![
            Column::new("id", ColumnValues::Int64(keys)),
            Column::new("v", ColumnValues::Dense(vectors)),
        ],
    };
    c.insert(batch, None).expect("the rows fit");
    c.delete(&[PrimaryKey::Int64(3), PrimaryKey::Int64(4)]).expect("they are there");
    drop(c.begin_load("a load", 7).expect("no other load has this name"));
    c.flush().expect("the disk takes it");
    let access = database.access();
    access.create_user("user", "password").expect("a new user");
    access.create_role("role", "reads").expect("a new role");
    access.set_role("user", "role", true).expect("both are there");
    let grant = Grant {
        kind: "Collection".into(),
        object: "c".into(),
        privilege: "Search".into(),
        database: "default".into(),
    };
    access.set_grant("role", grant, "root", true).expect("the role is there");
}

/// The first file of this name in a directory or below it.
fn file(dir: &Path, name: &str) -> Vec<u8> {
    let found = find(dir, name).unwrap_or_else(|| panic!("no {name} in {}", dir.display()));
    fs::read(found).expect("it can be read")
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).expect("it can be listed");
    let paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    let here =
        paths.iter().find(|path| path.is_file() && path.file_name().is_some_and(|n| n == name));
    here.cloned().or_else(|| paths.iter().filter(|p| p.is_dir()).find_map(|p| find(p, name)))
}
