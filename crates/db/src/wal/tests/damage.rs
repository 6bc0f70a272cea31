//! Flipped bits, missing, foreign, mixed and newer files: refused by name, never skipped.

use std::sync::Arc;

use super::super::constants::{SEGMENT_VERSION, segment_header};
use super::super::frame::{FrameHeader, FrameParts, payload_checksum, push_frame};
use super::super::*;
use super::{DIR, ID, MARK, START, append, contents, crash_disk, create, names, open, small};
use crate::disk::{CrashDisk, Disk, PowerCut};
use crate::ids::{ErrorClass, Seq};

/// A log of records with 300 bytes each, in segments of 2000.
fn log_of(records: u64) -> (CrashDisk, Arc<dyn Disk>) {
    let (files, disk) = crash_disk();
    let log = create(&disk, small());
    for i in 1..=records {
        append(&log, &[i as u8; 300]);
    }
    (files, disk)
}

/// Opens and reads everything.
fn read_all(disk: &CrashDisk) -> Result<Vec<u64>, WalError> {
    let (log, recovery) = Log::open(Arc::new(disk.clone()), DIR, ID, small())?;
    log.replay(recovery.first)?.map(|r| r.map(|r| r.seq.0)).collect()
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (files, _) = log_of(12);
    let all: Vec<u64> = (1..=12).collect();
    let segments = names(&files);
    assert!(segments.len() >= 2);
    let (mut refused, mut harmless) = (0, 0);
    for name in &segments {
        for byte in 0..files.files()[name].len() {
            let damaged = files.after(PowerCut::Keep);
            damaged.damage(name, |bytes| bytes[byte] ^= 1 << (byte % 8));
            match read_all(&damaged) {
                Err(error) => {
                    assert!(error.to_string().contains(name), "byte {byte}: {error}");
                    refused += 1;
                }
                // The mark at the very end vouches for what is there anyway.
                Ok(found) => {
                    assert_eq!(found, all, "{name}, byte {byte}: nothing is lost silently");
                    harmless += 1;
                }
            }
        }
    }
    assert!(refused > 3000, "{refused}");
    assert_eq!(harmless, segments.len() * MARK, "the last mark of each segment");
}

