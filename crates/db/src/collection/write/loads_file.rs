//! The file `LOADS`: which bulk loads there were, and how far each has come.
//!
//! It is replaced before each batch of a load, and cannot be made anew from anything else. A
//! collection whose file is damaged opens all the same, and refuses loads only.

use pipeann_engine::format::constants::ByteField;

use crate::files::agrees;
use crate::ids::RowId;

/// First bytes of the file.
const LOADS_MAGIC: [u8; 8] = *b"PIPELOAD";
/// Version that this build writes; it reads no other.
const LOADS_VERSION: u32 = 1;
/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;
/// More than the file takes, with as many loads as are kept.
pub(in crate::collection) const MAX_LOADS_BYTES: u64 = 4 << 20;

/// [`LOADS_MAGIC`].
const MAGIC: ByteField = ByteField { name: "magic", offset: 0, bytes: 8 };
/// [`LOADS_VERSION`].
const VERSION: ByteField = ByteField { name: "version", offset: 8, bytes: 4 };
/// How many loads follow.
const LOADS: ByteField = ByteField { name: "loads", offset: 12, bytes: 4 };
/// Identity of the collection.
const COLLECTION: ByteField = ByteField { name: "collection", offset: 16, bytes: 16 };
#[cfg(test)]
const HEADER: &[ByteField] = &[MAGIC, VERSION, LOADS, COLLECTION];
const HEADER_BYTES: usize = 32;

/// What tells the source from others.
const SOURCE: ByteField = ByteField { name: "source", offset: 0, bytes: 16 };
/// Rows of the source that are in the collection for certain.
const DONE: ByteField = ByteField { name: "done", offset: 16, bytes: 8 };
/// Rows of the batch that was announced last and is not among those; 0 where there is none.
const ANNOUNCED: ByteField = ByteField { name: "announced", offset: 24, bytes: 8 };
/// The row id that the announced batch begins with.
const FIRST_ROW: ByteField = ByteField { name: "first row", offset: 32, bytes: 8 };
/// 1 where the load came to its end.
const FINISHED: ByteField = ByteField { name: "finished", offset: 40, bytes: 2 };
/// Bytes of the name, which follows.
const NAME_BYTES: ByteField = ByteField { name: "name bytes", offset: 42, bytes: 2 };
#[cfg(test)]
const LOAD: &[ByteField] = &[SOURCE, DONE, ANNOUNCED, FIRST_ROW, FINISHED, NAME_BYTES];
const LOAD_BYTES: usize = 44;

/// One load, as it is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::collection) struct LoadEntry {
    /// Name given by the user; at most 255 bytes.
    pub(in crate::collection) name: String,
    /// What tells its source from others.
    pub(in crate::collection) source: u128,
    /// Rows of the source that are in the collection for certain.
    pub(in crate::collection) done: u64,
    /// Whether it came to its end.
    pub(in crate::collection) finished: bool,
    /// The batch that is being written.
    pub(in crate::collection) announced: Option<Announced>,
}

/// A batch that may be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::collection) struct Announced {
    /// Its rows, at least 1.
    pub(in crate::collection) rows: u64,
    /// Its first row id, which no other batch is given.
    pub(in crate::collection) first: RowId,
}

