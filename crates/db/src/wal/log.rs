//! The log that is open for writing: numbers are given out, and groups of records committed.
//!
//! There is no thread for it. Whoever waits for a record and finds nobody writing becomes the
//! leader: writes what everybody has submitted, syncs once, and wakes the others. What is
//! submitted meanwhile is the next leader's.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pipeann_engine::io::Errno;

use super::constants::MAX_PAYLOAD_BYTES;
use super::error::{CommitFailure, WalError};
use super::frame::payload_checksum;
use super::options::{Level, LogOptions};
use super::queue::CommitQueue;
use super::record::{PayloadTooLarge, Record, RecordKind};
use super::replay::Replay;
use super::shared_records::SharedRecords;
use super::writer::LogWriter;
use crate::disk::{Action, DiskError};
use crate::ids::Seq;
use crate::replication::{AppliedRequest, SharedLogError};

/// The write-ahead log of one collection. Shared between threads by reference. The caller holds
/// the directory's lock for as long as it is open.
///
/// Dropping it without [`close`](Self::close) loses nothing that was answered.
#[derive(Debug)]
pub struct Log {
    /// For messages.
    dir: PathBuf,
    options: LogOptions,
    queue: Mutex<CommitQueue>,
    /// Something was written, or a leader is gone.
    moved: Condvar,
    /// Something was submitted while a leader waits for others to join.
    joined: Condvar,
    writer: Mutex<LogWriter>,
    /// Of a collection that several servers have.
    pub(super) shared: Option<SharedRecords>,
}

/// A record that has its number and is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a record is on its way to the disk only when somebody waits for it"]
pub struct PendingCommit(Seq);

impl PendingCommit {
    /// The record's number.
    pub const fn seq(self) -> Seq {
        self.0
    }
}

/// What [`Log::truncate_before`] removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Number of segment files removed.
    pub segments: usize,
    /// First record that is still there.
    pub first: Seq,
}

/// How far a record has to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Written,
    Durable,
}

impl Log {
    /// A log that goes on behind what was written.
    pub(super) fn of(writer: LogWriter, options: LogOptions) -> Self {
        let mut queue = CommitQueue::new(writer.id, writer.written, writer.written_checksum);
        queue.durable = writer.durable;
        Self {
            dir: writer.disk.locate(&writer.dir),
            options,
            queue: Mutex::new(queue),
            moved: Condvar::new(),
            joined: Condvar::new(),
            writer: Mutex::new(writer),
            shared: None,
        }
    }

    /// Writes a record and returns its number when the level of the log allows to answer.
    ///
    /// # Errors
    /// [`WalError::TooLarge`], and [`WalError::Disk`] on a full disk: nothing happened.
    /// [`WalError::Poisoned`]: whether it is in the log is unknown until the log is opened again.
    pub fn append(&self, record: &Record<'_>) -> Result<Seq, WalError> {
        self.wait(self.submit(record.kind(), &record.encode()?)?)
    }

    /// Gives a record its number and queues it. It is answered by [`wait`](Self::wait), and
    /// written at the latest together with the next record that somebody waits for. Callers that
    /// apply records in the order of their numbers submit under a lock of their own, and wait
    /// outside of it.
    ///
    /// # Errors
    /// [`WalError::TooLarge`], and [`WalError::Disk`] where the disk has no room for it: nothing
    /// happened, and the log takes records again when there is room. [`WalError::Poisoned`].
    pub fn submit(&self, kind: RecordKind, payload: &[u8]) -> Result<PendingCommit, WalError> {
        self.submit_for(kind, payload, None)
    }

