//! A random load on a log, and a naive model of what has to be there after whatever happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeann_engine::types::SplitMix64;

use super::super::*;
use super::forged::forged_mark;
use super::{DIR, ID};
use crate::disk::{CrashDisk, Disk};
use crate::ids::{RowId, Seq};

/// A stream of numbers that depends on its seed only.
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// What was asked of a log, and what it answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Every payload that was ever submitted under a number.
    tried: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Payloads that were answered, or seen after an opening: they stay.
    kept: BTreeMap<u64, Vec<u8>>,
    /// Records before this one may have been removed.
    needed_from: u64,
    submissions: u64,
    /// When the log answers.
    level: Level,
}

impl Model {
    /// Submits a record that no other submission equals; every third is full of marks.
    pub(super) fn submit(&mut self, log: &Log, bytes: u64) -> Result<PendingCommit, WalError> {
        self.submissions += 1;
        let mut random = Random::new(self.submissions);
        let mut blob: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        if self.submissions.is_multiple_of(3) {
            let mark = forged_mark(&[]);
            blob.chunks_exact_mut(mark.len()).for_each(|place| place.copy_from_slice(&mark));
        }
        let row = PutRow { row: RowId(self.submissions), partition: 0, key: b"", blob: &blob };
        let payload = Record::Put(vec![row]).encode().expect("it is short");
        let ticket = log.submit(RecordKind::Put, &payload)?;
        self.tried.entry(ticket.seq().0).or_default().push(payload);
        Ok(ticket)
    }

    fn options(&self) -> LogOptions {
        LogOptions { level: self.level, ..super::small() }
    }

    /// The log has let go of a record. At the level `none` that counts only after a sync.
    fn waited(&mut self, log: &Log, ticket: PendingCommit, sync: bool) -> Result<(), WalError> {
        let mut seq = log.wait(ticket)?;
        if self.level == Level::None {
            if !sync {
                return Ok(());
            }
            seq = log.sync()?;
        }
        self.answered(seq);
        Ok(())
    }

    /// Whether nothing was answered yet.
    pub(super) fn kept_none(&self) -> bool {
        self.kept.is_empty()
    }

    /// All records up to `seq` were answered.
    pub(super) fn answered(&mut self, seq: Seq) {
        let from = self.kept.last_key_value().map_or(1, |(last, _)| last + 1);
        for number in from..=seq.0 {
            let payload = self.tried[&number].last().expect("it was submitted").clone();
            self.kept.insert(number, payload);
        }
    }

    /// Compares an opened log with what has to be there; from now on all of it has to stay.
    /// `Err` where the disk failed while the log was read.
    pub(super) fn check(
        &mut self,
        log: &Log,
        recovery: &Recovery,
        context: &str,
    ) -> Result<(), WalError> {
        let needed = self.needed_from.max(1);
        assert!(recovery.first.0 <= needed, "{context}: {recovery:?}, needed from {needed}");
        let last_kept = self.kept.last_key_value().map_or(0, |(last, _)| *last);
        assert!(recovery.last.0 >= last_kept, "{context}: {recovery:?}, kept to {last_kept}");
        let mut expected = recovery.first.0;
        for record in log.replay(recovery.first).unwrap() {
            let record = match record {
                Err(WalError::Disk(error)) => return Err(error.into()),
                other => other.unwrap_or_else(|e| panic!("{context}: {e}")),
            };
            let seq = record.seq.0;
            assert_eq!(seq, expected, "{context}: none is missing, none comes twice");
            assert!(self.tried[&seq].contains(&record.payload), "{context}: record {seq} is new");
            let kept = self.kept.get(&seq).unwrap_or(&record.payload);
            assert!(*kept == record.payload, "{context}: record {seq} is another");
            self.kept.insert(seq, record.payload);
            expected += 1;
        }
        assert_eq!(expected, recovery.last.0 + 1, "{context}");
        Ok(())
    }
}

/// Opens the log and checks it.
pub(super) fn reopen(disk: &CrashDisk, model: &mut Model, context: &str) -> Result<Log, WalError> {
    let (log, recovery) = Log::open(Arc::new(disk.clone()), DIR, ID, model.options())?;
    model.check(&log, &recovery, context)?;
    Ok(log)
}

/// Runs the load of a seed, every third at the level `none`: single records and groups, syncs, removals, reopenings. `Err` is the
/// first error; whatever it was, the model knows what has to be there.
pub(super) fn run(seed: u64, disk: &CrashDisk, model: &mut Model) -> Result<(), WalError> {
    model.level = if seed % 3 == 2 { Level::None } else { Level::Sync };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = Some(Log::create(shared, DIR, ID, Seq(1), model.options())?);
    steps(seed, 24, disk, &mut log, model)?;
    // A log whose last mark failed refuses this.
    model.submit(&log.expect("the last one"), 1).map(drop)
}

/// Some more of it, on a log that is open.
pub(super) fn steps(
    seed: u64,
    count: usize,
    disk: &CrashDisk,
    slot: &mut Option<Log>,
    model: &mut Model,
) -> Result<(), WalError> {
    let mut random = Random::new(seed);
    for _ in 0..count {
        let log = slot.as_ref().expect("a log is open between steps");
        match random.below(10) {
            0..=4 => {
                let ticket = model.submit(log, random.below(900))?;
                model.waited(log, ticket, random.below(4) == 0)?;
            }
            5..=7 => {
                let group = 2 + random.below(5);
                let tickets = (0..group).map(|_| model.submit(log, random.below(1500)));
                let last = tickets.collect::<Result<Vec<_>, _>>()?.pop().expect("a group");
                model.waited(log, last, random.below(4) == 0)?;
            }
            8 => {
                let seq = log.durable();
                model.needed_from = model.needed_from.max(seq.0);
                log.truncate_before(seq)?;
            }
            _ => {
                // What is submitted and not waited for may be lost.
                let _ = model.submit(log, 40)?;
                *slot = None;
                *slot = Some(reopen(disk, model, &format!("seed {seed}, reopened"))?);
            }
        }
    }
    Ok(())
}
