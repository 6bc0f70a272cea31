//! Tests of the log: on real files, and on disks that fail or lose power.

mod damage;
mod documentation;
mod faults;
mod forged;
mod golden;
mod lifecycle;
mod load;
mod power_cut;
mod records;
mod shared;
mod sharing;

use std::sync::Arc;

use super::constants::segment_header;
use super::frame::MARK_BYTES;
use super::{Link, Log, LogId, LogOptions, PutRow, Record, RecordKind};
use crate::disk::{CrashDisk, Disk};
use crate::ids::{NodeId, RowId, Seq};

const ID: LogId = LogId(*b"0123456789abcdef");
const DIR: &str = "wal";
/// Bytes of a mark, and those before the first record of a segment.
const MARK: usize = MARK_BYTES as usize;
const START: usize = segment_header::BYTES + MARK;

/// Segments of a few records.
fn small() -> LogOptions {
    LogOptions { segment_bytes: 2000, ..LogOptions::default() }
}

fn create(disk: &Arc<dyn Disk>, options: LogOptions) -> Log {
    Log::create(disk.clone(), DIR, ID, Seq(1), options).unwrap()
}

fn open(disk: &Arc<dyn Disk>) -> Log {
    Log::open(disk.clone(), DIR, ID, small()).unwrap().0
}

fn crash_disk() -> (CrashDisk, Arc<dyn Disk>) {
    let disk = CrashDisk::new();
    (disk.clone(), Arc::new(disk))
}

/// Appends a record of plain bytes.
fn append(log: &Log, payload: &[u8]) -> Seq {
    log.wait(log.submit(RecordKind::Put, payload).unwrap()).unwrap()
}

/// Numbers and payloads from `from` on.
fn contents(log: &Log, from: u64) -> Vec<(u64, Vec<u8>)> {
    let records = log.replay(Seq(from)).unwrap().map(|r| r.unwrap());
    records.map(|r| (r.seq.0, r.payload)).collect()
}

/// The segments.
fn names(disk: &CrashDisk) -> Vec<String> {
    disk.files().into_keys().filter(|name| name.ends_with(".wal")).collect()
}

/// One of each kind.
fn examples() -> Vec<Record<'static>> {
    let row = |row, key, blob| PutRow { row: RowId(row), partition: 3, key, blob };
    vec![
        Record::Put(vec![row(7, b"seven", &[1; 20]), row(8, b"", b"")]),
        Record::Delete(vec![RowId(7), RowId(0x0102_0304_0506_0708)]),
        Record::Upsert { deleted: vec![RowId(8)], rows: vec![row(9, b"k", b"blob")] },
        Record::Link(vec![
            Link {
                field: 1,
                node: NodeId(5),
                row: RowId(9),
                neighbours: vec![NodeId(1), NodeId(0xffff_fffe)],
                back_edges: vec![NodeId(1)],
            },
            Link {
                field: 0,
                node: NodeId(0),
                row: RowId(0),
                neighbours: vec![],
                back_edges: vec![],
            },
        ]),
    ]
}
