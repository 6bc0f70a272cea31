//! The file `NEWEST`: which segment was the last one, so that its loss is noticed.
//!
//! A log whose last segments are gone looks like one that ends earlier. This file names the first
//! record of the newest segment, and is written behind each new one. It is a safeguard and no part
//! of the log: one that is older than the segments, missing or damaged says nothing, and where it
//! cannot be written the log goes on.

use super::error::WalError;
use super::segment::{self, LogId, Segment};
use crate::disk::{Disk, read_file, replace_file};
use crate::ids::Seq;

/// Name of the file in the directory of the log.
const NEWEST_NAME: &str = "NEWEST";
/// First seq (8 bytes), and its checksum, exclusive or that of the uuid.
const NEWEST_BYTES: usize = 16;

fn encode(id: LogId, first: Seq) -> [u8; NEWEST_BYTES] {
    let number = first.0.to_le_bytes();
    let checksum = crc_fast::crc64_nvme(&number) ^ crc_fast::crc64_nvme(&id.0);
    let mut bytes = [0; NEWEST_BYTES];
    bytes[..8].copy_from_slice(&number);
    bytes[8..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Notes that the segment with this first record is the newest, and durable.
pub(super) fn note(disk: &dyn Disk, dir: &str, id: LogId, first: Seq) {
    let path = format!("{dir}/{NEWEST_NAME}");
    if let Err(error) = replace_file(disk, &path, &encode(id, first)) {
        tracing::warn!("the newest segment of the log is not noted: {error}");
    }
}

/// Compares the note with the segments that are there.
///
/// # Errors
/// [`WalError::Missing`] where the newest one is not; a failed read.
pub(super) fn check(
    disk: &dyn Disk,
    dir: &str,
    id: LogId,
    segments: &[Segment],
) -> Result<(), WalError> {
    let path = format!("{dir}/{NEWEST_NAME}");
    let bytes = match read_file(disk, &path, NEWEST_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() || error.action().is_none() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let Some(number) = bytes.first_chunk() else { return Ok(()) };
    let first = Seq(u64::from_le_bytes(*number));
    if bytes != encode(id, first) {
        tracing::warn!(file = %disk.locate(&path).display(), "damaged, and not looked at");
        return Ok(());
    }
    if segments.last().is_none_or(|last| last.first < first) {
        return Err(WalError::Missing { path: disk.locate(&segment::path(dir, first)) });
    }
    Ok(())
}