#[test]
fn damage_names_file_offset_and_record() {
    let (files, _) = log_of(4);
    let name = names(&files).remove(0);
    // Frames of 48 + 304 bytes, each followed by a mark.
    let third = START + 2 * (48 + 304 + MARK);
    files.damage(&name, |bytes| bytes[third + 60] ^= 1);
    let error = read_all(&files).unwrap_err();
    let WalError::Corrupt { path, offset, expected, problem } = &error else { panic!("{error}") };
    assert_eq!((path.to_str().unwrap(), *offset, *expected), (&*name, third as u64, Seq(3)));
    assert!(matches!(problem, FrameProblem::PayloadChecksum { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Stop);
    let before = files.files();
    let disk: Arc<dyn Disk> = Arc::new(files.clone());
    assert_eq!(verify(&disk, DIR, ID).unwrap_err(), error);
    assert_eq!(files.files(), before, "a refused log is left as it is");
}

#[test]
fn a_torn_tail_is_reported_and_left_behind() {
    let (files, disk) = log_of(3);
    let name = names(&files).remove(0);
    let whole = files.files()[&name].len() as u64;
    // Half of a fourth record, as a kill in the middle of a write leaves it.
    append(&open(&disk), &[4; 300]);
    let fourth = files.files()[&names(&files)[1]][START..START + 200].to_vec();
    files.remove(&names(&files)[1]).unwrap();
    files.remove("wal/NEWEST").unwrap();
    files.damage(&name, |bytes| bytes.extend(&fourth));
    let (log, recovery) = Log::open(disk.clone(), DIR, ID, small()).unwrap();
    let torn = recovery.torn.unwrap();
    assert_eq!((torn.offset, torn.bytes, torn.expected), (whole, 200, Seq(4)));
    assert_eq!(torn.problem, FrameProblem::CutOff { missing: 48 + 304 - 200 });
    assert_eq!((recovery.last, recovery.rewritten), (Seq(3), 0));
    assert_eq!(append(&log, &[5; 300]), Seq(4));
    drop(log);
    let (log, recovery) = Log::open(disk, DIR, ID, small()).unwrap();
    assert_eq!((recovery.torn, recovery.last), (None, Seq(4)));
    assert_eq!(contents(&log, 4), [(4, vec![5; 300])]);
}

#[test]
fn a_later_record_is_no_continuation_of_a_torn_one() {
    // Records 2 and 3 are written together; the sector of 2 is lost, that of 3 is there. The
    // record 2 that comes next has the length of the old one.
    let (files, disk) = crash_disk();
    let log = create(&disk, LogOptions::default());
    append(&log, &[1; 400]);
    let _ = log.submit(RecordKind::Put, &[2; 464]).unwrap();
    log.wait(log.submit(RecordKind::Put, &[3; 464]).unwrap()).unwrap();
    drop(log);
    let name = names(&files).remove(0);
    let second = START + 448 + MARK;
    files.damage(&name, |bytes| {
        bytes[second..second + 512].fill(0);
        bytes.truncate(second + 1024);
    });
    let (log, recovery) = Log::open(disk.clone(), DIR, ID, LogOptions::default()).unwrap();
    assert_eq!((recovery.last, recovery.torn.unwrap().bytes), (Seq(1), 1024));
    assert_eq!(append(&log, &[9; 464]), Seq(2));
    drop(log);
    let found = contents(&open(&disk), 1);
    assert_eq!(found, [(1, vec![1; 400]), (2, vec![9; 464])], "the old 3 does not come back");
}

#[test]
fn a_missing_segment_is_a_gap() {
    let (files, _) = log_of(20);
    let middle = names(&files).remove(1);
    files.remove(&middle).unwrap();
    let error = read_all(&files).unwrap_err();
    let WalError::Gap { expected, found, .. } = &error else { panic!("{error}") };
    assert!(expected < found, "{error}");
    assert_eq!(error.class(), ErrorClass::Stop);
}

#[test]
fn the_newest_segment_is_missed() {
    let (files, _) = log_of(20);
    let newest = names(&files).pop().unwrap();
    files.remove(&newest).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(files.clone());
    let error = Log::open(shared, DIR, ID, small()).unwrap_err();
    assert!(matches!(&error, WalError::Missing { path } if path.ends_with(&newest)), "{error}");
    assert_eq!(error.class(), ErrorClass::Stop);
    // Without the note, or with a damaged one, the log opens as it is.
    files.damage("wal/NEWEST", |bytes| bytes[3] ^= 1);
    open(&(Arc::new(files.after(PowerCut::Keep)) as Arc<dyn Disk>));
    files.remove("wal/NEWEST").unwrap();
    open(&(Arc::new(files) as Arc<dyn Disk>));
}

#[test]
fn a_newest_segment_that_was_cut_behind_a_clean_end_is_refused_and_its_loss_named() {
    let (files, disk) = crash_disk();
    let log = create(&disk, LogOptions::default());
    for i in 1..=5 {
        append(&log, &[i; 300]);
    }
    log.close().unwrap();
    let name = names(&files).pop().unwrap();
    let whole = files.files()[&name].len();
    // Frames of 48 + 304 bytes, each followed by a mark.
    for (cut, found) in [(100, 4), (500, 3), (whole - 64, 0), (whole - 64 - 200, 0)] {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |bytes| bytes.truncate(whole - cut));
        let open = || Log::open(Arc::new(damaged.clone()), DIR, ID, LogOptions::default());
        let error = open().unwrap_err();
        let WalError::Cut { path, expected, found: last } = &error else { panic!("{error}") };
        assert_eq!((path.to_str().unwrap(), *expected, *last), (&*name, Seq(5), Seq(found)));
        assert_eq!(error.class(), ErrorClass::Stop);
        assert!(error.to_string().contains("NEWEST"), "{error}");
        assert!(open().is_err(), "a refused log is left as it is");
        damaged.remove("wal/NEWEST").unwrap();
        assert_eq!(open().unwrap().1.last, Seq(found), "without the note nothing is known");
    }
    // What follows is not missed where the log was not closed, and what was there before is.
    let (log, _) = Log::open(disk.clone(), DIR, ID, LogOptions::default()).unwrap();
    append(&log, &[6; 300]);
    drop(log);
    let newest = names(&files).pop().unwrap();
    assert_ne!(newest, name);
    files.damage(&newest, |bytes| bytes.truncate(START + 100));
    let (_, recovery) = Log::open(disk, DIR, ID, LogOptions::default()).unwrap();
    assert_eq!(recovery.last, Seq(5));
}

#[test]
fn notes_of_former_versions_are_read() {
    let (files, disk) = log_of(20);
    let newest = names(&files).pop().unwrap();
    let number = newest.trim_end_matches(".wal").rsplit('/').next().unwrap();
    let number = number.parse::<u64>().unwrap().to_le_bytes();
    files.damage("wal/NEWEST", |bytes| {
        bytes.truncate(16);
        bytes[..8].copy_from_slice(&number);
        let checksum = crc_fast::crc64_nvme(&number) ^ crc_fast::crc64_nvme(&ID.0);
        bytes[8..].copy_from_slice(&checksum.to_le_bytes());
    });
    open(&disk);
    files.remove(&newest).unwrap();
    assert!(matches!(Log::open(disk, DIR, ID, small()), Err(WalError::Missing { .. })));
}

#[test]
fn a_sealed_segment_that_ends_early_is_refused() {
    let (files, _) = log_of(20);
    let name = names(&files).remove(0);
    let bytes = files.files()[&name].len();
    for cut in [1, MARK, MARK + 1, 200, MARK + 352, 1000] {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |b| b.truncate(bytes - cut));
        match read_all(&damaged) {
            // Only its last mark is gone, or a part of that.
            Ok(all) => assert!(cut <= MARK && all.len() == 20, "{cut} bytes cut off"),
            Err(error) => {
                assert!(
                    matches!(error, WalError::Corrupt { .. } | WalError::Gap { .. }),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn segments_of_different_histories_are_not_mixed() {
    let (files, _) = log_of(20);
    let (other, disk) = crash_disk();
    let log = create(&disk, small());
    for i in 1..=20u8 {
        append(&log, &[!i; 300]);
    }
    let name = names(&files).remove(1);
    assert_eq!(names(&other)[1], name, "the same records stand in it");
    let foreign = other.files()[&name].clone();
    files.damage(&name, |bytes| *bytes = foreign);
    let error = read_all(&files).unwrap_err();
    assert!(matches!(error, WalError::Unconnected { .. }), "{error}");
    assert!(error.to_string().contains(&name), "{error}");
}

#[test]
fn a_record_of_another_history_is_found() {
    let (files, _) = log_of(4);
    let (other, disk) = crash_disk();
    let log = create(&disk, small());
    (1..=4u8).for_each(|i| assert_eq!(append(&log, &[!i; 300]), Seq(u64::from(i))));
    let name = names(&files).remove(0);
    let third = START + 2 * (352 + MARK)..START + 3 * (352 + MARK);
    let theirs = other.files()[&name][third.clone()].to_vec();
    files.damage(&name, |bytes| bytes[third.clone()].copy_from_slice(&theirs));
    let error = read_all(&files).unwrap_err();
    let misplaced = FrameProblem::Misplaced { found: Seq(3) };
    assert!(matches!(error, WalError::Corrupt { problem, .. } if problem == misplaced), "{error}");
}

#[test]
fn a_record_of_another_collection_is_found() {
    let (files, disk) = log_of(4);
    let name = names(&files).remove(0);
    let third = START + 2 * (352 + MARK);
    let header = files.files()[&name][third..third + 48].to_vec();
    let header = FrameHeader::decode(header.first_chunk().unwrap(), ID).unwrap();
    let parts = FrameParts {
        kind: header.kind,
        seq: header.seq,
        previous: header.previous,
        payload_checksum: header.payload_checksum,
    };
    let write_as = |id| {
        let mut frame = Vec::new();
        push_frame(&mut frame, id, &parts, &[3; 300]);
        files.damage(&name, |bytes| bytes[third..third + 352].copy_from_slice(&frame));
        Log::open(disk.clone(), DIR, ID, small()).map(drop)
    };
    write_as(ID).unwrap();
    let error = write_as(LogId([7; 16])).unwrap_err();
    let WalError::Corrupt { expected: Seq(3), problem, .. } = error else { panic!("{error}") };
    assert!(matches!(problem, FrameProblem::HeaderChecksum { .. }), "{problem}");
}

#[test]
fn a_record_in_another_place_is_found() {
    let (files, _) = log_of(4);
    let name = names(&files).remove(0);
    let at = |n: usize| START + n * (352 + MARK);
    let frame = |n: usize| at(n)..at(n) + 352;
    for (from, to) in [(2, 1), (1, 2)] {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |bytes| bytes.copy_within(frame(from), at(to)));
        let error = read_all(&damaged).unwrap_err();
        let misplaced = FrameProblem::Misplaced { found: Seq(from as u64 + 1) };
        assert!(
            matches!(error, WalError::Corrupt { problem, .. } if problem == misplaced),
            "{error}"
        );
    }
}

#[test]
fn foreign_and_newer_files_are_refused_by_name() {
    let (files, disk) = log_of(3);
    let name = names(&files).remove(0);
    let other = LogId([7; 16]);
    let foreign = Log::open(disk, DIR, other, small()).map(drop).unwrap_err();
    assert_eq!(foreign.class(), ErrorClass::FixInput);
    let message = foreign.to_string();
    assert!(message.contains(&name) && message.contains(&ID.to_string()), "{message}");

    let changed = |field: constants::ByteField, value: u8| {
        let damaged = files.after(PowerCut::Keep);
        damaged.damage(&name, |bytes| {
            bytes[field.offset] = value;
            let checksum = crc_fast::crc64_nvme(&bytes[..segment_header::CHECKSUM.offset]);
            bytes[segment_header::CHECKSUM.offset..segment_header::BYTES]
                .copy_from_slice(&checksum.to_le_bytes());
        });
        read_all(&damaged).unwrap_err()
    };
    let newer = changed(segment_header::VERSION, SEGMENT_VERSION as u8 + 1);
    assert!(matches!(newer, WalError::NewerVersion { found: 2, supported: 1, .. }), "{newer}");
    for field in [segment_header::FLAGS, segment_header::RESERVED, segment_header::FIRST_SEQ] {
        let refused = changed(field, 9);
        assert!(matches!(refused, WalError::NotASegment { .. }), "{}: {refused}", field.name);
    }

    let damaged = files.after(PowerCut::Keep);
    damaged.damage(&name, |bytes| bytes.truncate(50));
    assert!(matches!(read_all(&damaged), Err(WalError::Header { .. })));
    damaged.damage(&name, |bytes| *bytes = b"PNG, or anything else that is not a log".repeat(3));
    assert!(matches!(read_all(&damaged), Err(WalError::NotASegment { .. })));
}

#[test]
fn a_kind_of_a_newer_program_is_refused_and_not_taken_for_a_tear() {
    let (files, disk) = log_of(1);
    let name = names(&files).remove(0);
    let last = FrameHeader::decode(files.files()[&name][START..].first_chunk().unwrap(), ID);
    let parts = FrameParts {
        kind: 77,
        seq: Seq(2),
        previous: last.unwrap().checksum,
        payload_checksum: payload_checksum(b"new"),
    };
    files.damage(&name, |bytes| {
        push_frame(bytes, ID, &parts, b"new");
    });
    let refused = Log::open(disk, DIR, ID, small()).map(drop).unwrap_err();
    assert!(matches!(refused, WalError::UnknownKind { kind: 77, seq: Seq(2), .. }), "{refused}");
    assert_eq!(refused.class(), ErrorClass::FixInput);
}

#[test]
fn other_files_are_left_alone_and_strange_segment_names_refused() {
    let (files, disk) = log_of(3);
    disk.create("wal/notes.txt").unwrap();
    disk.create("wal/00000000000000000004.wal.tmp").unwrap();
    assert_eq!(read_all(&files).unwrap(), [1, 2, 3]);
    assert_eq!(names(&files), ["wal/00000000000000000001.wal"]);
    assert!(files.files().contains_key("wal/notes.txt"));
    for name in ["wal/1.wal", "wal/copy.wal", "wal/00000000000000000000.wal"] {
        disk.create(name).unwrap();
        let refused = read_all(&files).unwrap_err();
        assert!(matches!(refused, WalError::NotASegment { .. }), "{name}: {refused}");
        disk.remove(name).unwrap();
    }
}
