//! A process that appends to a log is killed at random moments, again and again: what it had
//! answered is there, in order and once, and its lock is free.
//!
//! The child is this test binary itself, running `appends_until_killed`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use pipeann_db::disk::{DirectoryLock, Disk, Holder, LockError, RealDisk};
use pipeann_db::ids::{RowId, Seq};
use pipeann_db::wal::{Level, Log, LogId, LogOptions, PutRow, Record};

use crate::child::{self, Running, say};

const ID: LogId = LogId(*b"kill nine a log!");
const DIR: &str = "wal";
const THREADS: u64 = 4;
const ROUNDS: u64 = 20;

/// Small segments, so that kills hit rotations too.
fn options(round: u64) -> LogOptions {
    let level = if round.is_multiple_of(2) { Level::Sync } else { Level::None };
    LogOptions { level, segment_bytes: 16 << 10, ..LogOptions::default() }
}

/// What a thread writes: it tells who wrote it, and has a length of its own.
fn blob(round: u64, thread: u64, count: u64) -> String {
    let text = format!("{round} {thread} {count} ");
    let length = text.len() + ((count * 97 + thread * 31) % 700) as usize;
    format!("{text:.<length$}")
}

fn open(dir: &Path, round: u64) -> Log {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir).unwrap());
    if round == 0 {
        return Log::create(disk, DIR, ID, Seq(1), options(round)).unwrap();
    }
    Log::open(disk, DIR, ID, options(round)).unwrap().0
}

#[test]
#[ignore = "runs as the child of `a_killed_process_loses_nothing_it_answered`"]
fn appends_until_killed() {
    let Some((round, dir)) = child::input() else { return };
    let _lock = DirectoryLock::take(&dir, &Holder::this_process(round)).unwrap();
    let log = open(&dir, round);
    say("ready");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for count in 0.. {
                    let blob = blob(round, thread, count);
                    let row = RowId(round << 32 | thread << 24 | count);
                    let row = PutRow { row, partition: 0, key: b"", blob: blob.as_bytes() };
                    let seq = log.append(&Record::Put(vec![row])).unwrap();
                    say(&format!("answered {} {round} {thread} {count} .", seq.0));
                }
            });
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut answered: Vec<(u64, String)> = Vec::new();
    for round in 0..ROUNDS {
        let running = Running::start("log_kill::appends_until_killed", round, dir.path());
        let refused = DirectoryLock::take(dir.path(), &Holder::this_process(0)).unwrap_err();
        let LockError::Held { holder, .. } = &refused else { panic!("{refused}") };
        assert_eq!(holder.as_ref().map(|h| h.pid), Some(running.id()), "{refused}");
        // Another number of answers each time, so that the moment is another one.
        let killed_after = 20 + (round * 7919 + 13) % 400;
        let before = answered.len();
        let mut hear = |line: &str| {
            // A line that was cut off is not an answer: it does not end with a dot.
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some(at) = words.iter().position(|word| *word == "answered") else { return };
            let &[seq, round, thread, count, "."] = &words[at + 1..] else { return };
            let [seq, round, thread, count] =
                [seq, round, thread, count].map(|w| w.parse().unwrap());
            answered.push((seq, blob(round, thread, count)));
        };
        running.kill_after(killed_after as usize, &mut hear);
        assert!(answered.len() - before >= killed_after as usize - 1, "round {round}");

        let lock = DirectoryLock::take(dir.path(), &Holder::this_process(0)).unwrap();
        let log = open(dir.path(), round + 1);
        let records: Vec<_> = log.replay(Seq(1)).unwrap().map(|r| r.unwrap()).collect();
        assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == Seq(seq)));
        let mut rows = HashSet::new();
        let blobs: Vec<&[u8]> = records
            .iter()
            .map(|record| match record.decode().unwrap() {
                Record::Put(put) => {
                    assert!(rows.insert(put[0].row), "round {round}: a row comes twice");
                    put[0].blob
                }
                other => panic!("{other:?} was never written"),
            })
            .collect();
        for (seq, blob) in &answered {
            let found = blobs.get(*seq as usize - 1).copied();
            assert_eq!(found, Some(blob.as_bytes()), "round {round}, record {seq}");
        }
        drop((log, lock));
    }
    assert!(answered.len() > 1000, "{} records were answered", answered.len());
}
