//! Walks the frames of one segment, from front to back, and checks each.
//!
//! A walk says what it found and judges nothing: whether a bad frame is a torn tail or damage
//! depends on what stands behind it and on who asks.

use std::path::PathBuf;

use super::constants::{
    FRAME_ALIGNMENT, KIND_MARK, MAX_PAYLOAD_BYTES, frame_header, segment_header,
};
use super::error::{FrameProblem, WalError};
use super::frame::{FrameHeader, frame_bytes};
use super::log_id::LogId;
use super::log_record::LogRecord;
use super::record::RecordKind;
use super::salt::Salt;
use super::segment::Segment;
use crate::disk::{Disk, DiskError, ReadFile};
use crate::ids::Seq;

/// Bytes read at once; a longer frame is read whole.
const WINDOW_BYTES: usize = 256 << 10;

/// What stands at one place of a segment.
#[derive(Debug)]
pub(super) enum Scanned {
    /// The record that comes next.
    Record(LogRecord),
    /// All records before this place were synced.
    Mark,
    /// The file ends where a frame would begin.
    End,
    /// No frame that belongs here. The walk goes no further.
    Bad(FrameProblem),
}

/// A walk over a segment.
#[derive(Debug)]
pub(super) struct Scan {
    file: Box<dyn ReadFile>,
    /// For messages.
    path: PathBuf,
    id: LogId,
    bytes: u64,
    /// Where the next frame begins.
    at: u64,
    /// The record that comes next, and the checksum of the one before it.
    expected: Seq,
    previous: u64,
    /// Of the segment's marks, if it begins with one; earlier versions made segments without.
    salt: Option<Salt>,
    window: Vec<u8>,
    window_at: u64,
}

