//! Bytes that are not what was written: found, and told from what can be retried.

use super::super::{Condition, Predicate, damaged_files};
use super::*;

fn made(dir: &Path) {
    let indexes = open(dir).unwrap();
    indexes.apply(Seq(1), &batch(0..300)).unwrap();
    flush(&indexes, &all(300), 300);
}

/// Whether opening, or asking for every value of every column, finds that something is wrong.
fn is_found(dir: &Path) -> bool {
    let Ok(indexes) = open(dir) else { return true };
    let view = indexes.view();
    columns().iter().any(|column| {
        let every = match column.array {
            true => Condition::ContainsAny((0..1000).map(Value::Int32).collect()),
            false => match column.scalar {
                ScalarType::VarChar => Condition::StartsWith(String::new()),
                _ => Condition::Within(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
            },
        };
        view.postings(&Predicate::new(column, &every).unwrap(), &all(300)).is_err()
    })
}

#[test]
fn a_flipped_bit_is_found() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    assert!(!is_found(dir.path()) && damaged_files(dir.path()).is_empty());
    for name in ["SCALARS", "run-000001"] {
        let path = dir.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        // A prime, so that all bits of all parts have their turn.
        for bit in (0..bytes.len() * 8).step_by(if name == "SCALARS" { 1 } else { 37 }) {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            assert!(is_found(dir.path()), "bit {bit} of {name}");
            assert!(!damaged_files(dir.path()).is_empty(), "bit {bit} of {name}");
        }
        std::fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn a_missing_or_shorter_run_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let path = dir.path().join("run-000001");
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 1, 71, 72, 73, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(open(dir.path()).err().unwrap().is_damage(), "{length} bytes");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(open(dir.path()).err().unwrap().is_damage());
}

#[test]
fn a_flush_over_damage_keeps_the_rows_and_asks_for_a_new_index() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let indexes = open(dir.path()).unwrap();
    let path = dir.path().join("run-000001");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    // Large enough that the first run is merged.
    indexes.apply(Seq(2), &batch(300..900)).unwrap();
    assert_eq!(flush(&indexes, &all(900), 900), Seq(2));
    assert_eq!(indexes.view().rows(), 900);
    indexes.apply(Seq(3), &batch(900..1000)).unwrap();
    assert_eq!(flush(&indexes, &all(1000), 1000), Seq(3));
    drop(indexes);
    assert!(open(dir.path()).err().unwrap().is_damage());
    ScalarIndexes::remove(dir.path()).unwrap();
    assert_eq!(open(dir.path()).unwrap().applied(), Seq(0));
}