/// The bytes of the file. Behind the header the loads, oldest first, each with its name.
pub(in crate::collection) fn encode(collection: [u8; 16], loads: &[LoadEntry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = u32::try_from(loads.len()).expect("the number of loads is bounded");
    let header: [&[u8]; 4] =
        [&LOADS_MAGIC, &LOADS_VERSION.to_le_bytes(), &count.to_le_bytes(), &collection];
    header.iter().for_each(|part| bytes.extend_from_slice(part));
    for load in loads {
        let announced = load.announced.unwrap_or(Announced { rows: 0, first: RowId(0) });
        let name_bytes = u16::try_from(load.name.len()).expect("a name has 255 bytes at most");
        bytes.extend(load.source.to_le_bytes());
        bytes.extend(load.done.to_le_bytes());
        bytes.extend(announced.rows.to_le_bytes());
        bytes.extend(announced.first.0.to_le_bytes());
        bytes.extend(u16::from(load.finished).to_le_bytes());
        bytes.extend(name_bytes.to_le_bytes());
        bytes.extend(load.name.as_bytes());
    }
    bytes.extend(crc_fast::crc64_nvme(&bytes).to_le_bytes());
    bytes
}

/// The loads of these bytes, or what is wrong with them.
pub(in crate::collection) fn decode(
    collection: [u8; 16],
    bytes: &[u8],
) -> Result<Vec<LoadEntry>, String> {
    let short = || format!("{} bytes are too few", bytes.len());
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    let (header, mut rest) = covered.split_at_checked(HEADER_BYTES).ok_or_else(short)?;
    if field(header, &MAGIC) != u128::from(u64::from_le_bytes(LOADS_MAGIC)) {
        return Err("it does not begin with PIPELOAD".to_owned());
    }
    if field(header, &VERSION) != u128::from(LOADS_VERSION) {
        return Err(format!("version {} is unknown", field(header, &VERSION)));
    }
    if !agrees(u64::from_le_bytes(*sum), crc_fast::crc64_nvme(covered)) {
        return Err("its checksum is wrong".to_owned());
    }
    if field(header, &COLLECTION) != u128::from_le_bytes(collection) {
        return Err("it belongs to another collection".to_owned());
    }
    let mut loads = Vec::new();
    for _ in 0..field(header, &LOADS) {
        let (entry, behind) = rest.split_at_checked(LOAD_BYTES).ok_or_else(short)?;
        let name_bytes = u16_of(entry, &NAME_BYTES);
        let (name, behind) = behind.split_at_checked(name_bytes.into()).ok_or_else(short)?;
        let rows = u64_of(entry, &ANNOUNCED);
        let first = RowId(u64_of(entry, &FIRST_ROW));
        loads.push(LoadEntry {
            name: String::from_utf8(name.into()).map_err(|e| e.to_string())?,
            source: field(entry, &SOURCE),
            done: u64_of(entry, &DONE),
            finished: u16_of(entry, &FINISHED) != 0,
            announced: (rows > 0).then_some(Announced { rows, first }),
        });
        rest = behind;
    }
    if rest.is_empty() { Ok(loads) } else { Err("something stands behind the last load".into()) }
}

/// A number of at most 16 bytes.
fn field(bytes: &[u8], field: &ByteField) -> u128 {
    let mut wide = [0; 16];
    wide[..field.bytes].copy_from_slice(&bytes[field.offset..][..field.bytes]);
    u128::from_le_bytes(wide)
}

fn u64_of(bytes: &[u8], of: &ByteField) -> u64 {
    u64::try_from(field(bytes, of)).expect("a field of 8 bytes")
}

fn u16_of(bytes: &[u8], of: &ByteField) -> u16 {
    u16::try_from(field(bytes, of)).expect("a field of 2 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::damage::assert_damage_is_refused;

    const ID: [u8; 16] = *b"a collection id.";

    fn some() -> Vec<LoadEntry> {
        let announced = Some(Announced { rows: 5, first: RowId(1 << 40) });
        let load = |name: &str, announced: Option<Announced>| LoadEntry {
            name: name.to_owned(),
            source: u128::MAX - 7,
            done: 1 << 33,
            finished: announced.is_none(),
            announced,
        };
        vec![load("one", announced), load("zwölf", None)]
    }

    #[test]
    fn what_was_written_is_read() {
        for loads in [Vec::new(), some()] {
            assert_eq!(decode(ID, &encode(ID, &loads)), Ok(loads));
        }
        assert!(decode(*b"another identity", &encode(ID, &some())).is_err());
    }

    #[test]
    fn a_cut_or_flipped_file_is_refused() {
        assert_damage_is_refused(&encode(ID, &some()), |bytes| decode(ID, bytes).is_err());
    }

    #[test]
    fn the_tables_have_no_gap_and_are_documented() {
        let page = include_str!("../../../../../docs/database-format.md");
        let section = page.split_once("## Bulk loads").expect("the section is there").1;
        for (fields, bytes) in [(HEADER, HEADER_BYTES), (LOAD, LOAD_BYTES)] {
            let mut end = 0;
            for field in fields {
                assert_eq!(field.offset, end, "{}", field.name);
                end += field.bytes;
                let row = format!("| {} | {} | {} |", field.offset, field.bytes, field.name);
                assert!(section.contains(&row), "no row `{row}`");
            }
            assert_eq!(end, bytes);
        }
    }
}
