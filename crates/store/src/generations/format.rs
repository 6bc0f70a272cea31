//! Manifests, pins and dooms: bytes and back. The byte tables are in `docs/store-format.md`.

use std::collections::HashSet;

use bytes::Bytes;
use uuid::Uuid;

use super::generation_id::GenerationId;
use super::names;
use crate::log::{Position, ShardId};
use crate::objects::{Fields, ObjectsError, put_text, seal, unseal};

const VERSION: u32 = 1;
const MANIFEST_MAGIC: [u8; 8] = *b"pastomft";
const NAMES_MAGIC: [u8; 8] = *b"pastonam";
/// A manifest, a pin or a doom has at most as many bytes.
pub const MANIFEST_MAX: u64 = 64 << 20;
/// What the caller adds to a manifest has at most as many bytes.
pub const HEADER_MAX: usize = 16 << 20;
/// A generation has at most as many files.
pub const FILES_MAX: usize = 1 << 18;
/// A file's path has at most as many bytes.
const PATH_MAX: usize = 1024;
/// A name in a list has at least as many bytes: a short one would cost many times its own in memory.
const NAME_MIN: usize = 6;
/// Bytes of a file in a manifest before its path's text.
const FILE_BYTES: usize = 42;

/// A shard's whole derived state at one position of its log, as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardGeneration {
    /// The shard.
    pub shard: ShardId,
    /// Which.
    pub id: GenerationId,
    /// All records up to here are in it.
    pub position: Position,
    /// What the caller added.
    pub header: Vec<u8>,
    /// Its files, in the order in which they were given.
    pub files: Vec<StoredFile>,
}

/// A file of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Relative to the generation's directory, parts separated by `/`.
    pub path: String,
    /// Length in bytes.
    pub length: u64,
    /// xxh3-128 of its bytes.
    pub hash: u128,
    /// Tells objects of the same contents apart; mostly 0.
    pub copy: u128,
}

impl StoredFile {
    /// The name of its object.
    pub fn object(&self) -> String {
        names::file(self.hash, self.length, self.copy)
    }
}

/// Whether a path stays below the directory that it is relative to.
pub(super) fn is_below(path: &str) -> bool {
    let part = |it: &str| !it.is_empty() && it != "." && it != ".." && !it.contains(['\\', '\0']);
    path.len() <= PATH_MAX && path.split('/').all(part)
}

fn begin(magic: [u8; 8], cluster: Uuid) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(cluster.as_bytes());
    bytes
}

/// The fields behind magic, version and cluster, which are compared.
fn opened<'a>(
    name: &str,
    magic: [u8; 8],
    cluster: Uuid,
    bytes: &'a [u8],
) -> Result<Fields<'a>, ObjectsError> {
    let damaged = |why: &str| ObjectsError::damaged(name, why);
    let mut fields = Fields(bytes);
    if fields.array() != Some(magic) {
        return Err(damaged("is not what its name says"));
    }
    let version = fields.u32().ok_or_else(|| damaged("ends within its head"))?;
    if version != VERSION {
        return Err(ObjectsError::Newer { object: name.to_owned(), version, known: VERSION });
    }
    let (body, _) = unseal(bytes).ok_or_else(|| damaged("has a wrong checksum"))?;
    let mut fields = Fields(&body[magic.len() + 4..]);
    if fields.array() != Some(*cluster.as_bytes()) {
        return Err(damaged("is another cluster's"));
    }
    Ok(fields)
}

impl ShardGeneration {
    /// The name of the object that holds the manifest of a shard's generation.
    pub fn object(shard: ShardId, id: GenerationId) -> String {
        names::manifest(shard, id)
    }

    /// As `docs/store-format.md` has it. The caller has checked what is bounded.
    pub fn encode(&self, cluster: Uuid) -> Bytes {
        let mut bytes = begin(MANIFEST_MAGIC, cluster);
        let Self { shard, id, position, header, files } = self;
        for number in [shard.0, id.term, id.number, position.term, position.number] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(files.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header);
        for file in files {
            bytes.extend_from_slice(&file.length.to_le_bytes());
            bytes.extend_from_slice(&file.hash.to_le_bytes());
            bytes.extend_from_slice(&file.copy.to_le_bytes());
            put_text(&mut bytes, &file.path);
        }
        seal(&mut bytes);
        bytes.into()
    }