impl Scan {
    /// A walk from the segment's first frame to the end that its file has now.
    pub(super) fn new(disk: &dyn Disk, id: LogId, segment: &Segment) -> Result<Self, DiskError> {
        let file = disk.open(&segment.path)?;
        Ok(Self {
            bytes: file.bytes()?,
            file,
            path: disk.locate(&segment.path),
            id,
            at: segment_header::BYTES as u64,
            expected: segment.first,
            previous: segment.previous,
            salt: None,
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// Where the next frame begins.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }

    /// Bytes from there to the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.at)
    }

    /// The number of the record that comes next.
    pub(super) fn expected(&self) -> Seq {
        self.expected
    }

    /// Frame checksum of the record before the next.
    pub(super) fn previous(&self) -> u64 {
        self.previous
    }

    /// The error for a bad frame here that cannot be a torn tail.
    pub(super) fn corrupt(&self, problem: FrameProblem) -> WalError {
        let (path, expected) = (self.path.clone(), self.expected);
        WalError::Corrupt { path, offset: self.at, expected, problem }
    }

    /// The next frame.
    pub(super) fn next(&mut self) -> Result<Scanned, WalError> {
        self.frame(<[u8]>::to_vec)
    }

    /// The next frame, checked as by [`next`](Self::next); a record comes without its payload.
    pub(super) fn pass(&mut self) -> Result<Scanned, WalError> {
        self.frame(|_| Vec::new())
    }

    fn frame(&mut self, keep: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Scanned, WalError> {
        if self.left() == 0 {
            return Ok(Scanned::End);
        }
        let header = match self.header_at(self.at)? {
            Ok(header) => header,
            Err(problem) => return Ok(Scanned::Bad(problem)),
        };
        let (known, seq) = (RecordKind::from_number(header.kind), header.seq);
        if (known.is_none() && header.kind != KIND_MARK) || header.flags != 0 {
            let (path, offset) = (self.path.clone(), self.at);
            let (kind, flags) = (header.kind, header.flags);
            return Err(WalError::UnknownKind { path, offset, seq, kind, flags });
        }
        // A mark vouches for the record before; the first record of a log has number 1 or more.
        let due = if known.is_some() { self.expected } else { Seq(self.expected.0 - 1) };
        if seq != due || header.previous != self.previous {
            return Ok(Scanned::Bad(FrameProblem::Misplaced { found: seq }));
        }
        let (payload_bytes, whole) =
            (header.payload_bytes as usize, frame_bytes(header.payload_bytes));
        if whole > self.left() || payload_bytes > MAX_PAYLOAD_BYTES {
            return Ok(Scanned::Bad(FrameProblem::CutOff {
                missing: whole - whole.min(self.left()),
            }));
        }
        let is_first = self.at == segment_header::BYTES as u64;
        let rest = self.read(self.at, whole as usize)?;
        let Some(rest) = rest.get(frame_header::BYTES..).filter(|r| r.len() >= payload_bytes)
        else {
            // The file became shorter while it was read.
            return Ok(Scanned::Bad(FrameProblem::CutOff { missing: whole }));
        };
        if let Err(problem) = header.check_payload(rest) {
            return Ok(Scanned::Bad(problem));
        }
        let payload = || keep(&rest[..payload_bytes]);
        let record = known.map(|kind| LogRecord { seq, kind, payload: payload() });
        if is_first && record.is_none() {
            self.salt = Salt::of(&rest[..payload_bytes]);
        }
        self.at += whole;
        Ok(match record {
            None => Scanned::Mark,
            Some(record) => {
                self.expected = seq.next();
                self.previous = header.checksum;
                Scanned::Record(record)
            }
        })
    }

    /// Whether a mark behind this place vouches for the record that should stand here.
    pub(super) fn is_vouched_for(&mut self) -> Result<bool, WalError> {
        let (mut at, mut due, mut previous) = (self.at, self.expected, self.previous);
        // Where headers are whole and in their places, what lies between them is payload, and no
        // mark stands there, whatever it looks like.
        while let Ok(header) = self.header_at(at)?
            && header.previous == previous
        {
            if header.kind == KIND_MARK && header.seq.0 == due.0 - 1 {
                if header.seq >= self.expected {
                    return Ok(true);
                }
            } else if header.kind != KIND_MARK && header.seq == due {
                (due, previous) = (due.next(), header.checksum);
            } else {
                break;
            }
            at += frame_bytes(header.payload_bytes);
        }
        // How long the payload behind a torn header is nobody knows. Only the salt tells the marks
        // behind it from bytes of the payload.
        while at + frame_header::BYTES as u64 <= self.bytes {
            if let Ok(header) = self.header_at(at)?
                && header.kind == KIND_MARK
                && header.seq >= self.expected
                && self.is_salted(at, &header)?
            {
                return Ok(true);
            }
            at += FRAME_ALIGNMENT as u64;
        }
        Ok(false)
    }

    /// Whether the mark at this place has the salt of the segment.
    fn is_salted(&mut self, at: u64, mark: &FrameHeader) -> Result<bool, WalError> {
        let Some(salt) = self.salt else { return Ok(true) };
        // Whatever length a client's bytes give, no more than a salt is read.
        let payload = self.read(at + frame_header::BYTES as u64, salt.bytes().len())?;
        Ok(payload == salt.bytes() && mark.payload_bytes as usize == payload.len())
    }

    fn header_at(&mut self, at: u64) -> Result<Result<FrameHeader, FrameProblem>, WalError> {
        let id = self.id;
        let bytes = self.read(at, frame_header::BYTES)?;
        Ok(match bytes.first_chunk() {
            Some(header) => FrameHeader::decode(header, id),
            None => {
                let missing = (frame_header::BYTES - bytes.len()) as u64;
                Err(FrameProblem::CutOff { missing })
            }
        })
    }

    /// `bytes` bytes from `at`, fewer where the file ends.
    fn read(&mut self, at: u64, bytes: usize) -> Result<&[u8], WalError> {
        let within =
            at >= self.window_at && at + bytes as u64 <= self.window_at + self.window.len() as u64;
        if !within {
            let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(bytes.max(WINDOW_BYTES).min(left), 0);
            let read = self.file.read_at(at, &mut self.window)?;
            self.window.truncate(read);
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        let to = (from + bytes).min(self.window.len());
        Ok(&self.window[from..to])
    }
}
