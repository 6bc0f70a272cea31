//! Where a log ends, read beside whoever writes it.

use super::constants::SEGMENT_SUFFIX;
use super::error::WalError;
use super::log_id::LogId;
use super::recovery::find_tail;
use super::segment;
use crate::disk::{Disk, DiskError};
use crate::ids::Seq;

/// The last whole record of a log, and how much of its last segment leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last whole record; one before the first where the log is empty. Beside a writer it may
    /// be one whose answer is on its way.
    pub last: Seq,
    /// Name of the last segment.
    pub segment: String,
    /// Bytes of the last segment up to the end of that record, or of a mark behind it.
    pub bytes: u64,
}

/// Names of all segments of the log in `dir`, oldest first.
///
/// # Errors
/// [`DiskError`].
pub fn segment_names(disk: &dyn Disk, dir: &str) -> Result<Vec<String>, DiskError> {
    let entries = disk.list(dir)?.into_iter();
    let segments = entries.filter(|entry| !entry.is_dir && entry.name.ends_with(SEGMENT_SUFFIX));
    Ok(segments.map(|entry| entry.name).collect())
}

/// Finds the end of the log in `dir`, whose last segment is read. Changes nothing.
///
/// # Errors
/// [`WalError`]: no log, one of another collection, or a damaged last segment.
pub fn find_end(disk: &dyn Disk, dir: &str, id: LogId) -> Result<LogEnd, WalError> {
    let segments = segment::list(disk, dir, id)?;
    let Some(last) = segments.last() else {
        return Err(WalError::NoLog { dir: disk.locate(dir) });
    };
    let tail = find_tail(disk, id, last)?;
    let name = last.path.rsplit_once('/').map_or(last.path.as_str(), |(_, name)| name);
    // Every log begins with record 1 or later, so there is a number before the next.
    Ok(LogEnd { last: Seq(tail.next.0 - 1), segment: name.to_owned(), bytes: tail.whole_bytes() })
}