    /// Reads what [`encode`](Self::encode) made, from the object `name`.
    ///
    /// # Errors
    /// [`ObjectsError::Damaged`], and [`ObjectsError::Newer`] for a layout of a later version.
    pub fn decode(name: &str, cluster: Uuid, bytes: &[u8]) -> Result<Self, ObjectsError> {
        let mut fields = opened(name, MANIFEST_MAGIC, cluster, bytes)?;
        let found = Self::parts(&mut fields)
            .ok_or_else(|| ObjectsError::damaged(name, "has a right checksum over wrong fields"))?;
        if names::manifest(found.shard, found.id) != name {
            let is = names::manifest(found.shard, found.id);
            return Err(ObjectsError::damaged(name, format!("is {is}")));
        }
        Ok(found)
    }

    fn parts(fields: &mut Fields<'_>) -> Option<Self> {
        let shard = ShardId(fields.u64()?);
        let id = GenerationId { term: fields.u64()?, number: fields.u64()? };
        let position = Position { term: fields.u64()?, number: fields.u64()? };
        let (header, count) = (fields.u32()? as usize, fields.u32()? as usize);
        let header = fields.bytes(header)?.to_vec();
        if count > FILES_MAX || count * FILE_BYTES > fields.0.len() {
            return None;
        }
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            let length = fields.u64()?;
            let hash = u128::from_le_bytes(fields.array()?);
            let copy = u128::from_le_bytes(fields.array()?);
            let path = fields.text().filter(|it| is_below(it))?.to_owned();
            files.push(StoredFile { path, length, hash, copy });
        }
        fields.end()?;
        Some(Self { shard, id, position, header, files })
    }
}

/// Names of objects that somebody wants, or does not want: a pin, a doom, or a note on an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList {
    /// Milliseconds that a pin holds from when it was put; 0 in a doom.
    pub lease_ms: u64,
    /// Whose it is, for people.
    pub owner: String,
    /// The names, each of at least 6 bytes.
    pub names: HashSet<String>,
}

impl NameList {
    /// As `docs/store-format.md` has it. The caller has checked what is bounded.
    pub fn encode(&self, cluster: Uuid) -> Bytes {
        let mut bytes = begin(NAMES_MAGIC, cluster);
        bytes.extend_from_slice(&self.lease_ms.to_le_bytes());
        bytes.extend_from_slice(&(self.names.len() as u32).to_le_bytes());
        put_text(&mut bytes, &self.owner);
        let mut sorted: Vec<_> = self.names.iter().collect();
        sorted.sort_unstable();
        for name in sorted {
            put_text(&mut bytes, name);
        }
        seal(&mut bytes);
        bytes.into()
    }

    /// Reads what [`encode`](Self::encode) made, from the object `name`.
    ///
    /// # Errors
    /// [`ObjectsError::Damaged`], and [`ObjectsError::Newer`] for a layout of a later version.
    pub fn decode(name: &str, cluster: Uuid, bytes: &[u8]) -> Result<Self, ObjectsError> {
        let mut fields = opened(name, NAMES_MAGIC, cluster, bytes)?;
        let mut read = || {
            let (lease_ms, count) = (fields.u64()?, fields.u32()? as usize);
            let owner = fields.text()?.to_owned();
            if count * NAME_MIN > fields.0.len() {
                return None;
            }
            let mut names = HashSet::with_capacity(count);
            for _ in 0..count {
                names.insert(fields.text().filter(|it| it.len() >= NAME_MIN)?.to_owned());
            }
            fields.end()?;
            Some(Self { lease_ms, owner, names })
        };
        read().ok_or_else(|| ObjectsError::damaged(name, "has a right checksum over wrong fields"))
    }
}
