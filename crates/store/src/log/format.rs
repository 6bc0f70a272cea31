//! Objects of a log: bytes and back. The byte table is in `docs/store-format.md`.

use bytes::Bytes;
use uuid::Uuid;

use super::error::LogError;
use super::position::{Position, ShardId};
use crate::objects::{Fields, ObjectsError, put_text, seal, unseal};

/// What every object begins with.
pub(super) const MAGIC: [u8; 8] = *b"pastolog";
/// Of the layout of objects.
pub const VERSION: u32 = 1;
/// An object has at most as many bytes, which is more than a record of a database; a longer one is refused
/// before it is read.
pub const OBJECT_MAX: u64 = 128 << 20;
/// An object has at most as many records.
pub const ENTRIES_MAX: usize = 1 << 20;
/// A leader's name has at most as many bytes.
pub const LEADER_MAX: usize = 255;
/// Bytes before the leader's name.
pub(super) const HEAD_BYTES: usize = 112;
/// Bytes of a record before its payload.
pub(super) const ENTRY_HEAD_BYTES: usize = 13;
/// Bytes of the checksum that ends an object.
pub(super) const CHECKSUM_BYTES: usize = 8;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the caller's own count.
    pub seq: u64,
    /// What it is, as the caller counts kinds.
    pub kind: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// A record that is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Its number in the caller's own count.
    pub seq: u64,
    /// What it is, as the caller counts kinds.
    pub kind: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What one object of the log holds. That of an opening holds no records, and the stamp of the batch
/// before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Where it stands.
    pub position: Position,
    /// The version of the catalogue that it was written under.
    pub catalogue_version: u64,
    /// A hybrid timestamp: milliseconds since 1970 times 2^18, and a count in the low bits.
    pub timestamp: u64,
    /// The records, in the order in which they were given.
    pub entries: Vec<Entry>,
}

/// What a batch is written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The version of the catalogue.
    pub catalogue_version: u64,
    /// A hybrid timestamp; never below that of the batch before.
    pub timestamp: u64,
}

/// Who leads, for those who are fenced and for people: 1 to [`LEADER_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderName(String);

impl LeaderName {
    /// Refuses what is empty or too long.
    pub fn new(name: impl Into<String>) -> Result<Self, LogError> {
        let name = name.into();
        if name.is_empty() || name.len() > LEADER_MAX {
            let (given, most) = (name.len() as u64, LEADER_MAX as u64);
            return Err(LogError::TooLarge { what: "bytes of a leader's name", given, most });
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Records as an object holds them, made by the caller's thread.
#[derive(Clone, Debug, Default)]
pub struct EncodedEntries {
    count: u32,
    bytes: Vec<u8>,
}

impl EncodedEntries {
    /// Copies the records, unless they are more than an object holds.
    pub fn new(entries: &[EntryRef<'_>]) -> Result<Self, LogError> {
        let bytes: u64 =
            entries.iter().map(|it| (ENTRY_HEAD_BYTES + it.payload.len()) as u64).sum();
        let most = OBJECT_MAX - (HEAD_BYTES + LEADER_MAX + CHECKSUM_BYTES) as u64;
        if bytes > most {
            return Err(LogError::TooLarge { what: "bytes of records", given: bytes, most });
        }
        if entries.len() > ENTRIES_MAX {
            let (given, most) = (entries.len() as u64, ENTRIES_MAX as u64);
            return Err(LogError::TooLarge { what: "records", given, most });
        }
        let mut encoded = Vec::with_capacity(bytes as usize);
        for entry in entries {
            encoded.extend_from_slice(&entry.seq.to_le_bytes());
            encoded.push(entry.kind);
            encoded.extend_from_slice(&(entry.payload.len() as u32).to_le_bytes());
            encoded.extend_from_slice(entry.payload);
        }
        Ok(Self { count: entries.len() as u32, bytes: encoded })
    }
}

/// What kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    /// Begins a term, and holds no records.
    Opening = 1,
    /// Holds records.
    Records = 2,
}

/// All of an object but its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectHead {
    pub(super) kind: ObjectKind,
    pub(super) cluster: Uuid,
    pub(super) shard: ShardId,
    pub(super) number: u64,
    pub(super) term: u64,
    /// Drawn for this object, by which its writer knows it again.
    pub(super) token: u128,
    pub(super) stamp: Stamp,
    /// Checksum of object `number - 1`; 0 for the first.
    pub(super) previous: u64,
    /// Number of the term's opening; of an opening, that of the term before, and 0 for the first.
    pub(super) opening: u64,
    pub(super) leader: String,
}

impl ObjectHead {
    pub(super) fn position(&self) -> Position {
        Position { term: self.term, number: self.number }
    }

    /// The object, and its checksum.
    pub(super) fn encode(&self, entries: &EncodedEntries) -> (Bytes, u64) {
        let length = HEAD_BYTES + self.leader.len() + entries.bytes.len() + CHECKSUM_BYTES;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.kind as u32).to_le_bytes());
        bytes.extend_from_slice(self.cluster.as_bytes());
        for number in [self.shard.0, self.number, self.term] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.token.to_le_bytes());
        let Stamp { catalogue_version, timestamp } = self.stamp;
        for number in [catalogue_version, timestamp, self.previous, self.opening] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&entries.count.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        put_text(&mut bytes, &self.leader);
        bytes.extend_from_slice(&entries.bytes);
        let checksum = seal(&mut bytes);
        debug_assert_eq!(bytes.len(), length, "an object is as long as its parts");
        (bytes.into(), checksum)
    }
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedObject {
    pub(super) head: ObjectHead,
    pub(super) entries: Vec<Entry>,
    pub(super) checksum: u64,
}