    /// As [`submit`](Self::submit), for a request, which the log that servers share then has with it.
    ///
    /// # Errors
    /// As there.
    pub fn submit_for(
        &self,
        kind: RecordKind,
        payload: &[u8],
        request: Option<AppliedRequest>,
    ) -> Result<PendingCommit, WalError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(PayloadTooLarge { found: payload.len() as u64 }.into());
        }
        let checksum = payload_checksum(payload);
        let mut queue = self.queue();
        loop {
            if let Some(cause) = &queue.failed {
                return Err(WalError::Poisoned { cause: cause.clone() });
            }
            if queue.bytes() > 0 && queue.bytes() + payload.len() > self.options.queue_bytes {
                queue = self.advance(queue, Reach::Written, Duration::ZERO)?;
            } else if queue.asked_with(payload.len()) > queue.kept {
                queue = self.reserve(queue, payload.len())?;
            } else {
                break;
            }
        }
        let seq = queue.push(kind, payload, checksum);
        if let Some((shared, request)) = self.shared.as_ref().zip(request) {
            shared.made_for(seq, request);
        }
        if queue.leading {
            self.joined.notify_all();
        }
        Ok(PendingCommit(seq))
    }

    /// Keeps room on the disk for a record with so many bytes of payload. Who submits it next, and
    /// keeps others from submitting meanwhile, does not find the disk full.
    ///
    /// # Errors
    /// [`WalError::Disk`] where there is no room: nothing happened. [`WalError::Poisoned`].
    pub fn make_room(&self, payload_bytes: usize) -> Result<(), WalError> {
        let mut queue = self.queue();
        while queue.asked_with(payload_bytes) > queue.kept {
            queue = self.reserve(queue, payload_bytes)?;
        }
        Ok(())
    }

    /// Waits until a record may be answered at the level of the log; writes and syncs for all
    /// that wait, if nobody else does.
    ///
    /// # Errors
    /// [`WalError::Poisoned`]: whether it is in the log is unknown until the log is opened again.
    pub fn wait(&self, ticket: PendingCommit) -> Result<Seq, WalError> {
        let reach = match self.options.level {
            // The shared log has it for certain.
            _ if self.may_answer_before_sync() => Reach::Written,
            Level::Sync | Level::Group { .. } => Reach::Durable,
            Level::None => Reach::Written,
        };
        self.reach(ticket.0, reach, self.options.level.delay())
    }

    /// Puts all that was submitted so far on stable storage, whatever the level, and returns the
    /// last record of it.
    ///
    /// # Errors
    /// [`WalError::Poisoned`].
    pub fn sync(&self) -> Result<Seq, WalError> {
        let last = self.queue().last;
        self.sync_through(last)
    }

    /// As [`sync`](Self::sync), of what was submitted up to here. What is forgotten meanwhile, since this
    /// server leads no more, is not waited for.
    pub(super) fn sync_through(&self, last: Seq) -> Result<Seq, WalError> {
        let mut queue = self.queue();
        while queue.durable < last.min(queue.last) {
            queue = self.advance(queue, Reach::Durable, Duration::ZERO)?;
        }
        Ok(last.min(queue.last))
    }

    /// Syncs and ends the log.
    ///
    /// # Errors
    /// [`WalError::Poisoned`]. What was acknowledged at a level that syncs is safe nevertheless.
    pub fn close(self) -> Result<(), WalError> {
        self.sync()?;
        self.note_end();
        Ok(())
    }

    /// Notes where the log ends, as far as it is on stable storage, so that a loss of its end is
    /// noticed. For a log that is not written to any more.
    pub fn note_end(&self) {
        self.writer().note_end();
    }

    /// The last record that is on stable storage. State derived from the log includes no later
    /// one durably, or a power cut leaves it ahead of the log.
    pub fn durable(&self) -> Seq {
        self.queue().durable
    }

    /// The first record that is still there, or the first to come.
    pub fn first(&self) -> Seq {
        self.writer().segments[0].first
    }

    /// The last record that was given a number.
    pub fn last(&self) -> Seq {
        self.queue().last
    }

    /// The records from `from` to the last that is written now, while the log goes on. Removing
    /// segments meanwhile may end it with `NotFound`.
    ///
    /// # Errors
    /// [`WalError::BeforeStart`] where `from` has been removed; [`WalError::AfterEnd`] where even
    /// the record before it is not there, so that the caller is ahead of the log.
    pub fn replay(&self, from: Seq) -> Result<Replay, WalError> {
        let last = self.queue().written;
        let writer = self.writer();
        let first = writer.segments[0].first;
        if from < first {
            return Err(WalError::BeforeStart { dir: self.dir.clone(), first, asked: from });
        }
        if from > last.next() {
            return Err(WalError::AfterEnd { dir: self.dir.clone(), last, asked: from });
        }
        Ok(Replay::new(writer.disk.clone(), writer.id, writer.segments.clone(), from, last))
    }

    /// Removes the segments that hold no record from `seq` on: all components have applied the
    /// records before it, durably. The last segment stays. Waits for a write that is under way.
    ///
    /// # Errors
    /// [`WalError::Disk`]; some of the oldest segments may be gone, the log goes on.
    pub fn truncate_before(&self, seq: Seq) -> Result<Truncated, WalError> {
        let mut writer = self.writer();
        let mut removed = 0;
        while writer.segments.get(1).is_some_and(|next| next.first <= seq) {
            match writer.disk.remove(&writer.segments[0].path) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
            // One by one, or a power cut could leave a gap.
            writer.disk.sync_dir(&writer.dir)?;
            writer.segments.remove(0);
            removed += 1;
        }
        Ok(Truncated { segments: removed, first: writer.segments[0].first })
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, CommitQueue> {
        self.queue.lock().expect("nothing that can panic runs under the queue's lock")
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, LogWriter> {
        self.writer.lock().expect("after a panic of a disk the log is not usable")
    }

    fn reach(&self, seq: Seq, reach: Reach, delay: Duration) -> Result<Seq, WalError> {
        let mut queue = self.queue();
        loop {
            let reached = match reach {
                Reach::Written => queue.written,
                Reach::Durable => queue.durable,
            };
            if reached >= seq {
                return Ok(seq);
            }
            queue = self.advance(queue, reach, delay)?;
        }
    }

    /// The queue, when nobody writes.
    pub(super) fn queue_at_rest(&self) -> MutexGuard<'_, CommitQueue> {
        let queue = self.queue();
        self.moved.wait_while(queue, |queue| queue.leading).expect("see `queue`")
    }

    /// Waits for the leader, or leads one commit, waiting up to `delay` for others to join.
    fn advance<'a>(
        &'a self,
        queue: MutexGuard<'a, CommitQueue>,
        reach: Reach,
        delay: Duration,
    ) -> Result<MutexGuard<'a, CommitQueue>, WalError> {
        self.lead(queue, |mut queue| {
            if !delay.is_zero() {
                let full = self.options.queue_bytes / 2;
                let wait = self.joined.wait_timeout_while(queue, delay, |q| q.bytes() < full);
                queue = wait.expect("see `queue`").0;
            }
            let chunk = queue.take();
            let shared = self.shared.as_ref().filter(|_| !queue.follows).zip(chunk.as_ref());
            drop(queue);
            let share = || shared.map_or(Ok(()), |(shared, chunk)| shared.append(&chunk.frames));
            self.write(share, |writer| {
                let sync = reach == Reach::Durable;
                writer.commit(chunk.as_ref(), sync)?;
                if sync {
                    // The records are safe whether the mark gets there or not, so they are answered.
                    writer.mark()?;
                }
                writer.reserve_ahead();
                Ok(())
            });
            let mut queue = self.queue();
            queue.give_back(chunk);
            Ok(queue)
        })
    }

    /// Waits for the leader, or leads while room is kept for one more record.
    fn reserve<'a>(
        &'a self,
        queue: MutexGuard<'a, CommitQueue>,
        payload_bytes: usize,
    ) -> Result<MutexGuard<'a, CommitQueue>, WalError> {
        self.lead(queue, |queue| {
            let asked = queue.asked_with(payload_bytes);
            drop(queue);
            let mut full = None;
            self.write(
                || Ok(()),
                |writer| match writer.reserve(asked) {
                    Err(error @ DiskError::NoSpace { .. }) => {
                        full = Some(error);
                        Ok(())
                    }
                    reserved => reserved,
                },
            );
            full.map_or_else(|| Ok(self.queue()), |full| Err(full.into()))
        })
    }

    /// Waits for the leader, or does `work` as the leader, who has to [`write`](Self::write).
    fn lead<'a>(
        &'a self,
        mut queue: MutexGuard<'a, CommitQueue>,
        work: impl FnOnce(MutexGuard<'a, CommitQueue>) -> Result<MutexGuard<'a, CommitQueue>, WalError>,
    ) -> Result<MutexGuard<'a, CommitQueue>, WalError> {
        if let Some(cause) = &queue.failed {
            return Err(WalError::Poisoned { cause: cause.clone() });
        }
        if queue.leading {
            return Ok(self.moved.wait(queue).expect("see `queue`"));
        }
        queue.leading = true;
        work(queue)
    }

    /// Lets the leader do something with the disk, and tells the others how far it has come. `before`
    /// is done first, while the disk may be read; where it fails, nothing is done with the disk.
    fn write(
        &self,
        before: impl FnOnce() -> Result<(), SharedLogError>,
        work: impl FnOnce(&mut LogWriter) -> Result<(), DiskError>,
    ) {
        let mut leader = Leader { log: self, outcome: None };
        let before = before();
        let mut writer = self.writer();
        let failed = match before {
            Ok(()) => work(&mut writer).err().map(CommitFailure::Disk),
            Err(error) => Some(CommitFailure::Shared(error)),
        };
        let (written, durable, kept) = (writer.written, writer.durable, writer.kept);
        drop(writer);
        leader.outcome = Some(CommitOutcome { written, durable, kept, failed });
    }
}

/// How a commit ended.
struct CommitOutcome {
    written: Seq,
    durable: Seq,
    kept: u64,
    failed: Option<CommitFailure>,
}

/// Tells the others when a commit has ended, also by a panic in the disk.
struct Leader<'a> {
    log: &'a Log,
    outcome: Option<CommitOutcome>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut queue = self.log.queue();
        queue.leading = false;
        match self.outcome.take() {
            Some(outcome) => {
                (queue.written, queue.durable) = (outcome.written, outcome.durable);
                queue.kept = outcome.kept;
                queue.failed = outcome.failed;
            }
            None => {
                let errno = Errno(rustix::io::Errno::IO.raw_os_error());
                let path = self.log.dir.clone();
                let failed = DiskError::Io { action: Action::Append, path, errno };
                queue.failed = Some(CommitFailure::Disk(failed));
            }
        }
        if let (Some(CommitFailure::Disk(_)), Some(shared)) = (&queue.failed, &self.log.shared) {
            shared.count_stop();
        }
        self.log.moved.notify_all();
    }
}
