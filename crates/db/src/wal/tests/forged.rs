//! Payloads that hold marks of their log, as a client can make them: after a crash they are bytes of
//! a torn tail, and no proof that it was on stable storage.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::constants::{FRAME_ALIGNMENT, KIND_MARK, KIND_PUT, frame_header, segment_header};
use super::super::frame::{FrameHeader, FrameParts, frame_bytes, payload_checksum, push_frame};
use super::super::salt::Salt;
use super::super::*;
use super::{DIR, ID, MARK, START, append, contents, crash_disk, create, names, open};
use crate::disk::{CrashDisk, Disk, FaultKind, PlannedFault, PowerCut, RealDisk};
use crate::ids::Seq;

/// A mark for all records there may ever be, with so many bytes of payload.
pub(super) fn forged_mark(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let payload_checksum = payload_checksum(payload);
    let parts = FrameParts { kind: KIND_MARK, seq: Seq(u64::MAX), previous: 0, payload_checksum };
    push_frame(&mut out, ID, &parts, payload);
    out
}

/// Marks as earlier versions wrote them and as this one does, behind so many bytes.
fn forged(shift: usize) -> Vec<u8> {
    let mut payload = vec![7; shift];
    for _ in 0..30 {
        payload.extend(forged_mark(&[]));
        payload.extend(forged_mark(Salt::new(1).bytes()));
    }
    payload
}

fn options() -> LogOptions {
    LogOptions::default()
}

/// The end of a log that opened, and its torn tail.
fn opened(disk: &CrashDisk, context: &str) -> (Seq, Option<TornTail>) {
    let opened = Log::open(Arc::new(disk.clone()), DIR, ID, options());
    let (log, recovery) = opened.unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(contents(&log, 1).len() as u64, recovery.last.0, "{context}");
    (recovery.last, recovery.torn)
}

#[test]
fn a_record_that_holds_marks_may_be_cut_off_anywhere() {
    for shift in 0..FRAME_ALIGNMENT {
        let (files, disk) = crash_disk();
        let log = create(&disk, options());
        append(&log, b"one");
        append(&log, &forged(shift));
        drop(log);
        let name = names(&files).remove(0);
        let two = START + frame_bytes(3) as usize + MARK;
        let end = two + frame_bytes(forged(shift).len() as u32) as usize;
        for cut in (two + 1..end).step_by(3) {
            let killed = files.after(PowerCut::Keep);
            killed.damage(&name, |bytes| bytes.truncate(cut));
            let context = format!("shifted by {shift}, cut at {cut}");
            let (last, torn) = opened(&killed, &context);
            assert_eq!((last, torn.unwrap().bytes), (Seq(1), (cut - two) as u64), "{context}");
        }
    }
}

/// A record's frame, and its checksum.
fn frame_of(seq: u64, previous: u64, payload: &[u8]) -> (Vec<u8>, u64) {
    let mut frame = Vec::new();
    let (kind, payload_checksum) = (KIND_PUT, payload_checksum(payload));
    let parts = FrameParts { kind, seq: Seq(seq), previous, payload_checksum };
    let checksum = push_frame(&mut frame, ID, &parts, payload);
    (frame, checksum)
}

#[test]
fn a_segment_of_an_earlier_version_may_be_cut_off_too() {
    let (files, disk) = crash_disk();
    disk.create_dir(DIR).unwrap();
    let mut bytes = segment::encode_header(ID, Seq(1), 0).to_vec();
    let (one, checksum) = frame_of(1, 0, b"one");
    let (two, _) = frame_of(2, checksum, &forged(0));
    bytes.extend(one);
    let from = bytes.len();
    bytes.extend(two);
    disk.create(&segment::path(DIR, Seq(1))).unwrap().append(&bytes).unwrap();
    let name = names(&files).remove(0);
    for cut in from + 1..bytes.len() {
        let killed = files.after(PowerCut::Keep);
        killed.damage(&name, |bytes| bytes.truncate(cut));
        let (last, torn) = opened(&killed, &format!("cut at {cut}"));
        assert_eq!((last, torn.unwrap().bytes), (Seq(1), (cut - from) as u64), "cut at {cut}");
    }
}

