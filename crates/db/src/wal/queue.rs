//! Records that were submitted and wait to be written, and how far the disk has come.

use super::error::CommitFailure;
use super::frame::{self, FrameParts};
use super::log_id::LogId;
use super::record::RecordKind;
use super::writer::FrameChunk;
use crate::ids::Seq;

/// Invariant: `written <= last`, and `frames` holds the records after `taken` up to `last`,
/// where `taken` is what a leader has taken to write.
#[derive(Debug)]
pub(super) struct CommitQueue {
    id: LogId,
    /// Last record submitted, and its checksum.
    pub(super) last: Seq,
    last_checksum: u64,
    /// Last record taken, and its checksum.
    taken: Seq,
    taken_checksum: u64,
    frames: Vec<u8>,
    /// Bytes of the disk that all records submitted since the log was opened take at most, and those
    /// that it has kept room for.
    pub(super) asked: u64,
    pub(super) kept: u64,
    /// Kept from the last chunk where others come meanwhile, to spare an allocation.
    spare: Vec<u8>,
    /// Last record handed to the system.
    pub(super) written: Seq,
    /// Last record on stable storage.
    pub(super) durable: Seq,
    /// Whether a thread is writing, or waiting for others to join.
    pub(super) leading: bool,
    /// Why nothing is written any more.
    pub(super) failed: Option<CommitFailure>,
    /// What is submitted was taken from the log that servers share.
    pub(super) follows: bool,
}

/// A large buffer is not kept.
const MAX_SPARE_BYTES: usize = 4 << 20;

impl CommitQueue {
    /// The queue of a log whose last record is `last`.
    pub(super) fn new(id: LogId, last: Seq, last_checksum: u64) -> Self {
        Self {
            id,
            last,
            last_checksum,
            taken: last,
            taken_checksum: last_checksum,
            frames: Vec::new(),
            asked: 0,
            kept: 0,
            spare: Vec::new(),
            written: last,
            durable: last,
            leading: false,
            failed: None,
            follows: false,
        }
    }

    /// Bytes of the disk that are needed with one more record.
    pub(super) fn asked_with(&self, payload_bytes: usize) -> u64 {
        self.asked + frame::record_bytes(payload_bytes as u32)
    }

    /// Gives a record its number and queues its frame. The disk has kept room for it.
    pub(super) fn push(&mut self, kind: RecordKind, payload: &[u8], payload_checksum: u64) -> Seq {
        self.asked = self.asked_with(payload.len());
        debug_assert!(self.asked <= self.kept, "submitters see to it");
        let (seq, previous) = (self.last.next(), self.last_checksum);
        let parts = FrameParts { kind: kind.number(), seq, previous, payload_checksum };
        self.last_checksum = frame::push_frame(&mut self.frames, self.id, &parts, payload);
        self.last = seq;
        seq
    }

    /// Bytes of the frames that nobody has taken.
    pub(super) fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// Takes all frames, if there are any.
    pub(super) fn take(&mut self) -> Option<FrameChunk> {
        if self.frames.is_empty() {
            return None;
        }
        let frames = std::mem::replace(&mut self.frames, std::mem::take(&mut self.spare));
        let chunk = FrameChunk {
            frames,
            first: self.taken.next(),
            previous: self.taken_checksum,
            last: self.last,
            last_checksum: self.last_checksum,
            asked: self.asked,
        };
        (self.taken, self.taken_checksum) = (self.last, self.last_checksum);
        Some(chunk)
    }

    /// Forgets what was submitted and is not written, as if it had never been.
    pub(super) fn forget_unwritten(&mut self, written_checksum: u64) {
        self.frames.clear();
        (self.last, self.last_checksum) = (self.written, written_checksum);
        (self.taken, self.taken_checksum) = (self.written, written_checksum);
        self.failed = None;
    }

    /// Takes a written chunk's buffer back. A log that rests keeps none: a database has many.
    pub(super) fn give_back(&mut self, chunk: Option<FrameChunk>) {
        if let Some(FrameChunk { mut frames, .. }) = chunk
            && frames.capacity() <= MAX_SPARE_BYTES
            && !self.frames.is_empty()
        {
            frames.clear();
            self.spare = frames;
        }
    }
}
