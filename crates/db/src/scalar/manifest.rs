//! The file `SCALARS`: whose indexes these are, the runs, and up to where they have come.
//!
//! It is the last thing that a flush writes, and replaced as a whole: a new file, synced, renamed
//! over the old one, the directory synced. The byte tables are in `docs/database-format.md`, and
//! a test compares them with the constants here.

use std::fs;
use std::io;
use std::path::Path;

use super::ScalarError;
use crate::files::{ByteField, agrees, checksum, field, get, hex, put, replace, u32_at, u64_at};
use crate::ids::Seq;

pub(super) const MANIFEST_NAME: &str = "SCALARS";

const MAGIC: [u8; 8] = *b"PIPESCAL";
/// Version that this build writes, the only one that it reads.
pub(super) const VERSION: u32 = 1;

const F_MAGIC: ByteField = field("magic", 0, 8);
const F_VERSION: ByteField = field("version", 8, 4);
const F_RUNS: ByteField = field("runs", 12, 4);
const F_COLLECTION: ByteField = field("collection", 16, 16);
const F_DURABLE: ByteField = field("durable", 32, 8);
const F_NEXT_RUN: ByteField = field("next run", 40, 8);
const F_LIST_SUM: ByteField = field("list checksum", 48, 8);
const F_HEADER_SUM: ByteField = field("header checksum", 56, 8);

/// The header, in order.
#[cfg(test)]
pub(super) const HEADER: &[ByteField] =
    &[F_MAGIC, F_VERSION, F_RUNS, F_COLLECTION, F_DURABLE, F_NEXT_RUN, F_LIST_SUM, F_HEADER_SUM];
pub(super) const HEADER_BYTES: usize = 64;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunsManifest {
    pub(super) collection: [u8; 16],
    /// The number up to which the runs have come.
    pub(super) durable: Seq,
    /// No file has this number or a larger one, but for what an interrupted flush left.
    pub(super) next_run: u64,
    /// Numbers of the runs, in ascending order of their rows.
    pub(super) runs: Vec<u64>,
}

impl RunsManifest {
    pub(super) fn empty(collection: [u8; 16]) -> Self {
        Self { collection, durable: Seq(0), next_run: 1, runs: Vec::new() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        self.runs.iter().for_each(|number| out.extend(number.to_le_bytes()));
        let list_sum = checksum(&out[HEADER_BYTES..]);
        let count = u32::try_from(self.runs.len()).expect("there are few runs");
        put(&mut out, F_MAGIC, &MAGIC);
        put(&mut out, F_VERSION, &VERSION.to_le_bytes());
        put(&mut out, F_RUNS, &count.to_le_bytes());
        put(&mut out, F_COLLECTION, &self.collection);
        put(&mut out, F_DURABLE, &self.durable.0.to_le_bytes());
        put(&mut out, F_NEXT_RUN, &self.next_run.to_le_bytes());
        put(&mut out, F_LIST_SUM, &list_sum.to_le_bytes());
        let header_sum = checksum(&out[..F_HEADER_SUM.offset]);
        put(&mut out, F_HEADER_SUM, &header_sum.to_le_bytes());
        out
    }

    /// Reads the bytes of the file `path`.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, ScalarError> {
        let damaged = |what: String| ScalarError::damaged(path, what);
        let (header, list) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or_else(|| damaged(format!("{} bytes are no list of runs", bytes.len())))?;
        if get(header, F_MAGIC) != MAGIC {
            return Err(damaged("other first bytes than a list of runs has".into()));
        }
        if !agrees(u64_at(header, F_HEADER_SUM), checksum(&header[..F_HEADER_SUM.offset])) {
            return Err(damaged("its header fails its checksum".into()));
        }
        let found = u32_at(header, F_VERSION);
        if found != VERSION {
            let path = path.to_owned();
            return Err(ScalarError::Version { path, found, supported: VERSION });
        }
        let (runs, rest) = list.as_chunks::<8>();
        let whole = rest.is_empty() && runs.len() == u32_at(header, F_RUNS) as usize;
        if !whole || !agrees(u64_at(header, F_LIST_SUM), checksum(list)) {
            return Err(damaged("its list of runs fails its checksum".into()));
        }
        Ok(Self {
            collection: get(header, F_COLLECTION),
            durable: Seq(u64_at(header, F_DURABLE)),
            next_run: u64_at(header, F_NEXT_RUN),
            runs: runs.iter().map(|number| u64::from_le_bytes(*number)).collect(),
        })
    }

    /// Reads the file in `dir`; `None` where there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, ScalarError> {
        let path = dir.join(MANIFEST_NAME);
        match fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(ScalarError::io("read", &path)(e)),
        }
    }

    /// Refuses the indexes of another collection.
    pub(super) fn check(&self, collection: [u8; 16], dir: &Path) -> Result<(), ScalarError> {
        if self.collection == collection {
            return Ok(());
        }
        let (expected, found) = (hex(&collection), hex(&self.collection));
        Err(ScalarError::Foreign { path: dir.join(MANIFEST_NAME), expected, found })
    }

    /// Puts the file into `dir`, on stable storage.
    pub(super) fn write(&self, dir: &Path) -> Result<(), ScalarError> {
        let name = dir.join(MANIFEST_NAME);
        replace(dir, MANIFEST_NAME, &self.encode()).map_err(ScalarError::io("replace", &name))
    }
}
