//! Finds the end of a log that was left behind, and makes it safe to go on.
//!
//! Only the last segment can be torn. Behind its last mark may stand records of which it is not
//! known whether they are on stable storage: they can be read, but perhaps from a page that a
//! failed sync never wrote. They are copied into a new segment that begins with the first of
//! them, which is durable before anybody sees them; a torn tail stays behind in the old one.

use std::path::PathBuf;

use super::error::{FrameProblem, WalError};
use super::frame::MARK_BYTES;
use super::log_id::LogId;
use super::salt::Salt;
use super::scan::{Scan, Scanned};
use super::segment::{self, Segment};
use crate::disk::{AppendFile, Disk, DiskError};
use crate::ids::Seq;

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// The rest of a write that a crash interrupted, behind the last whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub path: PathBuf,
    /// Where the tail begins.
    pub offset: u64,
    /// Its length. What was in it had not been acknowledged at a level that syncs.
    pub bytes: u64,
    /// Number that the torn record had; the next one written gets it anew.
    pub expected: Seq,
    /// Why no record could be read there.
    pub problem: FrameProblem,
}

/// What opening a log found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// First record that is there; one after `last` where the log is empty.
    pub first: Seq,
    /// Last record that is there.
    pub last: Seq,
    /// Records that were written anew, because no sync was known for them.
    pub rewritten: u64,
    /// What was left behind, if anything was.
    pub torn: Option<TornTail>,
    /// Why the log can only be read: there was no room to write anew what no sync is known for.
    pub read_only: Option<DiskError>,
}

/// The end of a log.
#[derive(Debug)]
pub(super) struct LogTail {
    /// First record that no mark vouches for, and the checksum of the one before it.
    pub(super) loose: Seq,
    loose_previous: u64,
    /// Where the frames of such records stand.
    loose_from: u64,
    loose_to: u64,
    /// One after the last record.
    pub(super) next: Seq,
    /// Frame checksum of the last record.
    pub(super) previous: u64,
    pub(super) torn: Option<TornTail>,
}

impl LogTail {
    /// Bytes of the frames that no mark vouches for.
    pub(super) fn loose_bytes(&self) -> u64 {
        self.loose_to - self.loose_from
    }

    /// Bytes of the segment up to the end of its last record, or of a mark behind it.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.loose_to
    }
}

/// Reads the last segment to its end. Changes nothing.
pub(super) fn find_tail(disk: &dyn Disk, id: LogId, last: &Segment) -> Result<LogTail, WalError> {
    let mut scan = Scan::new(disk, id, last)?;
    let mut tail = LogTail {
        loose: scan.expected(),
        loose_previous: scan.previous(),
        loose_from: scan.offset(),
        loose_to: scan.offset(),
        next: scan.expected(),
        previous: scan.previous(),
        torn: None,
    };
    loop {
        match scan.pass()? {
            Scanned::Record(_) => tail.loose_to = scan.offset(),
            Scanned::Mark => {
                (tail.loose, tail.loose_previous) = (scan.expected(), scan.previous());
                (tail.loose_from, tail.loose_to) = (scan.offset(), scan.offset());
            }
            Scanned::End => break,
            Scanned::Bad(problem) => {
                let intact = matches!(problem, FrameProblem::Misplaced { .. });
                if intact || scan.is_vouched_for()? {
                    return Err(scan.corrupt(problem));
                }
                tail.torn = Some(TornTail {
                    path: disk.locate(&last.path),
                    offset: scan.offset(),
                    bytes: scan.left(),
                    expected: scan.expected(),
                    problem,
                });
                break;
            }
        }
    }
    (tail.next, tail.previous) = (scan.expected(), scan.previous());
    Ok(tail)
}

/// A segment that continues another.
pub(super) struct Successor {
    pub(super) segment: Segment,
    pub(super) file: Box<dyn AppendFile>,
    pub(super) salt: Salt,
}

/// The segment that takes over from `last`, with the loose records of `tail` in it; `None`
/// where all is marked and whole. Changes nothing until it succeeds.
pub(super) fn take_over(
    disk: &dyn Disk,
    dir: &str,
    id: LogId,
    last: &Segment,
    tail: &LogTail,
) -> Result<Option<Successor>, DiskError> {
    if tail.loose == tail.next && tail.torn.is_none() {
        return Ok(None);
    }
    let segment = Segment {
        path: segment::path(dir, tail.loose),
        first: tail.loose,
        previous: tail.loose_previous,
    };
    let (file, salt) = segment::create(disk, dir, id, &segment, |file| {
        file.reserve(tail.loose_bytes() + MARK_BYTES)?;
        let from = disk.open(&last.path)?;
        let mut at = tail.loose_from;
        let mut bytes = Vec::new();
        while at < tail.loose_to {
            bytes.resize(COPY_BYTES.min((tail.loose_to - at) as usize), 0);
            let read = from.read_at(at, &mut bytes)?;
            assert!(read > 0, "nobody shortens a segment while its directory is locked");
            file.append(&bytes[..read])?;
            at += read as u64;
        }
        Ok(())
    })?;
    Ok(Some(Successor { segment, file, salt }))
}
