//! The file `FLAT`: whose vectors these are, the segments, and up to where they have come.
//!
//! It is the last thing that a flush writes, and replaced as a whole: a new file, synced, renamed
//! over the old one, the directory synced. The byte tables are in `docs/database-format.md`, and
//! a test compares them with the constants here and in `block`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::FlatError;
use super::block::BlockShape;
use super::bytes::{Field, checksum, get, put, u32_at, u64_at};
use crate::ids::{Seq, VectorType};

pub(super) const MANIFEST_NAME: &str = "FLAT";
const NEW_NAME: &str = "FLAT.new";

const MAGIC: [u8; 8] = *b"PIPEFLAT";
/// Version that this build writes; it reads no newer one. Covers the segments as well.
pub(super) const VERSION: u32 = 1;

const F_MAGIC: Field = ("magic", 0, 8);
const F_VERSION: Field = ("version", 8, 4);
const F_SEGMENTS: Field = ("segments", 12, 4);
const F_FIELD: Field = ("field", 16, 16);
const F_DIM: Field = ("dimension", 32, 4);
const F_VECTOR_TYPE: Field = ("vector type", 36, 4);
const F_BLOCK_BYTES: Field = ("block bytes", 40, 4);
#[cfg(test)]
const F_RESERVED: Field = ("reserved", 44, 4);
const F_DURABLE: Field = ("durable", 48, 8);
const F_NEXT_SEGMENT: Field = ("next segment", 56, 8);
const F_LIST_CHECKSUM: Field = ("list checksum", 64, 8);
const F_HEADER_CHECKSUM: Field = ("header checksum", 72, 8);

/// The header, in order.
#[cfg(test)]
pub(super) const HEADER: &[Field] = &[
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

const F_NUMBER: Field = ("number", 0, 8);
const F_ROWS: Field = ("rows", 8, 8);

/// One segment; the file has `segments` of them behind the header, oldest first.
#[cfg(test)]
pub(super) const ENTRY: &[Field] = &[F_NUMBER, F_ROWS];
const ENTRY_BYTES: usize = 16;

/// A segment as the manifest lists it. The number of its blocks follows from its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentEntry {
    pub(super) number: u64,
    pub(super) rows: u64,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) field: [u8; 16],
    pub(super) shape: BlockShape,
    /// The number up to which the segments have come.
    pub(super) durable: Seq,
    /// No file has this number or a larger one, but for what an interrupted flush left.
    pub(super) next_segment: u64,
    pub(super) segments: Vec<SegmentEntry>,
}

impl Manifest {
    pub(super) fn empty(field: [u8; 16], shape: BlockShape) -> Self {
        Self { field, shape, durable: Seq(0), next_segment: 1, segments: Vec::new() }
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
        put(&mut out, F_FIELD, &self.field);
        put(&mut out, F_DIM, &narrow(self.shape.dim()).to_le_bytes());
        put(&mut out, F_VECTOR_TYPE, &u32::from(self.shape.vector_type() as u16).to_le_bytes());
        put(&mut out, F_BLOCK_BYTES, &narrow(self.shape.block_bytes()).to_le_bytes());
        put(&mut out, F_DURABLE, &self.durable.0.to_le_bytes());
        put(&mut out, F_NEXT_SEGMENT, &self.next_segment.to_le_bytes());
        put(&mut out, F_LIST_CHECKSUM, &list_checksum.to_le_bytes());
        let header_checksum = checksum(&out[..F_HEADER_CHECKSUM.1]);
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
        if u64_at(header, F_HEADER_CHECKSUM) != checksum(&header[..F_HEADER_CHECKSUM.1]) {
            return Err(damaged("its header fails its checksum".into()));
        }
        let found = u32_at(header, F_VERSION);
        if found > VERSION {
            let path = path.to_owned();
            return Err(FlatError::Version { path, found, supported: VERSION });
        }
        let code = u32_at(header, F_VECTOR_TYPE);
        let vector_type = u16::try_from(code).ok().and_then(VectorType::from_code);
        let vector_type = vector_type
            .ok_or_else(|| damaged(format!("vector type {code} is unknown to this version")))?;
        let dim = u32_at(header, F_DIM) as usize;
        let block_bytes = u32_at(header, F_BLOCK_BYTES) as usize;
        if dim == 0 || BlockShape::new(dim, vector_type).block_bytes() != block_bytes {
            return Err(damaged(format!("blocks of {block_bytes} bytes for {dim} {vector_type}")));
        }
        let (list, segments) = (&bytes[HEADER_BYTES..], u32_at(header, F_SEGMENTS) as usize);
        if list.len() != segments * ENTRY_BYTES {
            return Err(damaged(format!("{} bytes list {segments} segments", list.len())));
        }
        if u64_at(header, F_LIST_CHECKSUM) != checksum(list) {
            return Err(damaged("its list of segments fails its checksum".into()));
        }
        let entry =
            |e: &[u8]| SegmentEntry { number: u64_at(e, F_NUMBER), rows: u64_at(e, F_ROWS) };
        Ok(Self {
            field: get(header, F_FIELD),
            shape: BlockShape::new(dim, vector_type),
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
        let (new, name) = (dir.join(NEW_NAME), dir.join(MANIFEST_NAME));
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&self.encode())?;
            file.sync_all()?;
            fs::rename(&new, &name)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(FlatError::io("replace", &name))
    }
}
