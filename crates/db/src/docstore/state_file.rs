//! The file `STATE` of a row store: whose it is, up to where its trees have come, the counters.
//!
//! It is the last thing that a flush writes, and replaced as a whole: a new file, synced, renamed
//! over the old one, the directory synced. All numbers are little-endian; the byte tables are in
//! `docs/database-format.md`, and a test compares them with the constants here.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::StoreError;
use super::changes::Counts;
use crate::files::{ByteField, agrees, checksum, field, get, put, replace, u32_at, u64_at};
use crate::ids::{RowId, Seq};

/// Name of the file.
pub(super) const STATE_NAME: &str = "STATE";

const MAGIC: [u8; 8] = *b"PIPEROWS";
/// Version that this build writes; it reads no newer one. Covers the trees beside it as well.
pub(super) const VERSION: u32 = 1;

const F_MAGIC: ByteField = field("magic", 0, 8);
const F_VERSION: ByteField = field("version", 8, 4);
const F_PARTITIONS: ByteField = field("partitions", 12, 4);
const F_COLLECTION: ByteField = field("collection", 16, 16);
const F_COUNTED: ByteField = field("counted", 32, 8);
const F_DURABLE: ByteField = field("durable", 40, 8);
const F_NEXT_ROW: ByteField = field("next row", 48, 8);
const F_COUNTS_CHECKSUM: ByteField = field("counts checksum", 56, 8);
#[cfg(test)]
const F_RESERVED: ByteField = field("reserved", 64, 8);
const F_HEADER_CHECKSUM: ByteField = field("header checksum", 72, 8);

/// The header, in order.
#[cfg(test)]
pub(super) const HEADER: &[ByteField] = &[
    F_MAGIC,
    F_VERSION,
    F_PARTITIONS,
    F_COLLECTION,
    F_COUNTED,
    F_DURABLE,
    F_NEXT_ROW,
    F_COUNTS_CHECKSUM,
    F_RESERVED,
    F_HEADER_CHECKSUM,
];
const HEADER_BYTES: usize = 80;

const F_PARTITION: ByteField = field("partition", 0, 4);
const F_ROWS: ByteField = field("rows", 4, 8);

/// One counter; the file has `partitions` of them behind the header, by ascending partition.
#[cfg(test)]
pub(super) const COUNT: &[ByteField] = &[F_PARTITION, F_ROWS];
const COUNT_BYTES: usize = 12;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreState {
    /// The collection that the store belongs to.
    pub(super) collection: [u8; 16],
    /// The number up to which the key tree and the counters have come; never below `durable`.
    pub(super) counted: Seq,
    /// The number up to which everything has come.
    pub(super) durable: Seq,
    /// One more than the largest row id, as of `counted`.
    pub(super) next_row: RowId,
    /// Live rows, as of `counted`.
    pub(super) counts: Counts,
}

impl StoreState {
    /// The state of a store without rows.
    pub(super) fn empty(collection: [u8; 16]) -> Self {
        let (counted, durable) = (Seq(0), Seq(0));
        Self { collection, counted, durable, next_row: RowId(0), counts: Counts::default() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let partitions = self.counts.partitions();
        let mut out = vec![0; HEADER_BYTES];
        for (&partition, &rows) in partitions {
            let mut count = [0; COUNT_BYTES];
            put(&mut count, F_PARTITION, &partition.to_le_bytes());
            put(&mut count, F_ROWS, &rows.to_le_bytes());
            out.extend_from_slice(&count);
        }
        let counts_checksum = checksum(&out[HEADER_BYTES..]);
        let listed = u32::try_from(partitions.len()).expect("partitions are numbered by u32");
        put(&mut out, F_MAGIC, &MAGIC);
        put(&mut out, F_VERSION, &VERSION.to_le_bytes());
        put(&mut out, F_PARTITIONS, &listed.to_le_bytes());
        put(&mut out, F_COLLECTION, &self.collection);
        put(&mut out, F_COUNTED, &self.counted.0.to_le_bytes());
        put(&mut out, F_DURABLE, &self.durable.0.to_le_bytes());
        put(&mut out, F_NEXT_ROW, &self.next_row.0.to_le_bytes());
        put(&mut out, F_COUNTS_CHECKSUM, &counts_checksum.to_le_bytes());
        let header_checksum = checksum(&out[..F_HEADER_CHECKSUM.offset]);
        put(&mut out, F_HEADER_CHECKSUM, &header_checksum.to_le_bytes());
        out
    }

    /// Reads the bytes of a file; `dir` is for messages.
    pub(super) fn decode(bytes: &[u8], dir: &Path) -> Result<Self, StoreError> {
        let damaged = |what: &str| StoreError::damaged(dir, format!("{STATE_NAME} has {what}"));
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| {
            damaged(&format!("{} bytes, its header alone takes {HEADER_BYTES}", bytes.len()))
        })?;
        if get(header, F_MAGIC) != MAGIC {
            return Err(damaged("other first bytes than a row store's"));
        }
        let computed = checksum(&header[..F_HEADER_CHECKSUM.offset]);
        if !agrees(u64_at(header, F_HEADER_CHECKSUM), computed) {
            return Err(damaged("a header that fails its checksum"));
        }
        let found = u32_at(header, F_VERSION);
        if found > VERSION {
            let path = dir.join(STATE_NAME);
            return Err(StoreError::Version { path, found, supported: VERSION });
        }
        let partitions = u32_at(header, F_PARTITIONS) as usize;
        let counts = &bytes[HEADER_BYTES..];
        if counts.len() != partitions * COUNT_BYTES {
            return Err(damaged(&format!("{} bytes for {partitions} counters", counts.len())));
        }
        if !agrees(u64_at(header, F_COUNTS_CHECKSUM), checksum(counts)) {
            return Err(damaged("counters that fail their checksum"));
        }
        let counts: BTreeMap<_, _> = counts
            .chunks_exact(COUNT_BYTES)
            .map(|c| (u32_at(c, F_PARTITION), u64_at(c, F_ROWS)))
            .collect();
        if counts.values().try_fold(0_u64, |sum, rows| sum.checked_add(*rows)).is_none() {
            return Err(damaged("counters of more rows than there are ids"));
        }
        Ok(Self {
            collection: get(header, F_COLLECTION),
            counted: Seq(u64_at(header, F_COUNTED)),
            durable: Seq(u64_at(header, F_DURABLE)),
            next_row: RowId(u64_at(header, F_NEXT_ROW)),
            counts: Counts::from_partitions(counts),
        })
    }

    /// Reads the file in `dir`; `None` where there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        match fs::read(dir.join(STATE_NAME)) {
            Ok(bytes) => Self::decode(&bytes, dir).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io("read", dir)(e)),
        }
    }

    /// Puts the file into `dir`, on stable storage.
    pub(super) fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let written = replace(dir, STATE_NAME, &self.encode());
        written.map_err(StoreError::io("note the state of", dir))
    }
}
