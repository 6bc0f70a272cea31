//! Every operation fails once, for lack of space, with an I/O error, or half-way: the log says
//! so, takes nothing more until it is opened again, and loses nothing that was answered. A record that a
//! full disk has no room for is refused before, and the log goes on.

use std::sync::Arc;

use super::super::*;
use super::load::{Model, reopen, run, steps};
use super::{DIR, ID, append, contents, crash_disk, create, names, open, small};
use crate::disk::{CrashDisk, Disk, DiskError, FaultKind, PlannedFault, PowerCut};
use crate::ids::{ErrorClass, RowId, Seq};

#[test]
fn a_fault_at_every_operation_loses_nothing_answered() {
    let mut failed = 0;
    for seed in 20..23 {
        let disk = CrashDisk::new();
        run(seed, &disk, &mut Model::default()).unwrap();
        for operation in 1..=disk.operations() {
            for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::ShortWrite] {
                let context = format!("seed {seed}, operation {operation}, {kind:?}");
                let (disk, mut model) = (CrashDisk::new(), Model::default());
                disk.inject(PlannedFault { operation, kind });
                match run(seed, &disk, &mut model) {
                    // A mark that does not get through is only noticed by the next write.
                    Ok(()) => {}
                    Err(WalError::Disk(_) | WalError::Poisoned { .. }) => failed += 1,
                    Err(other) => panic!("{context}: {other}"),
                }
                // The same machine goes on: its caches are as they were.
                let log = match reopen(&disk, &mut model, &context) {
                    Ok(log) => log,
                    Err(WalError::NoLog { .. }) if model.kept_none() => {
                        create(&(Arc::new(disk.clone()) as Arc<dyn Disk>), small())
                    }
                    Err(WalError::Disk(e)) if e.is_not_found() && model.kept_none() => continue,
                    Err(other) => panic!("{context}: {other}"),
                };
                let mut log = Some(log);
                steps(operation, 4, &disk, &mut log, &mut model).unwrap();
                for cut in [PowerCut::Drop, PowerCut::Torn(operation), PowerCut::Keep] {
                    let context = format!("{context}, {cut:?}");
                    reopen(&disk.after(cut), &mut model.clone(), &context).unwrap();
                }
            }
        }
    }
    assert!(failed > 300, "{failed} faults were noticed");
}

