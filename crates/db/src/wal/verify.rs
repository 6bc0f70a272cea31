//! Reads a whole log without changing it: for checks, and for readers beside a writer.

use std::sync::Arc;

use super::error::WalError;
use super::log_id::LogId;
use super::recovery::{TornTail, find_tail};
use super::replay::Replay;
use super::segment;
use crate::disk::Disk;
use crate::ids::Seq;

/// A log of which every record was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of segment files.
    pub segments: usize,
    /// First record; one after `last` where the log is empty.
    pub first: Seq,
    /// Last record.
    pub last: Seq,
    /// Number of records.
    pub records: u64,
    /// The rest of an interrupted write; beside a writer, perhaps one that is under way.
    pub torn: Option<TornTail>,
}

/// Reads the log in `dir` from its first record to its last, payloads included.
///
/// # Errors
/// [`WalError`] for the first thing that is wrong, with its file and offset.
pub fn verify(disk: &Arc<dyn Disk>, dir: &str, id: LogId) -> Result<Verified, WalError> {
    let segments = segment::list(&**disk, dir, id)?;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(WalError::NoLog { dir: disk.locate(dir) });
    };
    let tail = find_tail(&**disk, id, last)?;
    let (count, first) = (segments.len(), first.first);
    // Every log begins with record 1 or later, so there is a number before the next.
    let last = Seq(tail.next.0 - 1);
    let mut records = 0;
    for record in Replay::new(disk.clone(), id, segments, first, last) {
        record?.decode()?;
        records += 1;
    }
    Ok(Verified { segments: count, first, last, records, torn: tail.torn })
}