impl DecodedObject {
    pub(super) fn batch(self) -> Batch {
        let Stamp { catalogue_version, timestamp } = self.head.stamp;
        let position = self.head.position();
        Batch { position, catalogue_version, timestamp, entries: self.entries }
    }
}

/// The batch that the object `name` holds by itself, whatever its place in a log: for tools that look at
/// a store. A reader checks term, number and chain as well.
///
/// # Errors
/// [`LogError::Damaged`], and [`ObjectsError::Newer`] for a layout of a later version.
pub fn read_object(name: &str, bytes: &[u8]) -> Result<Batch, LogError> {
    decode(name, bytes).map(DecodedObject::batch)
}

/// Reads the object `name`, whatever its place in a log.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<DecodedObject, LogError> {
    let mut fields = Fields(bytes);
    if fields.array() != Some(MAGIC) {
        return Err(LogError::damaged(name, "is no object of a log"));
    }
    // Before the checksum, which a later version may have elsewhere.
    match fields.u32() {
        Some(VERSION) => {}
        Some(version) => {
            let object = name.to_owned();
            return Err(ObjectsError::Newer { object, version, known: VERSION }.into());
        }
        None => return Err(LogError::damaged(name, "ends within its head")),
    }
    let Some((body, checksum)) = unseal(bytes) else {
        return Err(LogError::damaged(name, "has a wrong checksum"));
    };
    let mut fields = Fields(&body[MAGIC.len() + 4..]);
    let (head, entries) = parts(&mut fields)
        .ok_or_else(|| LogError::damaged(name, "has a right checksum over wrong fields"))?;
    Ok(DecodedObject { head, entries, checksum })
}

fn parts(fields: &mut Fields<'_>) -> Option<(ObjectHead, Vec<Entry>)> {
    let kind = match fields.u32()? {
        1 => ObjectKind::Opening,
        2 => ObjectKind::Records,
        _ => return None,
    };
    let cluster = Uuid::from_bytes(fields.array()?);
    let shard = ShardId(fields.u64()?);
    let (number, term) = (fields.u64()?, fields.u64()?);
    let token = u128::from_le_bytes(fields.array()?);
    let stamp = Stamp { catalogue_version: fields.u64()?, timestamp: fields.u64()? };
    let (previous, opening) = (fields.u64()?, fields.u64()?);
    let count = fields.u32()? as usize;
    fields.zero(2)?;
    let leader = fields.text()?.to_owned();
    let few = kind == ObjectKind::Records || count == 0;
    if !few || count > ENTRIES_MAX || count * ENTRY_HEAD_BYTES > fields.0.len() {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let (seq, kind, length) = (fields.u64()?, fields.u8()?, fields.u32()?);
        entries.push(Entry { seq, kind, payload: fields.bytes(length as usize)?.to_vec() });
    }
    fields.end()?;
    let head =
        ObjectHead { kind, cluster, shard, number, term, token, stamp, previous, opening, leader };
    Some((head, entries))
}
