//! Bytes that are not what was written: found, and told from what can be retried.

use super::super::{Condition, KeyPredicate, damaged_files};
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
        view.postings(&KeyPredicate::new(column, &every).unwrap(), &all(300)).is_err()
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

#[test]
fn a_field_that_was_indexed_under_another_type_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    for (place, scalar, array) in [
        (PRICE, ScalarType::Double, false),
        (NAME, ScalarType::VarChar, true),
        (TAGS, ScalarType::Int32, false),
    ] {
        let mut other = columns().to_vec();
        (other[place].scalar, other[place].array) = (scalar, array);
        let error = ScalarIndexes::open(dir.path(), other.into(), options()).err().unwrap();
        assert!(error.is_damage() && error.to_string().contains("another type"), "{error}");
    }
    assert!(open(dir.path()).is_ok());
}

/// Where a sequence of bytes stands the first time.
fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

/// What is done to the bytes of a directory.
type Change = fn(&mut [u8]);

/// Changes a run's directory, and makes its checksums right again.
fn tampered(mut run: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let trailer = run.len() - 72;
    let at = u64::from_le_bytes(run[trailer + 40..][..8].try_into().unwrap()) as usize;
    change(&mut run[at..trailer]);
    let sum = crc_fast::crc64_nvme(&run[at..trailer]);
    run[trailer + 56..][..8].copy_from_slice(&sum.to_le_bytes());
    let sum = crc_fast::crc64_nvme(&run[trailer..trailer + 64]);
    run[trailer + 64..].copy_from_slice(&sum.to_le_bytes());
    run
}

#[test]
fn a_directory_that_contradicts_itself_is_damage_whatever_its_checksum() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let path = dir.path().join("run-000001");
    let run = std::fs::read(&path).unwrap();
    std::fs::write(&path, tampered(run.clone(), |_| {})).unwrap();
    assert!(open(dir.path()).is_ok(), "the checksums are made right");
    // The bitmap of rows comes first: its length, 12346, a container, its key and rows less 1.
    let changes: [(&str, Change); 3] = [
        ("65,536 containers promised", |directory| directory[8..12].copy_from_slice(&[0, 0, 1, 0])),
        ("rows beyond those that have signatures", |directory| {
            // As bits, with 8 KiB of them, where a list of 300 stood.
            directory[14..16].copy_from_slice(&[0xff, 0xff]);
        }),
        ("a bucket without rows", |directory| {
            let rows = find(directory, &103_u32.to_le_bytes()) - 16;
            let bucket = directory[..rows].windows(4).rposition(|w| w == 1_u32.to_le_bytes());
            directory[bucket.unwrap()..][..4].fill(0);
        }),
    ];
    for (what, change) in changes {
        std::fs::write(&path, tampered(run.clone(), change)).unwrap();
        assert!(open(dir.path()).err().is_some_and(|error| error.is_damage()), "{what}");
    }
}
