//! A golden file pins the bytes: a change of the format shows as a failing comparison.
//!
//! `PIPEANN_WRITE_GOLDEN=1 cargo test -p pipeann-db wal` writes it anew, after a deliberate
//! change of the version.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::constants::frame_header;
use super::super::*;
use super::{DIR, ID, crash_disk, create, examples, open};
use crate::disk::{CrashDisk, Disk, PowerCut};
use crate::ids::Seq;

/// 16 bytes a line.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in bytes.chunks(16) {
        line.iter().for_each(|byte| write!(out, "{byte:02x}").unwrap());
        out.push('\n');
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "regenerates the file on a developer's wish")]
fn golden_segment() {
    let (files, disk) = crash_disk();
    let log = create(&disk, LogOptions::default());
    for record in examples() {
        log.append(&record).unwrap();
    }
    drop(log);
    let found = hex(&files.files()["wal/00000000000000000001.wal"]);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/wal-segment.hex");
    if std::env::var_os("PIPEANN_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    assert_eq!(found, expected, "the bytes on disk have changed");
}

const GOLDEN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wal-segment.hex"));
/// As it was made when marks had no salt, and segments did not begin with one.
const FORMER: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wal-segment-former.hex"));

/// A disk with a log of this segment.
fn disk_of(text: &str) -> (CrashDisk, Arc<dyn Disk>) {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
    let (files, disk) = crash_disk();
    disk.create_dir("wal").unwrap();
    disk.create("wal/00000000000000000001.wal").unwrap().append(&bytes).unwrap();
    (files, disk)
}

#[test]
fn the_golden_segment_is_read_and_so_is_the_former_one() {
    for text in [GOLDEN, FORMER] {
        let log = open(&disk_of(text).1);
        let records: Vec<_> = log.replay(Seq(1)).unwrap().map(|r| r.unwrap()).collect();
        let decoded: Vec<_> = records.iter().map(|r| r.decode().unwrap()).collect();
        assert_eq!(decoded, examples());
    }
}

#[test]
fn damage_before_a_mark_without_salt_is_found() {
    let (files, _) = disk_of(FORMER);
    let name = super::names(&files).remove(0);
    let last_mark = files.files()[&name].len() - frame_header::BYTES;
    for byte in 0..last_mark {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |bytes| bytes[byte] ^= 1);
        let refused = Log::open(Arc::new(damaged), DIR, ID, LogOptions::default());
        assert!(refused.is_err(), "byte {byte}");
    }
}
