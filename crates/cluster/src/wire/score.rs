//! Messages of searches whose list stays with their asker: what a server is to score, and its scores.
//!
//! An asker sends each owner of its next candidates one [`Score`] a step and gets one [`Scored`] back.
//! Without nodes it asks for entries of the head index.

use super::decode_error::DecodeError;
use super::ids::QueryId;
use super::lists::Numbers;

/// Most nodes that one message asks to expand: as many as a search may have reads in flight.
pub const NODES_MAX: usize = 512;
/// Most nodes read that one message tells: those asked for, and what else their pages hold. With as many
/// neighbours as may be they fit in a frame.
pub const READS_MAX: usize = 1 << 13;
/// Most neighbours that one message tells: as many as the longest candidate list.
pub const NEIGHBOURS_MAX: usize = 1 << 16;

/// Nodes to be read, and their neighbours to be scored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score<'a> {
    /// For which query.
    pub query: QueryId,
    /// For which attempt.
    pub attempt: u16,
    /// How long scores are still of use.
    pub left_us: u64,
    /// Steps that the attempt may take after this one.
    pub hops: u16,
    /// A partition of the nodes; of entries, one of the server.
    pub partition: u32,
    /// Only neighbours below this coded distance are told.
    pub bound: f32,
    /// Neighbours told at most, the nearest.
    pub most: u32,
    /// Whether the first nodes of all partitions are told too.
    pub starts: bool,
    /// Whether every record of a page that is read is told, and explored where it is near.
    pub packed: bool,
    /// The nodes; none for entries.
    pub nodes: Numbers<'a>,
    /// What the search was asked for.
    pub parameters: &'a [u8],
    /// The query's vector.
    pub vector: &'a [u8],
}

/// What was read and scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored<'a> {
    /// For which query.
    pub query: QueryId,
    /// For which attempt.
    pub attempt: u16,
    /// As it was asked: which step of the attempt this is.
    pub hops: u16,
    /// Whether nothing is to be read that is too far by what codes have proved.
    pub early_stop: bool,
    /// The nodes that were read, nearest first.
    pub reads: Reads<'a>,
    /// Neighbours, or entries, nearest first.
    pub neighbours: Neighbours<'a>,
    /// The first node of each partition, where that was asked.
    pub starts: Numbers<'a>,
    /// What it cost.
    pub stats: &'a [u8],
}

/// A node that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Read {
    /// The node.
    pub node: u32,
    /// Its exact distance.
    pub distance: f32,
    /// Its row; none where it may not be answered.
    pub row: Option<u64>,
}

/// Nodes that were read, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads<'a>(pub(super) &'a [u8]);

impl<'a> Reads<'a> {
    /// Bytes of one.
    pub const BYTES: usize = 17;

    /// The bytes of these.
    pub fn pack(reads: impl IntoIterator<Item = Read>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for read in reads {
            bytes.extend_from_slice(&read.node.to_le_bytes());
            bytes.extend_from_slice(&read.distance.to_le_bytes());
            bytes.push(u8::from(read.row.is_some()));
            bytes.extend_from_slice(&read.row.unwrap_or_default().to_le_bytes());
        }
        bytes
    }

    /// Bytes that hold them.
    ///
    /// # Errors
    /// [`DecodeError`] where they do not.
    pub fn of(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        bounded(bytes, Self::BYTES, READS_MAX, "the nodes read")?;
        for chunk in bytes.chunks_exact(Self::BYTES) {
            number(&chunk[4..8])?;
            match chunk[8] {
                0 if chunk[9..].iter().any(|byte| *byte != 0) => return Err(DecodeError::Reserved),
                0 | 1 => {}
                _ => return Err(DecodeError::Value("the flag of a row")),
            }
        }
        Ok(Self(bytes))
    }

    /// Them in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Read> + 'a {
        self.0.chunks_exact(Self::BYTES).map(|chunk| Read {
            node: u32::from_le_bytes(fixed(&chunk[..4])),
            distance: f32::from_le_bytes(fixed(&chunk[4..8])),
            row: (chunk[8] == 1).then(|| u64::from_le_bytes(fixed(&chunk[9..]))),
        })
    }
}

/// Neighbours with their coded distances, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours<'a>(pub(super) &'a [u8]);

impl<'a> Neighbours<'a> {
    /// Bytes of one.
    pub const BYTES: usize = 8;

    /// The bytes of these.
    pub fn pack(neighbours: impl IntoIterator<Item = (f32, u32)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (distance, node) in neighbours {
            bytes.extend_from_slice(&distance.to_le_bytes());
            bytes.extend_from_slice(&node.to_le_bytes());
        }
        bytes
    }

    /// Bytes that hold them.
    ///
    /// # Errors
    /// [`DecodeError`] where they do not.
    pub fn of(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        bounded(bytes, Self::BYTES, NEIGHBOURS_MAX, "the neighbours")?;
        bytes.chunks_exact(Self::BYTES).try_for_each(|chunk| number(&chunk[..4]))?;
        Ok(Self(bytes))
    }

    /// Them in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (f32, u32)> + 'a {
        self.0.chunks_exact(Self::BYTES).map(|chunk| {
            let (distance, node) = chunk.split_at(4);
            (f32::from_le_bytes(fixed(distance)), u32::from_le_bytes(fixed(node)))
        })
    }
}

/// Whole items, and no more than there may be.
fn bounded(bytes: &[u8], item: usize, most: usize, name: &'static str) -> Result<(), DecodeError> {
    if bytes.len() > item * most {
        return Err(DecodeError::TooMany(name));
    }
    if bytes.len().is_multiple_of(item) { Ok(()) } else { Err(DecodeError::Short) }
}

/// A distance that can be compared.
pub(super) fn number(bytes: &[u8]) -> Result<(), DecodeError> {
    match f32::from_le_bytes(fixed(bytes)).is_nan() {
        true => Err(DecodeError::Value("a distance")),
        false => Ok(()),
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller cuts as many bytes")
}
