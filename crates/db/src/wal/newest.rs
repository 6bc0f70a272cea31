//! The file `NEWEST`: where the log ended, so that the loss of its end is noticed.
//!
//! A log whose last segments are gone, or whose last segment is cut, looks like one that ends earlier.
//! This file names the first record of the newest segment, and the last record that was certainly on
//! stable storage: it is written behind each new segment, and when a log is closed. It is a safeguard
//! and no part of the log: one that is older than the segments, missing or damaged says nothing, and
//! where it cannot be written the log goes on.

use super::error::WalError;
use super::log_id::LogId;
use super::segment::{self, Segment};
use crate::disk::{Disk, read_file, replace_file};
use crate::ids::Seq;

/// Name of the file in the directory of the log.
const NEWEST_NAME: &str = "NEWEST";
/// First seq, last seq (8 bytes each), and the checksum of both, exclusive or that of the uuid.
const NEWEST_BYTES: usize = 24;
/// What was written before there was a last seq: without it.
const FORMER_BYTES: usize = 16;

fn encode(id: LogId, numbers: &[Seq]) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|seq| seq.0.to_le_bytes()).collect();
    let checksum = crc_fast::crc64_nvme(&bytes) ^ crc_fast::crc64_nvme(&id.0);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Notes that the segment with this first record is the newest, and durable, as are all records up to
/// the last.
pub(super) fn note(disk: &dyn Disk, dir: &str, id: LogId, (first, last): (Seq, Seq)) {
    let path = format!("{dir}/{NEWEST_NAME}");
    if let Err(error) = replace_file(disk, &path, &encode(id, &[first, last])) {
        tracing::warn!("the end of the log is not noted: {error}");
    }
}

/// Compares the note with the segments that are there, and returns the last record that was there.
///
/// # Errors
/// [`WalError::Missing`] where the newest one is not; a failed read.
pub(super) fn check(
    disk: &dyn Disk,
    dir: &str,
    id: LogId,
    segments: &[Segment],
) -> Result<Seq, WalError> {
    let path = format!("{dir}/{NEWEST_NAME}");
    let bytes = match read_file(disk, &path, NEWEST_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() || error.action().is_none() => return Ok(Seq(0)),
        Err(error) => return Err(error.into()),
    };
    let number = |at: usize| {
        let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
        Seq(number.copied().map_or(0, u64::from_le_bytes))
    };
    let numbers = match bytes.len() {
        NEWEST_BYTES => vec![number(0), number(8)],
        FORMER_BYTES => vec![number(0)],
        _ => return Ok(Seq(0)),
    };
    if bytes != encode(id, &numbers) {
        tracing::warn!(file = %disk.locate(&path).display(), "damaged, and not looked at");
        return Ok(Seq(0));
    }
    let first = numbers[0];
    if segments.last().is_none_or(|last| last.first < first) {
        return Err(WalError::Missing { path: disk.locate(&segment::path(dir, first)) });
    }
    Ok(numbers.get(1).copied().unwrap_or_default())
}
