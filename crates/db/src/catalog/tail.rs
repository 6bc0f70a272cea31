//! What stands behind the catalogue in its file: changes since it was written, one frame each.
//!
//! A change is appended and synced before anybody sees it. Behind the sync a mark is appended, which
//! is synced with the next change: a bad frame before a mark is damage, and refused; a bad frame
//! behind the last mark is what a crash left of a change that was not answered. A file that was cut off
//! looks alike, so an opening and an end leave no changes behind the catalogue. Each frame names the
//! checksum of the change before it, and its own checksum covers that of the catalogue before all of
//! them, so that no frame of another file passes. `docs/database-format.md` has the byte table.

use super::delta::Delta;
use super::error::FileError;
use super::snapshot::Snapshot;
use crate::files::{ByteField, agrees, checksum, field, get, put, u32_at, u64_at};

/// First bytes of a frame.
pub const CHANGE_MAGIC: [u8; 4] = *b"PCF\x01";
/// Kind of a frame that holds a change.
pub const KIND_CHANGE: u32 = 1;
/// Kind of a frame that vouches for all changes before it.
pub const KIND_CHANGE_MARK: u32 = 2;

/// Start of a frame; the change as JSON and the checksum follow.
pub mod change_header {
    use super::{ByteField, field};

    /// [`super::CHANGE_MAGIC`].
    pub const MAGIC: ByteField = field("magic", 0, 4);
    /// [`super::KIND_CHANGE`] or [`super::KIND_CHANGE_MARK`].
    pub const KIND: ByteField = field("kind", 4, 4);
    /// Length of the change; 0 of a mark.
    pub const BODY_BYTES: ByteField = field("body bytes", 8, 8);
    /// Checksum of the change before, of a mark that of the last change; of the catalogue where
    /// there is none.
    pub const PREVIOUS: ByteField = field("previous", 16, 8);
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[MAGIC, KIND, BODY_BYTES, PREVIOUS];
    /// Width of the header.
    pub const BYTES: usize = 24;
}
use change_header as header;

/// Of all before it in the frame, exclusive or the checksum of the catalogue.
const CHECKSUM_BYTES: usize = 8;
/// Length of a mark.
const MARK_BYTES: usize = header::BYTES + CHECKSUM_BYTES;

/// Where in a file the next frame belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileTail {
    /// Checksum of the catalogue before all frames.
    seal: u64,
    /// Checksum of the last change, or the seal.
    previous: u64,
    /// Bytes of the catalogue.
    whole_bytes: u64,
    /// Bytes of all frames behind it.
    pub(super) bytes: u64,
}

/// Below this many bytes of changes the file is never written anew.
const LEAST_BYTES: u64 = 1 << 20;

impl FileTail {
    /// Behind a catalogue of this checksum and length.
    pub(super) fn behind(seal: u64, whole_bytes: usize) -> Self {
        Self { seal, previous: seal, whole_bytes: whole_bytes as u64, bytes: 0 }
    }

    /// Whether the catalogue is to be written anew rather than added to. The changes that come
    /// before it is are twice as long as it, so that over time a change costs half as much again
    /// as it is long, at most, where it only adds.
    pub(super) fn is_long(&self) -> bool {
        self.bytes > LEAST_BYTES.max(2 * self.whole_bytes)
    }

    /// The frame of a change, which then is the last one.
    pub(super) fn change(&mut self, delta: &Delta) -> Vec<u8> {
        let frame = self.frame(KIND_CHANGE, &delta.to_bytes());
        self.previous = checksum(&frame[..frame.len() - CHECKSUM_BYTES]) ^ self.seal;
        frame
    }

    /// The frame that vouches for what was written so far.
    pub(super) fn mark(&mut self) -> Vec<u8> {
        self.frame(KIND_CHANGE_MARK, &[])
    }

    fn frame(&mut self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; header::BYTES];
        put(&mut frame, header::MAGIC, &CHANGE_MAGIC);
        put(&mut frame, header::KIND, &kind.to_le_bytes());
        put(&mut frame, header::BODY_BYTES, &(body.len() as u64).to_le_bytes());
        put(&mut frame, header::PREVIOUS, &self.previous.to_le_bytes());
        frame.extend(body);
        frame.extend((checksum(&frame) ^ self.seal).to_le_bytes());
        self.bytes += frame.len() as u64;
        frame
    }
}

/// Makes the changes that stand in `frames`, which begin at `offset` of the file, behind a
/// catalogue with the checksum `seal`. Says whether there is one for which no mark vouches: it can be
/// read, and a power cut might still take it.
pub(super) fn follow(
    frames: &[u8],
    offset: usize,
    seal: u64,
    snapshot: &mut Snapshot,
) -> Result<bool, FileError> {
    let mut at = 0;
    let mut previous = seal;
    let mut unvouched = false;
    while let Some(frame) = intact(&frames[at..], seal).filter(|frame| frame.previous == previous) {
        let refused = |fault| FileError::Change { offset: (offset + at) as u64, fault };
        if frame.kind == KIND_CHANGE_MARK {
            unvouched = false;
        } else {
            let delta = Delta::from_bytes(frame.body).map_err(refused)?;
            delta.apply(snapshot).map_err(refused)?;
            previous = frame.checksum;
            unvouched = true;
        }
        at += frame.bytes;
    }
    // A mark is written behind a sync, so whatever is before it was on stable storage.
    let is_mark = |rest: &[u8]| {
        rest.starts_with(&CHANGE_MAGIC)
            && intact(rest, seal).is_some_and(|frame| frame.kind == KIND_CHANGE_MARK)
    };
    let rest = &frames[at..];
    if rest.windows(MARK_BYTES).any(is_mark) {
        return Err(FileError::ChangeLost { offset: (offset + at) as u64 });
    }
    if !rest.is_empty() {
        tracing::info!(offset = offset + at, "a change of the catalogue was not finished");
    }
    Ok(unvouched)
}

/// A frame whose checksum is right.
struct Frame<'a> {
    kind: u32,
    body: &'a [u8],
    previous: u64,
    checksum: u64,
    /// Its whole length.
    bytes: usize,
}

/// The frame at the beginning of `bytes`.
fn intact(bytes: &[u8], seal: u64) -> Option<Frame<'_>> {
    let start: [u8; header::BYTES] = *bytes.first_chunk()?;
    let kind = u32_at(&start, header::KIND);
    let is_known = matches!(kind, KIND_CHANGE | KIND_CHANGE_MARK);
    if get(&start, header::MAGIC) != CHANGE_MAGIC || !is_known {
        return None;
    }
    let body_bytes = usize::try_from(u64_at(&start, header::BODY_BYTES)).ok()?;
    let covered = header::BYTES.checked_add(body_bytes)?;
    if kind == KIND_CHANGE_MARK && body_bytes > 0 {
        return None;
    }
    let stored: [u8; CHECKSUM_BYTES] = *bytes.get(covered..)?.first_chunk()?;
    let stored = u64::from_le_bytes(stored);
    let computed = checksum(&bytes[..covered]) ^ seal;
    agrees(stored, computed).then(|| Frame {
        kind,
        body: &bytes[header::BYTES..covered],
        previous: u64_at(&start, header::PREVIOUS),
        checksum: stored,
        bytes: covered + CHECKSUM_BYTES,
    })
}
