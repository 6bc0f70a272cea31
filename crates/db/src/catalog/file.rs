//! The catalogue as bytes: a header, JSON, a checksum; behind them the changes since, see `tail`.
//!
//! JSON, because the file is small and changes seldom, and because it is what somebody will want
//! to read, or to repair, on a bad day. Unknown fields are refused, so a file of a later build
//! is never half understood: whoever adds a field raises the version. `docs/database-format.md`
//! has the byte table.

use super::error::{CatalogError, FileError};
use super::snapshot::Snapshot;
use super::tail::{FileTail, follow};
use super::validate::validate;
use super::version::CATALOG_VERSION;
use crate::files::agrees;
use crate::value::VectorKind;

/// Name of the file in the directory of the database.
pub const CATALOG_FILE: &str = "CATALOG";
/// First bytes of the file.
pub const CATALOG_MAGIC: [u8; 8] = *b"PIPECATL";
/// The first version that changes may follow.
const FOLLOWED_SINCE: u32 = 3;
/// Kinds that stood in rows under version 1, since nothing searched them.
const FORMERLY_IN_ROWS: [VectorKind; 4] =
    [VectorKind::Int8, VectorKind::Float16, VectorKind::BFloat16, VectorKind::Binary];

/// Start of the file; the body and the checksum follow, and then changes.
pub mod file_header {
    use pipeann_engine::format::constants::ByteField;

    /// [`super::CATALOG_MAGIC`].
    pub const MAGIC: ByteField = ByteField { name: "magic", offset: 0, bytes: 8 };
    /// [`super::CATALOG_VERSION`].
    pub const VERSION: ByteField = ByteField { name: "version", offset: 8, bytes: 4 };
    /// Zero.
    pub const RESERVED: ByteField = ByteField { name: "reserved", offset: 12, bytes: 4 };
    /// Length of the body.
    pub const BODY_BYTES: ByteField = ByteField { name: "body bytes", offset: 16, bytes: 8 };
    /// All fields in order.
    pub const FIELDS: &[ByteField] = &[MAGIC, VERSION, RESERVED, BODY_BYTES];
    /// Width of the header.
    pub const BYTES: usize = 24;
}

/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;

impl Snapshot {
    /// The catalogue of a file's bytes.
    ///
    /// # Errors
    /// [`CatalogError::File`].
    pub fn from_file_bytes(bytes: &[u8]) -> Result<Self, CatalogError> {
        Ok(decode(bytes)?.snapshot)
    }

    /// The bytes of a file that holds it.
    pub fn to_file_bytes(&self) -> Vec<u8> {
        encode(self).0
    }
}

/// The bytes of a catalogue, which no changes follow, and what the first one needs to do so.
pub(super) fn encode(snapshot: &Snapshot) -> (Vec<u8>, FileTail) {
    let body = serde_json::to_vec(snapshot).expect("maps with text keys, and finite numbers");
    let mut bytes = Vec::with_capacity(file_header::BYTES + body.len() + CHECKSUM_BYTES);
    bytes.extend(CATALOG_MAGIC);
    bytes.extend(CATALOG_VERSION.to_le_bytes());
    bytes.extend([0; file_header::RESERVED.bytes]);
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    let seal = crc_fast::crc64_nvme(&bytes);
    bytes.extend(seal.to_le_bytes());
    let tail = FileTail::behind(seal, bytes.len());
    (bytes, tail)
}

/// What a file says.
#[derive(Debug, PartialEq)]
pub(super) struct Decoded {
    /// The catalogue, with all changes made.
    pub(super) snapshot: Snapshot,
    /// Whether something stands behind the catalogue.
    pub(super) followed: bool,
    /// Whether the last change might not be on stable storage.
    pub(super) unvouched: bool,
}

/// The catalogue of these bytes, with everything in it checked.
pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, FileError> {
    let short = FileError::Short { found: bytes.len() };
    let header = bytes.first_chunk::<{ file_header::BYTES }>().ok_or_else(|| short.clone())?;
    if header[..CATALOG_MAGIC.len()] != CATALOG_MAGIC {
        return Err(FileError::Magic);
    }
    let &[_, _, _, _, _, _, _, _, v0, v1, v2, v3, _, _, _, _, body_bytes @ ..] = header;
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if !(1..=CATALOG_VERSION).contains(&version) {
        return Err(FileError::Version { found: version });
    }
    let frame = (file_header::BYTES + CHECKSUM_BYTES) as u64;
    let expected = u64::from_le_bytes(body_bytes).saturating_add(frame);
    let found = bytes.len() as u64;
    if expected > found || (expected < found && version < FOLLOWED_SINCE) {
        return Err(FileError::Length { expected, found });
    }
    let end = usize::try_from(expected).expect("no more than the bytes there are");
    let (whole, changes) = bytes.split_at(end);
    let (covered, checksum) = whole.split_last_chunk::<CHECKSUM_BYTES>().ok_or(short)?;
    let (expected, found) = (crc_fast::crc64_nvme(covered), u64::from_le_bytes(*checksum));
    if !agrees(found, expected) {
        return Err(FileError::Checksum { expected, found });
    }
    let mut snapshot: Snapshot = serde_json::from_slice(&covered[file_header::BYTES..])
        .map_err(|error| FileError::Body(error.to_string()))?;
    // Under its checksum, or that which it has where none is asked for: frames name it.
    let unvouched = follow(changes, end, found, &mut snapshot)?;
    validate(&snapshot).map_err(FileError::Contradiction)?;
    if version == 1 {
        check_placement(&snapshot)?;
    }
    Ok(Decoded { snapshot, followed: !changes.is_empty(), unvouched })
}

/// Refuses collections whose vectors stand elsewhere than this build looks for them.
fn check_placement(snapshot: &Snapshot) -> Result<(), FileError> {
    for collection in snapshot.collections.values() {
        let moved = |kind: Option<VectorKind>| kind.is_some_and(|k| FORMERLY_IN_ROWS.contains(&k));
        let mut fields = collection.schema.fields().iter().map(|field| &field.spec);
        if let Some(spec) = fields.find(|spec| moved(spec.data_type.vector_kind())) {
            return Err(FileError::VectorsInRows {
                collection: collection.name.clone(),
                field: spec.name.clone(),
                data_type: spec.data_type,
            });
        }
    }
    Ok(())
}
