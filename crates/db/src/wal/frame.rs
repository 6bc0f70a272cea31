//! Frames to bytes and back: what surrounds every payload in a segment.

use super::constants::{
    ByteField, FRAME_ALIGNMENT, FRAME_MAGIC, KIND_MARK, MAX_PAYLOAD_BYTES, frame_header as at,
    mark as mark_payload,
};
use super::error::FrameProblem;
use super::log_id::LogId;
use super::salt::Salt;
use crate::ids::Seq;

/// What a frame says of itself. Frame checksums chain: `previous` is that of the record before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) payload_bytes: u32,
    pub(super) seq: Seq,
    pub(super) previous: u64,
    pub(super) payload_checksum: u64,
    /// Covers all of the above and the uuid.
    pub(super) checksum: u64,
}

/// Bytes that a frame with such a payload takes.
pub(super) fn frame_bytes(payload_bytes: u32) -> u64 {
    (at::BYTES as u64 + u64::from(payload_bytes)).next_multiple_of(FRAME_ALIGNMENT as u64)
}

/// Bytes that a record with such a payload takes at most: its frame, and a mark of its own.
pub(super) fn record_bytes(payload_bytes: u32) -> u64 {
    frame_bytes(payload_bytes) + MARK_BYTES
}

/// Bytes of a mark.
pub(super) const MARK_BYTES: u64 = (at::BYTES + mark_payload::BYTES) as u64;

/// Checksum of a payload.
pub(super) fn payload_checksum(payload: &[u8]) -> u64 {
    crc_fast::crc64_nvme(payload)
}

/// What a frame is made of, apart from the payload's bytes.
pub(super) struct FrameParts {
    pub(super) kind: u16,
    pub(super) seq: Seq,
    pub(super) previous: u64,
    pub(super) payload_checksum: u64,
}

/// Appends a frame to `out` and returns its checksum.
pub(super) fn push_frame(out: &mut Vec<u8>, id: LogId, parts: &FrameParts, payload: &[u8]) -> u64 {
    debug_assert!(payload.len() <= MAX_PAYLOAD_BYTES, "submitters check the length");
    let mut header = [0; at::BYTES];
    let mut put = |field: ByteField, value: &[u8]| {
        header[field.offset..field.offset + field.bytes].copy_from_slice(value);
    };
    put(at::MAGIC, &FRAME_MAGIC.to_le_bytes());
    put(at::KIND, &parts.kind.to_le_bytes());
    put(at::PAYLOAD_BYTES, &(payload.len() as u32).to_le_bytes());
    put(at::SEQ, &parts.seq.0.to_le_bytes());
    put(at::PREVIOUS, &parts.previous.to_le_bytes());
    put(at::PAYLOAD_CHECKSUM, &parts.payload_checksum.to_le_bytes());
    let checksum = header_checksum(&header, id);
    header[at::CHECKSUM.offset..].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(FRAME_ALIGNMENT), 0);
    checksum
}

/// The frame that vouches for all records up to `last`, whose checksum is `previous`.
pub(super) fn mark(id: LogId, last: Seq, previous: u64, salt: Salt) -> Vec<u8> {
    let mut out = Vec::with_capacity(MARK_BYTES as usize);
    let payload_checksum = payload_checksum(salt.bytes());
    push_frame(
        &mut out,
        id,
        &FrameParts { kind: KIND_MARK, seq: last, previous, payload_checksum },
        salt.bytes(),
    );
    out
}

fn header_checksum(header: &[u8; at::BYTES], id: LogId) -> u64 {
    crc_fast::crc64_nvme(&header[..at::CHECKSUM.offset]) ^ crc_fast::crc64_nvme(&id.0)
}

fn get<const N: usize>(header: &[u8; at::BYTES], field: ByteField) -> [u8; N] {
    debug_assert_eq!(N, field.bytes, "field {} has another width", field.name);
    let mut out = [0; N];
    out.copy_from_slice(&header[field.offset..field.offset + N]);
    out
}

impl FrameHeader {
    /// Reads a header that this program made. Nothing of it is checked.
    pub(super) fn of(header: &[u8; at::BYTES]) -> Self {
        Self {
            kind: u16::from_le_bytes(get(header, at::KIND)),
            flags: u16::from_le_bytes(get(header, at::FLAGS)),
            payload_bytes: u32::from_le_bytes(get(header, at::PAYLOAD_BYTES)),
            seq: Seq(u64::from_le_bytes(get(header, at::SEQ))),
            previous: u64::from_le_bytes(get(header, at::PREVIOUS)),
            payload_checksum: u64::from_le_bytes(get(header, at::PAYLOAD_CHECKSUM)),
            checksum: u64::from_le_bytes(get(header, at::CHECKSUM)),
        }
    }

    /// Reads a header of the log `id`. That it follows the record before is not checked.
    pub(super) fn decode(header: &[u8; at::BYTES], id: LogId) -> Result<Self, FrameProblem> {
        let magic = u32::from_le_bytes(get(header, at::MAGIC));
        if magic != FRAME_MAGIC {
            return Err(FrameProblem::Magic { found: magic });
        }
        let read = Self::of(header);
        let (expected, found) = (header_checksum(header, id), read.checksum);
        if expected != found {
            return Err(FrameProblem::HeaderChecksum { expected, found });
        }
        Ok(read)
    }

    /// Compares what follows the header, payload and padding, with what the header says.
    pub(super) fn check_payload(&self, rest: &[u8]) -> Result<(), FrameProblem> {
        let (payload, padding) = rest.split_at(self.payload_bytes as usize);
        let (expected, found) = (payload_checksum(payload), self.payload_checksum);
        if expected != found {
            return Err(FrameProblem::PayloadChecksum { expected, found });
        }
        if padding.iter().any(|byte| *byte != 0) { Err(FrameProblem::Padding) } else { Ok(()) }
    }
}
