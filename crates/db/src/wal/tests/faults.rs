//! Every operation fails once, for lack of space, with an I/O error, or half-way: the log says
//! so, takes nothing more until it is opened again, and loses nothing that was answered.

use std::sync::Arc;

use super::super::*;
use super::load::{Model, reopen, run, steps};
use super::{DIR, ID, append, contents, crash_disk, create, open, small};
use crate::disk::{CrashDisk, Disk, DiskError, Fault, FaultKind, PowerCut};
use crate::ids::{ErrorClass, Seq};

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
                disk.inject(Fault { operation, kind });
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
        files.inject(Fault { operation: files.operations() + step, kind });
        let ticket = log.submit(RecordKind::Put, b"two").unwrap();
        let first = log.wait(ticket).unwrap_err();
        let WalError::Poisoned { cause } = &first else { panic!("{first}") };
        let full = matches!(cause, DiskError::NoSpace { .. });
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
    files.inject(Fault { operation: files.operations() + 2, kind: FaultKind::Io });
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

#[test]
fn a_full_disk_is_told_and_goes_on_when_there_is_room() {
    let files = CrashDisk::with_capacity(3000);
    let disk: Arc<dyn Disk> = Arc::new(files.clone());
    disk.create("ballast").unwrap().append(&[0; 1500]).unwrap();
    let log = create(&disk, LogOptions::default());
    let mut answered = 0;
    let full = loop {
        match log.submit(RecordKind::Put, &[7; 100]).and_then(|t| log.wait(t)) {
            Ok(seq) => answered = seq.0,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, WalError::Poisoned { cause: DiskError::NoSpace { .. } }), "{full}");
    assert!(full.to_string().contains("no space left"), "{full}");
    assert!(answered >= 3, "{answered} records fit");
    drop(log);
    disk.remove("ballast").unwrap();
    let log = open(&disk);
    let found = contents(&log, 1).len() as u64;
    assert!(found == answered || found == answered + 1, "{answered} answered, {found} there");
    assert_eq!(append(&log, b"on"), Seq(found + 1));
}
