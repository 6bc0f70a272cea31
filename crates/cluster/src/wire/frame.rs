//! The frame around a message: how long it is, what it is, and a checksum over all of it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::decode_error::DecodeError;
use super::kind::Kind;
use super::message::Message;

/// The version of frames and messages. Another one is refused.
pub const VERSION: u8 = 1;
/// Bytes before the body.
pub const FRAME_HEADER: usize = 16;
/// The longest frame, header included.
pub const FRAME_MAX: usize = 1 << 20;
/// The longest frame before it is known who sends it.
pub const HELLO_MAX: usize = 16 << 10;
/// Keeps checksums of other formats from passing for ours.
const SEED: u64 = u64::from_le_bytes(*b"pipewire");

/// Why bytes are no frame of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The version is another one.
    #[error("a frame of protocol version {0}; this server speaks version {VERSION}")]
    Version(u8),
    /// The length is impossible.
    #[error("a frame of {len} bytes, of at most {most}")]
    Length {
        /// What the frame claims.
        len: u64,
        /// What is allowed.
        most: usize,
    },
    /// The checksum is another one.
    #[error("the checksum of a frame does not match")]
    Checksum,
    /// No message has this kind.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
    /// The bytes end before the frame.
    #[error("a frame was cut short")]
    Cut,
    /// The body breaks the rules of its kind.
    #[error("{kind:?}: {source}")]
    Body {
        /// Which message it claims to be.
        kind: Kind,
        /// What is wrong.
        source: DecodeError,
    },
}

/// The length of the frame that begins here, header included, or `None` before the header is whole.
///
/// The version is looked at first: what follows may be laid out otherwise in another one.
pub fn frame_len(bytes: &[u8], most: usize) -> Result<Option<usize>, FrameError> {
    if let Some(&version) = bytes.get(4)
        && version != VERSION
    {
        return Err(FrameError::Version(version));
    }
    let Some(header) = bytes.first_chunk::<FRAME_HEADER>() else { return Ok(None) };
    let body = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let len = u64::from(body) + FRAME_HEADER as u64;
    if len > most as u64 {
        return Err(FrameError::Length { len, most });
    }
    Ok(Some(len as usize))
}

/// Reads the frame at the start of the bytes; gives its message and its length.
pub fn read(bytes: &[u8]) -> Result<(Message<'_>, usize), FrameError> {
    let len = frame_len(bytes, FRAME_MAX)?.ok_or(FrameError::Cut)?;
    let frame = bytes.get(..len).ok_or(FrameError::Cut)?;
    let (header, body) = frame.split_at(FRAME_HEADER);
    if header[8..16] != checksum(&header[..8], body).to_le_bytes() {
        return Err(FrameError::Checksum);
    }
    let kind = Kind::ALL
        .iter()
        .copied()
        .find(|&kind| kind as u8 == header[5])
        .ok_or(FrameError::Kind(header[5]))?;
    if header[6..8] != [0, 0] {
        return Err(FrameError::Body { kind, source: DecodeError::Reserved });
    }
    let message =
        Message::decode(kind, body).map_err(|source| FrameError::Body { kind, source })?;
    Ok((message, len))
}

/// Fills in the header of the frame that begins at `start`.
pub(super) fn seal(out: &mut [u8], start: usize, kind: Kind) {
    let frame = &mut out[start..];
    let body = u32::try_from(frame.len() - FRAME_HEADER).expect("bounded by FRAME_MAX");
    frame[..4].copy_from_slice(&body.to_le_bytes());
    frame[4] = VERSION;
    frame[5] = kind as u8;
    frame[6..8].fill(0);
    let sum = checksum(&frame[..8], &frame[FRAME_HEADER..]);
    frame[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// Of a body, seeded by the rest of the header, so that neither goes with another.
fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let head = u64::from_le_bytes(head.try_into().expect("the header's first eight bytes"));
    // An odd factor keeps each bit of the head; without it a head equal to SEED would undo the seed.
    xxh3_64_with_seed(body, (head ^ SEED).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
