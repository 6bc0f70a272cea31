//! The file `FLAT`: whose vectors these are, the segments, and up to where they have come.
//!
//! It is the last thing that a flush writes, and replaced as a whole: a new file, synced, renamed
//! over the old one, the directory synced. The byte tables are in `docs/database-format.md`, and
//! a test compares them with the constants here and in `block`.

use std::fs;
use std::io;
use std::path::Path;

use super::FlatError;
use super::block::BlockShape;
use crate::files::{ByteField, agrees, checksum, field, get, put, replace, u32_at, u64_at};
use crate::ids::{Seq, VectorType};

pub(super) const MANIFEST_NAME: &str = "FLAT";

const MAGIC: [u8; 8] = *b"PIPEFLAT";
/// Version that this build writes, the only one that it reads. Covers the segments as well.
/// Version 1, never released, had block checksums without the field.
pub(super) const VERSION: u32 = 2;

const F_MAGIC: ByteField = field("magic", 0, 8);
const F_VERSION: ByteField = field("version", 8, 4);
const F_SEGMENTS: ByteField = field("segments", 12, 4);
const F_FIELD: ByteField = field("field", 16, 16);
const F_DIM: ByteField = field("dimension", 32, 4);
const F_VECTOR_TYPE: ByteField = field("vector type", 36, 4);
const F_BLOCK_BYTES: ByteField = field("block bytes", 40, 4);
#[cfg(test)]
const F_RESERVED: ByteField = field("reserved", 44, 4);
const F_DURABLE: ByteField = field("durable", 48, 8);
const F_NEXT_SEGMENT: ByteField = field("next segment", 56, 8);
const F_LIST_CHECKSUM: ByteField = field("list checksum", 64, 8);
const F_HEADER_CHECKSUM: ByteField = field("header checksum", 72, 8);

/// The header, in order.
#[cfg(test)]
pub(super) const HEADER: &[ByteField] = &[
    F_MAGIC,
    F_VERSION,
    F_SEGMENTS,
    F_FIELD,
    F_DIM,
    F_VECTOR_TYPE,
    F_BLOCK_BYTES,
    F_RESERVED,
    F_DURABLE,
    F_NEXT_SEGMENT,
    F_LIST_CHECKSUM,
    F_HEADER_CHECKSUM,
];
const HEADER_BYTES: usize = 80;

const F_NUMBER: ByteField = field("number", 0, 8);
const F_ROWS: ByteField = field("rows", 8, 8);

/// One segment; the file has `segments` of them behind the header, oldest first.
#[cfg(test)]
pub(super) const ENTRY: &[ByteField] = &[F_NUMBER, F_ROWS];
const ENTRY_BYTES: usize = 16;

/// A segment as the manifest lists it. The number of its blocks follows from its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorSegmentEntry {
    pub(super) number: u64,
    pub(super) rows: u64,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentsManifest {
    /// With the identity of the field.
    pub(super) shape: BlockShape,
    /// The number up to which the segments have come.
    pub(super) durable: Seq,
    /// No file has this number or a larger one, but for what an interrupted flush left.
    pub(super) next_segment: u64,
    pub(super) segments: Vec<VectorSegmentEntry>,
}

