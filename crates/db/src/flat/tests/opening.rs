//! What opens, how the rest is refused, and what interrupted and failed flushes leave.

use std::fs;
use std::process::{Command, Stdio};

use super::*;
use crate::flat::FlatError;
use crate::flat::manifest::{MANIFEST_NAME, VERSION};
use crate::ids::ErrorClass;

fn refused(dir: &Path, options: &FlatOptions) -> FlatError {
    FlatVectors::open(dir, options).err().expect("the vectors are refused")
}

#[test]
fn what_does_not_belong_here_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let first = open(&path);
    let error = refused(&path, &options());
    assert!(matches!(error, FlatError::Locked { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Retry);
    drop(first);
    let error = refused(&path, &FlatOptions { field: [0xCD; 16], ..options() });
    assert!(matches!(error, FlatError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains(&"cd".repeat(16)), "{error}");
    let error = refused(&path, &FlatOptions { dim: 6, ..options() });
    assert!(matches!(error, FlatError::Shape { .. }), "{error}");
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("segment-000001"), "precious").unwrap();
    let error = refused(&foreign, &options());
    assert!(matches!(error, FlatError::NoStore { .. }), "{error}");
    assert_eq!(fs::read(foreign.join("segment-000001")).unwrap(), b"precious");
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let path = dir.path().join(MANIFEST_NAME);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let sum = crc_fast::crc64_nvme(&bytes[..72]);
    bytes[72..80].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = refused(dir.path(), &options());
    assert!(matches!(error, FlatError::Version { found, .. } if found == VERSION + 1), "{error}");
}

#[test]
fn spans_and_scratch_are_granted_by_the_accountant() {
    use pipeann_engine::memory::Pool;
    let dir = tempfile::tempdir().unwrap();
    let limits = FlatOptions { accountant: Accountant::new(Some(8 << 20)), ..options() };
    let flat = FlatVectors::open(dir.path(), &limits).unwrap();
    replay(&flat, &log(3, 4000));
    assert_eq!(limits.accountant.pool_bytes(Pool::Pending), 0);
    flat.flush().unwrap();
    assert_eq!(limits.accountant.pool_bytes(Pool::Pending), 3 * 16, "three blocks");
    limits.accountant.set_limit_bytes(Some(4096));
    let search = FlatSearch {
        k: 1,
        metric: Metric::L2,
        within: DistanceRange::default(),
        threads: 1,
        from: RowId(0),
    };
    let error = flat.search(set(&[0; DIM]), search, &|_| true).unwrap_err();
    assert!(matches!(error, FlatError::Memory(_)), "{error}");
    drop(flat);
    assert_eq!(limits.accountant.held_bytes(), 0);
}

#[test]
fn what_an_interrupted_flush_left_is_removed_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (log, flat) = (log(6, 50), open(dir.path()));
    replay(&flat, &log[..2]);
    flat.flush().unwrap();
    let manifest = fs::read(dir.path().join(MANIFEST_NAME)).unwrap();
    let first = fs::read(dir.path().join("segment-000001")).unwrap();
    replay(&flat, &log[..5]);
    flat.flush().unwrap();
    assert!(!dir.path().join("segment-000001").exists(), "merged with the second");
    drop(flat);
    // As if the power had gone before the new manifest, and the new segment had been torn.
    fs::write(dir.path().join(MANIFEST_NAME), manifest).unwrap();
    fs::write(dir.path().join("segment-000001"), first).unwrap();
    let second = dir.path().join("segment-000002");
    let torn = fs::read(&second).unwrap();
    fs::write(&second, &torn[..torn.len() / 3]).unwrap();
    let flat = open(dir.path());
    assert_eq!(flat.applied(), Seq(2));
    assert!(!second.exists());
    replay(&flat, &log);
    assert_holds(&flat, &log);
    flat.flush().unwrap();
    assert_holds(&flat, &log);
}

#[test]
fn a_flush_that_fails_is_repeated_under_another_number() {
    let dir = tempfile::tempdir().unwrap();
    let (log, flat) = (log(4, 50), open(dir.path()));
    replay(&flat, &log[..1]);
    flat.flush().unwrap();
    let in_the_way = dir.path().join("FLAT.new");
    fs::create_dir(&in_the_way).unwrap();
    replay(&flat, &log[..2]);
    let error = flat.flush().unwrap_err();
    assert!(error.to_string().contains("FLAT"), "{error}");
    replay(&flat, &log[..3]);
    assert_holds(&flat, &log[..3]);
    assert!(flat.flush().is_err());
    assert!(flat.retain(&|_| false).is_err());
    assert_eq!(flat.durable(), Seq(1));
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(flat.flush().unwrap(), Seq(3));
    assert_holds(&flat, &log[..3]);
    assert!(!dir.path().join("segment-000001").exists());
    drop(flat);
    let flat = open(dir.path());
    assert_eq!(flat.durable(), Seq(3));
    replay(&flat, &log);
    assert_holds(&flat, &log);
}

const CHILD_DIR: &str = "PIPEANN_TEST_DIR";

#[test]
#[ignore = "a child process of the test below"]
#[expect(clippy::disallowed_methods, reason = "is told its directory by the test below")]
fn appends_until_the_disk_is_full() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let (log, flat) = (log(60, 500), open(Path::new(&dir)));
    replay(&flat, &log[..1]);
    assert_eq!(flat.flush().unwrap(), Seq(1));
    for upto in [40, 60] {
        replay(&flat, &log[..upto]);
        let error = flat.flush().unwrap_err();
        assert!(matches!(error, FlatError::Io { .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Retry, "{error}");
        assert_eq!(flat.durable(), Seq(1));
        assert_holds(&flat, &log[..upto]);
    }
    println!("\nrefused and intact");
}

#[test]
fn a_full_disk_fails_the_flush_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    // Files of at most 256 blocks of 512 bytes, and an error instead of a signal.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact"])
        .arg("flat::tests::opening::appends_until_the_disk_is_full")
        .env(CHILD_DIR, dir.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("refused and intact"), "{said}");
    let (log, flat) = (log(60, 500), open(dir.path()));
    assert_eq!(flat.applied(), Seq(1));
    assert_holds(&flat, &log[..1]);
    replay(&flat, &log);
    assert_eq!(flat.flush().unwrap(), Seq(60));
    assert_holds(&flat, &log);
}
