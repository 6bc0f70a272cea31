//! Databases as directories: who may open them, and what a crash leaves in them.

use pipeann_db::catalog::{CatalogError, NewCollection};
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::disk::LockError;

use crate::data::{batch, collection, create, open, options, rows, schema};

#[test]
fn a_directory_is_opened_by_one_and_the_other_is_told_by_whom() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let refused = Database::open(dir.path(), options()).unwrap_err();
    let DatabaseError::Lock(LockError::Held { holder, .. }) = &refused else { panic!("{refused}") };
    assert_eq!(holder.as_ref().map(|holder| holder.pid), Some(std::process::id()));
    drop(database);
    open(dir.path());
}

#[test]
fn foreign_directories_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "mine").unwrap();
    let refused = Database::open(dir.path(), options()).unwrap_err();
    assert!(matches!(refused, DatabaseError::NotADatabase { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_lost_catalogue_is_not_taken_for_an_empty_database() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    create(&database).insert(batch(&[(1, 1)]), None).unwrap();
    drop(database);
    let catalogue = dir.path().join("CATALOG");
    let saved = std::fs::read(&catalogue).unwrap();
    std::fs::remove_file(&catalogue).unwrap();
    let refused = Database::open(dir.path(), options()).unwrap_err();
    assert!(matches!(refused, DatabaseError::NotADatabase { .. }), "{refused}");
    let mut flipped = saved.clone();
    flipped[40] ^= 1;
    std::fs::write(&catalogue, flipped).unwrap();
    let refused = Database::open(dir.path(), options()).unwrap_err();
    let DatabaseError::CatalogFile { path, source: CatalogError::File(_) } = &refused else {
        panic!("{refused}")
    };
    assert!(path.ends_with("CATALOG"), "{refused}");
    std::fs::write(&catalogue, saved).unwrap();
    assert_eq!(rows(&collection(&open(dir.path()))), [(1, 1)]);
}

#[test]
fn what_an_interrupted_creation_left_is_cleared_away_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    create(&database).insert(batch(&[(1, 1)]), None).unwrap();
    drop(database);
    let collections = dir.path().join("collections");
    std::fs::create_dir_all(collections.join("77/wal")).unwrap();
    std::fs::write(collections.join("77/wal/00000000000000000001.wal"), "half").unwrap();
    std::fs::create_dir(collections.join("notes")).unwrap();
    let database = open(dir.path());
    assert!(!collections.join("77").exists());
    assert!(collections.join("notes").exists(), "it is not ours");
    assert_eq!(rows(&collection(&database)), [(1, 1)]);
}

#[test]
fn creating_twice_is_fine_for_the_same_and_refused_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    let again = create(&database);
    assert_eq!(again.count(None).unwrap(), 1);
    let other = NewCollection { shards: 2, ..NewCollection::new(schema()) };
    assert!(database.create_collection("default", "c", other).is_err());
    assert_eq!(c.count(None).unwrap(), 1);
}

#[test]
fn a_lost_collection_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let id = c.entry().unwrap().id.0;
    drop((c, database));
    std::fs::remove_dir_all(dir.path().join(format!("collections/{id}"))).unwrap();
    for _ in 0..2 {
        let refused = Database::open(dir.path(), options()).unwrap_err();
        assert!(matches!(refused, DatabaseError::Collection { .. }), "{refused}");
    }
}

#[test]
fn a_lock_that_is_removed_ends_the_writes_of_the_one_that_held_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let collection_of_first = create(&first);
    collection_of_first.insert(batch(&[(1, 1)]), None).unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let second = open(dir.path());
    let refused = collection_of_first.insert(batch(&[(2, 2)]), None).unwrap_err().to_string();
    assert!(refused.contains("was removed while this process held it"), "{refused}");
    let dropped = first.apply(pipeann_db::catalog::EntryChange::CreateDatabase {
        name: "other".to_owned(),
        properties: Default::default(),
    });
    assert!(dropped.is_err(), "the catalogue is not changed either");
    collection(&second).insert(batch(&[(3, 3)]), None).unwrap();
    drop((collection_of_first, first));
    drop(second);
    assert_eq!(rows(&collection(&open(dir.path()))), [(1, 1), (3, 3)]);
}
