//! Segment files: their names, their headers, and how they come into being.
//!
//! A segment is written under a temporary name, synced, and renamed: under its own name it has
//! a whole header always, and replaces one of the same name that holds no record anybody needs.
//! The header is followed by a mark, for the records before it: the place where the salt of the
//! segment's marks is found, whatever becomes of what stands behind.

use std::path::PathBuf;

use super::constants::{
    ByteField, SEGMENT_MAGIC, SEGMENT_SUFFIX, SEGMENT_VERSION, segment_header as at,
};
use super::error::WalError;
use super::frame;
use super::log_id::LogId;
use super::salt::Salt;
use crate::disk::{AppendFile, Disk, DiskError, TEMPORARY_SUFFIX};
use crate::ids::Seq;

/// A segment whose header was found in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Path in the disk.
    pub(super) path: String,
    pub(super) first: Seq,
    /// Frame checksum of the record before the first.
    pub(super) previous: u64,
}

/// The path of the segment whose first record is `first`.
pub(super) fn path(dir: &str, first: Seq) -> String {
    format!("{dir}/{:020}{SEGMENT_SUFFIX}", first.0)
}

/// The first record of the segment with this name; `None` where it is no segment's name.
fn first_of(name: &str) -> Option<Seq> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok().filter(|first| *first > 0).map(Seq)).flatten()
}

pub(super) fn encode_header(id: LogId, first: Seq, previous: u64) -> [u8; at::BYTES] {
    let mut header = [0; at::BYTES];
    let mut put = |field: ByteField, value: &[u8]| {
        header[field.offset..field.offset + field.bytes].copy_from_slice(value);
    };
    put(at::MAGIC, &SEGMENT_MAGIC);
    put(at::VERSION, &SEGMENT_VERSION.to_le_bytes());
    put(at::UUID, &id.0);
    put(at::FIRST_SEQ, &first.0.to_le_bytes());
    put(at::PREVIOUS, &previous.to_le_bytes());
    let checksum = crc_fast::crc64_nvme(&header[..at::CHECKSUM.offset]);
    header[at::CHECKSUM.offset..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads the header of the file `path`, whose name promises `first`, as one of the log `id`.
pub(super) fn decode_header(
    bytes: &[u8],
    path: PathBuf,
    id: LogId,
    first: Seq,
) -> Result<u64, WalError> {
    let Some(header) = bytes.first_chunk::<{ at::BYTES }>() else {
        return Err(WalError::Header { path });
    };
    let get = |field: ByteField| &header[field.offset..field.offset + field.bytes];
    let number = |field: ByteField| {
        get(field).iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let mut covered = [0; at::CHECKSUM.offset];
    covered.copy_from_slice(&header[..at::CHECKSUM.offset]);
    covered[at::MAGIC.offset..][..at::MAGIC.bytes].copy_from_slice(&SEGMENT_MAGIC);
    let is_whole = number(at::CHECKSUM) == crc_fast::crc64_nvme(&covered);
    // Where all but the first bytes is in order, it was a segment and must not be moved away.
    if get(at::MAGIC) != SEGMENT_MAGIC && !is_whole {
        return Err(WalError::NotASegment { path, what: "its first bytes are others" });
    }
    if get(at::MAGIC) != SEGMENT_MAGIC || !is_whole {
        return Err(WalError::Header { path });
    }
    let version = number(at::VERSION) as u32;
    if version > SEGMENT_VERSION {
        return Err(WalError::NewerVersion { path, supported: SEGMENT_VERSION, found: version });
    }
    let mut found = LogId([0; 16]);
    found.0.copy_from_slice(get(at::UUID));
    if found != id {
        return Err(WalError::Foreign { path, expected: id, found });
    }
    let reserved = number(at::FLAGS) | number(at::RESERVED);
    if version == 0 || reserved != 0 {
        return Err(WalError::NotASegment { path, what: "its header has unknown fields" });
    }
    if number(at::FIRST_SEQ) != first.0 {
        return Err(WalError::NotASegment { path, what: "it was renamed: its header differs" });
    }
    Ok(number(at::PREVIOUS))
}

/// All segments of a log in order, their headers checked. What else lies in the directory is
/// left alone.
pub(super) fn list(disk: &dyn Disk, dir: &str, id: LogId) -> Result<Vec<Segment>, WalError> {
    let mut segments = Vec::new();
    for entry in disk.list(dir)? {
        if entry.is_dir || !entry.name.ends_with(SEGMENT_SUFFIX) {
            continue;
        }
        let path = format!("{dir}/{}", entry.name);
        let located = disk.locate(&path);
        let Some(first) = first_of(&entry.name) else {
            return Err(WalError::NotASegment { path: located, what: "its name has no number" });
        };
        let mut header = [0; at::BYTES];
        let read = disk.open(&path)?.read_at(0, &mut header)?;
        let previous = decode_header(&header[..read], located, id, first)?;
        segments.push(Segment { path, first, previous });
    }
    debug_assert!(segments.is_sorted_by_key(|s| s.first), "listed by name");
    Ok(segments)
}

/// Removes what interrupted creations left.
pub(super) fn remove_unfinished(disk: &dyn Disk, dir: &str) -> Result<(), DiskError> {
    let unfinished = format!("{SEGMENT_SUFFIX}{TEMPORARY_SUFFIX}");
    for entry in disk.list(dir)?.into_iter().filter(|e| e.name.ends_with(&unfinished)) {
        disk.remove(&format!("{dir}/{}", entry.name))?;
    }
    Ok(())
}

/// Creates a segment durably, with what `fill` does behind its header and its first mark. Until this
/// succeeds the log is as it was.
pub(super) fn create(
    disk: &dyn Disk,
    dir: &str,
    id: LogId,
    segment: &Segment,
    fill: impl FnOnce(&dyn AppendFile) -> Result<(), DiskError>,
) -> Result<(Box<dyn AppendFile>, Salt), DiskError> {
    let made = make(disk, id, segment, fill)?;
    disk.sync_dir(dir)?;
    Ok(made)
}

/// As [`create`], but for the sync of its name. Where it fails there is no such segment.
pub(super) fn make(
    disk: &dyn Disk,
    id: LogId,
    segment: &Segment,
    fill: impl FnOnce(&dyn AppendFile) -> Result<(), DiskError>,
) -> Result<(Box<dyn AppendFile>, Salt), DiskError> {
    let temporary = format!("{}{TEMPORARY_SUFFIX}", segment.path);
    let file = match disk.create(&temporary) {
        // Left by an attempt whose file could not be removed either.
        Err(DiskError::Exists { .. }) => {
            disk.remove(&temporary)?;
            disk.create(&temporary)?
        }
        file => file?,
    };
    let salt = Salt::new(disk.unforeseen());
    let mut start = encode_header(id, segment.first, segment.previous).to_vec();
    // Every log begins with record 1 or later.
    start.extend(frame::mark(id, Seq(segment.first.0 - 1), segment.previous, salt));
    let made = file
        .append(&start)
        .and_then(|()| fill(file.as_ref()))
        .and_then(|()| file.sync())
        .and_then(|()| disk.rename(&temporary, &segment.path));
    if let Err(error) = made {
        // What cannot be removed goes with the next attempt, or when the log is opened.
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    file.renamed(&disk.locate(&segment.path));
    Ok((file, salt))
}