#[test]
fn a_poisoned_log_takes_nothing_until_it_is_opened_again() {
    // The append of a record, and its sync.
    for (step, kind) in [(1, FaultKind::NoSpace), (1, FaultKind::ShortWrite), (2, FaultKind::Io)] {
        let (files, disk) = crash_disk();
        let log = create(&disk, small());
        append(&log, b"one");
        files.inject(PlannedFault { operation: files.operations() + step, kind });
        let ticket = log.submit(RecordKind::Put, b"two").unwrap();
        let first = log.wait(ticket).unwrap_err();
        let WalError::Poisoned { cause } = &first else { panic!("{first}") };
        let full = matches!(cause, CommitFailure::Disk(DiskError::NoSpace { .. }));
        assert_eq!(full, kind == FaultKind::NoSpace, "{first}");
        let class = if full { ErrorClass::FixInput } else { ErrorClass::Stop };
        assert_eq!(first.class(), class);
        let before = files.operations();
        assert_eq!(log.submit(RecordKind::Put, b"three").map(drop).unwrap_err(), first);
        assert_eq!(log.wait(ticket).unwrap_err(), first);
        assert_eq!(log.sync().map(drop).unwrap_err(), first);
        assert_eq!(files.operations(), before, "nothing was tried");
        assert_eq!(contents(&log, 1).len() as u64, log.replay(Seq(1)).unwrap().count() as u64);
        drop(log);
        let log = open(&disk);
        let next = append(&log, b"four");
        assert!(next == Seq(2) || next == Seq(3), "two may be there or not");
        assert_eq!(contents(&log, next.0), [(next.0, b"four".to_vec())]);
    }
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_anew() {
    let (files, disk) = crash_disk();
    let log = create(&disk, LogOptions::default());
    append(&log, b"one");
    files.inject(PlannedFault { operation: files.operations() + 2, kind: FaultKind::Io });
    let lost = log.submit(RecordKind::Put, &[2; 9000]).unwrap();
    assert!(matches!(log.wait(lost), Err(WalError::Poisoned { .. })));
    drop(log);
    let (log, recovery) = Log::open(disk, DIR, ID, LogOptions::default()).unwrap();
    assert_eq!((recovery.last, recovery.rewritten), (Seq(2), 1), "it can still be read");
    append(&log, b"three");
    let after: Arc<dyn Disk> = Arc::new(files.after(PowerCut::Drop));
    let expected = [(1, b"one".to_vec()), (2, vec![2; 9000]), (3, b"three".to_vec())];
    assert_eq!(contents(&open(&after), 1), expected);
}

/// Appends records of 100 bytes until one is refused since the disk is full: how many there are.
fn fill(log: &Log) -> u64 {
    loop {
        match log.append(&Record::Delete(vec![RowId(7); 12])) {
            Ok(_) => {}
            Err(WalError::Disk(DiskError::NoSpace { .. })) => return log.last().0,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_full_disk_refuses_records_and_the_log_goes_on_when_there_is_room() {
    for options in [small(), LogOptions::default(), LogOptions { level: Level::None, ..small() }] {
        let files = CrashDisk::with_capacity(9000);
        let disk: Arc<dyn Disk> = Arc::new(files.clone());
        let ballast = disk.create("ballast").unwrap();
        ballast.append(&[0; 4000]).unwrap();
        let log = create(&disk, options);
        let first = fill(&log);
        assert!(first >= 10, "{first} records fit");
        for _ in 0..3 {
            let full = log.append(&Record::Delete(vec![])).map(drop);
            let room = log.make_room(100).unwrap_err();
            assert!(matches!(room, WalError::Disk(DiskError::NoSpace { .. })), "{room}");
            assert_eq!(room.class(), ErrorClass::FixInput);
            assert!(full.is_ok() || full.unwrap_err().to_string().contains("no space left"));
        }
        let answered = fill(&log);
        assert_eq!(log.sync().unwrap(), Seq(answered), "what was taken has its room");
        assert_eq!(contents(&log, 1).len() as u64, answered);
        for cut in [PowerCut::Drop, PowerCut::Torn(answered), PowerCut::Keep] {
            let after = files.after(cut);
            after.set_capacity(None);
            assert_eq!(
                contents(&open(&(Arc::new(after) as Arc<dyn Disk>)), 1).len() as u64,
                answered
            );
        }
        disk.remove("ballast").unwrap();
        let more = fill(&log);
        assert!(more > answered + 10, "{answered}, then {more}");
        drop(log);
        files.set_capacity(None);
        let log = open(&disk);
        assert_eq!(contents(&log, 1).len() as u64, more, "none was refused and is there");
        assert_eq!(append(&log, b"on"), Seq(more + 1));
    }
}

#[test]
fn a_log_that_was_closed_opens_for_writing_on_a_full_disk() {
    let files = CrashDisk::with_capacity(3000);
    let disk: Arc<dyn Disk> = Arc::new(files.clone());
    let log = create(&disk, LogOptions::default());
    let answered = fill(&log);
    drop(log);
    let log = open(&disk);
    assert_eq!(fill(&log), answered);
    files.set_capacity(None);
    assert_eq!(append(&log, b"on"), Seq(answered + 1), "it need not be opened again");
}

#[test]
fn a_disk_that_is_full_when_a_segment_ends_is_filled_to_its_end() {
    // The first segment ends at some 2,300 bytes, with room for another from 2,700 on.
    let mut segments = [false; 2];
    for capacity in (2300..6000).step_by(8) {
        let files = CrashDisk::with_capacity(capacity);
        let disk: Arc<dyn Disk> = Arc::new(files.clone());
        let log = create(&disk, small());
        let answered = fill(&log);
        segments[usize::from(names(&files).len() > 1)] = true;
        assert!(disk.available_bytes().unwrap() < 300, "of {capacity}");
        drop(log);
        files.set_capacity(None);
        assert_eq!(contents(&open(&disk), 1).len() as u64, answered, "of {capacity}");
    }
    assert_eq!(segments, [true; 2], "some grew beyond their length, some had successors");
}

/// Prepared room is what makes the difference: another's bytes cannot take it.
#[test]
fn a_record_with_room_is_written_on_a_disk_that_others_fill() {
    let files = CrashDisk::with_capacity(100_000);
    let disk: Arc<dyn Disk> = Arc::new(files.clone());
    let log = create(&disk, LogOptions::default());
    log.make_room(5000).unwrap();
    let ballast = disk.create("ballast").unwrap();
    ballast.append(&vec![0; disk.available_bytes().unwrap() as usize]).unwrap();
    assert_eq!(append(&log, &[1; 5000]), Seq(1));
    drop(log);
    files.set_capacity(None);
    assert_eq!(contents(&open(&disk), 1), [(1, vec![1; 5000])]);
}