impl SegmentsManifest {
    pub(super) fn empty(shape: BlockShape) -> Self {
        Self { shape, durable: Seq(0), next_segment: 1, segments: Vec::new() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        for segment in &self.segments {
            let mut entry = [0; ENTRY_BYTES];
            put(&mut entry, F_NUMBER, &segment.number.to_le_bytes());
            put(&mut entry, F_ROWS, &segment.rows.to_le_bytes());
            out.extend_from_slice(&entry);
        }
        let list_checksum = checksum(&out[HEADER_BYTES..]);
        let narrow = |n: usize| u32::try_from(n).expect("dimensions and counts are below 2^32");
        put(&mut out, F_MAGIC, &MAGIC);
        put(&mut out, F_VERSION, &VERSION.to_le_bytes());
        put(&mut out, F_SEGMENTS, &narrow(self.segments.len()).to_le_bytes());
        put(&mut out, F_FIELD, &self.shape.field());
        put(&mut out, F_DIM, &narrow(self.shape.dim()).to_le_bytes());
        put(&mut out, F_VECTOR_TYPE, &u32::from(self.shape.vector_type() as u16).to_le_bytes());
        put(&mut out, F_BLOCK_BYTES, &narrow(self.shape.block_bytes()).to_le_bytes());
        put(&mut out, F_DURABLE, &self.durable.0.to_le_bytes());
        put(&mut out, F_NEXT_SEGMENT, &self.next_segment.to_le_bytes());
        put(&mut out, F_LIST_CHECKSUM, &list_checksum.to_le_bytes());
        let header_checksum = checksum(&out[..F_HEADER_CHECKSUM.offset]);
        put(&mut out, F_HEADER_CHECKSUM, &header_checksum.to_le_bytes());
        out
    }

    /// Reads the bytes of the file `path`.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, FlatError> {
        let damaged = |what: String| FlatError::damaged(path, what);
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| {
            damaged(format!("{} bytes, its header alone takes {HEADER_BYTES}", bytes.len()))
        })?;
        if get(header, F_MAGIC) != MAGIC {
            return Err(damaged("other first bytes than a list of segments has".into()));
        }
        let computed = checksum(&header[..F_HEADER_CHECKSUM.offset]);
        if !agrees(u64_at(header, F_HEADER_CHECKSUM), computed) {
            return Err(damaged("its header fails its checksum".into()));
        }
        let found = u32_at(header, F_VERSION);
        if found != VERSION {
            let path = path.to_owned();
            return Err(FlatError::Version { path, found, supported: VERSION });
        }
        let code = u32_at(header, F_VECTOR_TYPE);
        let vector_type = u16::try_from(code).ok().and_then(VectorType::from_code);
        let vector_type = vector_type
            .ok_or_else(|| damaged(format!("vector type {code} is unknown to this version")))?;
        let dim = u32_at(header, F_DIM) as usize;
        let block_bytes = u32_at(header, F_BLOCK_BYTES) as usize;
        let shape = (dim > 0).then(|| BlockShape::new(get(header, F_FIELD), dim, vector_type));
        let Some(shape) = shape.filter(|shape| shape.block_bytes() == block_bytes) else {
            return Err(damaged(format!("blocks of {block_bytes} bytes for {dim} {vector_type}")));
        };
        let (list, segments) = (&bytes[HEADER_BYTES..], u32_at(header, F_SEGMENTS) as usize);
        if list.len() != segments * ENTRY_BYTES {
            return Err(damaged(format!("{} bytes list {segments} segments", list.len())));
        }
        if !agrees(u64_at(header, F_LIST_CHECKSUM), checksum(list)) {
            return Err(damaged("its list of segments fails its checksum".into()));
        }
        let entry =
            |e: &[u8]| VectorSegmentEntry { number: u64_at(e, F_NUMBER), rows: u64_at(e, F_ROWS) };
        Ok(Self {
            shape,
            durable: Seq(u64_at(header, F_DURABLE)),
            next_segment: u64_at(header, F_NEXT_SEGMENT),
            segments: list.chunks_exact(ENTRY_BYTES).map(entry).collect(),
        })
    }

    /// Reads the file in `dir`; `None` where there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, FlatError> {
        let path = dir.join(MANIFEST_NAME);
        match fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(FlatError::io("read", &path)(e)),
        }
    }

    /// Puts the file into `dir`, on stable storage.
    pub(super) fn write(&self, dir: &Path) -> Result<(), FlatError> {
        let name = dir.join(MANIFEST_NAME);
        replace(dir, MANIFEST_NAME, &self.encode()).map_err(FlatError::io("replace", &name))
    }
}
