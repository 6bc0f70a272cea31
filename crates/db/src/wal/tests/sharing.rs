//! Threads that append at once: they share syncs, wait for each other, and all get an answer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use super::super::*;
use super::{append, contents, small};
use crate::disk::{AppendFile, CrashDisk, DirectoryEntry, Disk, DiskError, ReadFile};
use crate::ids::Seq;

/// A disk whose syncs are counted, and wait while the gate is shut.
#[derive(Debug, Default)]
struct Gated {
    disk: CrashDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    shut: AtomicBool,
    panics: AtomicBool,
    syncs: AtomicUsize,
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn AppendFile>,
    gate: Arc<Gate>,
}

impl AppendFile for GatedFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.append(bytes)
    }
    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.reserve(bytes)
    }
    fn give_back(&self) {
        self.file.give_back();
    }
    fn sync(&self) -> Result<(), DiskError> {
        self.gate.syncs.fetch_add(1, Ordering::SeqCst);
        while self.gate.shut.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert!(!self.gate.panics.load(Ordering::SeqCst), "a disk that panics, as asked");
        self.file.sync()
    }
}

impl Disk for Gated {
    fn create(&self, path: &str) -> Result<Box<dyn AppendFile>, DiskError> {
        let file = self.disk.create(path)?;
        Ok(Box::new(GatedFile { file, gate: self.gate.clone() }))
    }
    fn create_dir(&self, path: &str) -> Result<(), DiskError> {
        self.disk.create_dir(path)
    }
    fn remove_dir(&self, path: &str) -> Result<(), DiskError> {
        self.disk.remove_dir(path)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, DiskError> {
        self.disk.open(path)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<(), DiskError> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, path: &str) -> Result<(), DiskError> {
        self.disk.sync_dir(path)
    }
    fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, DiskError> {
        self.disk.list(path)
    }
    fn available_bytes(&self) -> Result<u64, DiskError> {
        self.disk.available_bytes()
    }
    fn unforeseen(&self) -> u64 {
        self.disk.unforeseen()
    }
    fn locate(&self, path: &str) -> PathBuf {
        self.disk.locate(path)
    }
}

fn gated(options: LogOptions) -> (Arc<Gate>, Arc<Log>) {
    let disk = Gated::default();
    let gate = disk.gate.clone();
    let log = super::create(&(Arc::new(disk) as Arc<dyn Disk>), options);
    gate.syncs.store(0, Ordering::SeqCst);
    (gate, Arc::new(log))
}

#[test]
fn those_who_come_during_a_sync_share_the_next() {
    let (gate, log) = gated(LogOptions::default());
    gate.shut.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| append(&log, b"first"));
        while gate.syncs.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let others: Vec<_> = (0..7).map(|_| scope.spawn(|| append(&log, b"other"))).collect();
        while log.last() < Seq(8) {
            std::thread::yield_now();
        }
        assert_eq!(log.durable(), Seq(0), "nobody is answered before the sync");
        gate.shut.store(false, Ordering::SeqCst);
        assert_eq!(first.join().unwrap(), Seq(1));
        let mut numbers: Vec<u64> = others.into_iter().map(|t| t.join().unwrap().0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8]);
    });
    assert_eq!(gate.syncs.load(Ordering::SeqCst), 2, "one for the first, one for the others");
    assert_eq!(contents(&log, 1).len(), 8);
}

#[test]
fn level_group_waits_for_others_to_join() {
    // The wait is an hour, and ends when half of the queue is full.
    let level = Level::Group { delay_ms: 3_600_000 };
    let (gate, log) = gated(LogOptions { level, queue_bytes: 4000, ..LogOptions::default() });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| append(&log, &[1; 500]));
        }
    });
    assert_eq!((log.durable(), gate.syncs.load(Ordering::SeqCst)), (Seq(4), 1));
}

#[test]
fn level_group_waits_no_longer_than_its_delay() {
    let level = Level::Group { delay_ms: 2 };
    let (gate, log) = gated(LogOptions { level, ..LogOptions::default() });
    assert_eq!((append(&log, b"alone"), log.durable()), (Seq(1), Seq(1)));
    assert_eq!(gate.syncs.load(Ordering::SeqCst), 1);
}

#[test]
fn many_threads_get_numbers_of_their_own_and_all_is_there() {
    const THREADS: usize = 16;
    let (_, log) = gated(small());
    let start = Barrier::new(THREADS);
    let mut answered: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let thread = |t: usize| {
            let (log, start) = (&log, &start);
            scope.spawn(move || {
                start.wait();
                let payloads = (0..100u8).map(|i| vec![t as u8, i, t as u8]);
                payloads.map(|p| (append(log, &p).0, p)).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    for thread in answered.chunks(100) {
        assert!(thread.is_sorted_by_key(|(seq, _)| *seq), "each thread's records keep their order");
    }
    answered.sort();
    assert_eq!(contents(&log, 1), answered);
}

#[test]
fn a_panic_of_the_disk_leaves_nobody_waiting() {
    let (gate, log) = gated(LogOptions::default());
    gate.shut.store(true, Ordering::SeqCst);
    gate.panics.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| append(&log, b"leader"));
        while gate.syncs.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let ticket = log.submit(RecordKind::Put, b"other").unwrap();
        let other = scope.spawn({
            let log = &log;
            move || log.wait(ticket).unwrap_err()
        });
        gate.shut.store(false, Ordering::SeqCst);
        assert!(leader.join().is_err(), "the panic goes to the one it happened to");
        let told = other.join().unwrap();
        assert!(matches!(told, WalError::Poisoned { .. }), "{told}");
    });
    assert!(matches!(log.submit(RecordKind::Put, b"later"), Err(WalError::Poisoned { .. })));
}

#[test]
fn a_failure_is_told_to_all_that_wait() {
    let (files, disk) = super::crash_disk();
    let log = super::create(&disk, LogOptions::default());
    let tickets: Vec<_> = (0..4).map(|_| log.submit(RecordKind::Put, b"x").unwrap()).collect();
    let operation = files.operations() + 2;
    files.inject(crate::disk::PlannedFault { operation, kind: crate::disk::FaultKind::Io });
    std::thread::scope(|scope| {
        for ticket in tickets {
            let log = &log;
            scope.spawn(move || {
                let told = log.wait(ticket).unwrap_err();
                assert!(matches!(told, WalError::Poisoned { .. }), "{told}");
            });
        }
    });
}
