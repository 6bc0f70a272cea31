//! What opens, and how the rest is refused.

use std::fs;

use super::*;
use crate::docstore::StoreError;
use crate::docstore::state_file::{STATE_NAME, StoreState, VERSION};
use crate::ids::ErrorClass;

fn refused(dir: &Path) -> StoreError {
    LsmRows::open(dir, &options()).err().expect("the store is refused")
}

#[test]
fn a_missing_and_an_empty_directory_become_empty_stores() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("a/b"), dir.path().join("empty")] {
        if path.ends_with("empty") {
            fs::create_dir(&path).unwrap();
        }
        let store = open(&path);
        assert_eq!((store.applied(), store.count(), store.next_row()), (Seq(0), 0, RowId(0)));
        drop(store);
        assert_eq!(open(&path).applied(), Seq(0));
    }
}

#[test]
fn a_second_opening_is_refused_while_the_first_lasts() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let second = refused(dir.path());
    assert!(matches!(second, StoreError::Locked { .. }), "{second}");
    assert_eq!(second.class(), ErrorClass::Retry);
    assert!(second.to_string().contains(&dir.path().display().to_string()), "{second}");
    drop(first);
    open(dir.path());
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "precious").unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::NoStore { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::FixInput);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.tex"]);
}

#[test]
fn the_store_of_another_collection_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let other = RowStoreOptions { collection: [0xAB; 16], ..options() };
    let error = LsmRows::open(dir.path(), &other).err().unwrap();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains(&"ab".repeat(16)), "{error}");
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let path = dir.path().join(STATE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let sum = crc_fast::crc64_nvme(&bytes[..72]);
    bytes[72..80].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::Version { found, .. } if found == VERSION + 1), "{error}");
    assert_eq!(error.class(), ErrorClass::FixInput);
}

#[test]
fn an_interrupted_creation_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, partial) = (dir.path().join("s"), dir.path().join("s.new"));
    fs::create_dir_all(partial.join("rows")).unwrap();
    fs::write(partial.join("rows/current"), "half").unwrap();
    assert_eq!(open(&path).count(), 0);
    assert!(!partial.exists());
}

#[test]
fn the_state_file_is_written_with_these_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let put = |row, partition| RowChange::Put { row: RowId(row), partition, key: b"k", blob: b"" };
    store.apply(Seq(0x0102), &[put(6, 3), put(5, 3), put(4, 1)]).unwrap();
    store.flush().unwrap();
    let bytes = fs::read(dir.path().join(STATE_NAME)).unwrap();
    let mut expected = Vec::new();
    expected.extend_from_slice(b"PIPEROWS\x01\0\0\0\x02\0\0\0");
    expected.extend_from_slice(&COLLECTION);
    expected.extend_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
    let counts = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&crc_fast::crc64_nvme(&counts).to_le_bytes());
    expected.extend_from_slice(&[0; 8]);
    let sum = crc_fast::crc64_nvme(&expected);
    expected.extend_from_slice(&sum.to_le_bytes());
    expected.extend_from_slice(&counts);
    assert_eq!(bytes, expected);
    let state = StoreState::decode(&bytes, dir.path()).unwrap();
    assert_eq!((state.counted, state.durable, state.next_row), (Seq(258), Seq(258), RowId(7)));
}