/// A log of one record, and a group of records behind it whose sync failed.
fn unsynced(payloads: &[&[u8]]) -> CrashDisk {
    let (files, disk) = crash_disk();
    let log = create(&disk, options());
    append(&log, b"one");
    let tickets = payloads.iter().map(|payload| log.submit(RecordKind::Put, payload).unwrap());
    let last = tickets.last().unwrap();
    let kind = FaultKind::Io;
    files.inject(PlannedFault { operation: files.operations() + 2, kind });
    assert!(log.wait(last).is_err());
    files
}

#[test]
fn a_power_cut_may_lose_any_sector_of_records_that_hold_marks() {
    const SECTOR: usize = 512;
    for shift in 0..FRAME_ALIGNMENT {
        let (first, second) = (forged(shift), forged((shift + 3) % FRAME_ALIGNMENT));
        let files = unsynced(&[&first, &second, b"last"]);
        let name = names(&files).remove(0);
        let one = START + frame_bytes(3) as usize + MARK;
        let bytes = files.files()[&name].len();
        let mut lost = 0;
        for sector in 0..bytes.div_ceil(SECTOR) {
            let range = (sector * SECTOR).max(one)..(sector * SECTOR + SECTOR).min(bytes);
            let cut = files.after(PowerCut::Keep);
            cut.damage(&name, |bytes| bytes[range].fill(0));
            let context = format!("shifted by {shift}, without sector {sector}");
            let (last, torn) = opened(&cut, &context);
            assert!(torn.is_some() && last >= Seq(1) && last < Seq(4), "{context}: {last:?}");
            lost += 1;
        }
        assert!(lost > 10, "{lost}");
    }
}

#[test]
fn the_first_record_of_a_segment_may_be_lost_too() {
    let (files, disk) = crash_disk();
    let log = create(&disk, options());
    let ticket = log.submit(RecordKind::Put, &forged(0)).unwrap();
    files.inject(PlannedFault { operation: files.operations() + 2, kind: FaultKind::Io });
    assert!(log.wait(ticket).is_err());
    drop(log);
    let name = names(&files).remove(0);
    files.damage(&name, |bytes| bytes[START..START + frame_header::BYTES].fill(0));
    let (last, torn) = opened(&files, "without its header");
    assert_eq!((last, torn.unwrap().offset), (Seq(0), START as u64));
}

#[test]
fn damage_before_a_mark_is_found_in_records_that_hold_marks() {
    let (files, disk) = crash_disk();
    let log = create(&disk, options());
    for shift in 0..3 {
        append(&log, &forged(shift));
    }
    drop(log);
    let name = names(&files).remove(0);
    let end = files.files()[&name].len() - MARK;
    for byte in 0..end {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |bytes| bytes[byte] ^= 1 << (byte % 8));
        let refused = Log::open(Arc::new(damaged), DIR, ID, options());
        assert!(refused.is_err(), "byte {byte}");
    }
}

#[test]
fn salts_differ_between_segments_and_come_with_each_mark() {
    let (files, disk) = crash_disk();
    let marks = |name: &str| -> Vec<Salt> {
        let bytes = files.files()[name].clone();
        let (mut at, mut salts) = (segment_header::BYTES, Vec::new());
        while at < bytes.len() {
            let header = FrameHeader::of(bytes[at..].first_chunk().unwrap());
            if header.kind == KIND_MARK {
                salts.push(Salt::of(&bytes[at + frame_header::BYTES..at + MARK]).unwrap());
            }
            at += frame_bytes(header.payload_bytes) as usize;
        }
        salts
    };
    append(&create(&disk, options()), b"one");
    append(&open(&disk), b"two");
    let found: Vec<_> = names(&files).iter().map(|name| marks(name)).collect();
    assert_eq!(found.len(), 2);
    for salts in &found {
        assert_eq!(*salts, [salts[0]; 2], "one at the start, one behind the record");
    }
    assert_ne!(found[0][0], found[1][0]);
}

#[test]
fn a_real_disk_gives_other_salts_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let some: BTreeSet<u64> = (0..100).map(|_| disk.unforeseen()).collect();
    assert_eq!(some.len(), 100);
}
