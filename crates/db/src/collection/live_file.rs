//! The file `LIVE`: the live rows as of the last flush.
//!
//! It saves reading the whole row store when a collection is opened. A file that is missing or
//! damaged is therefore made anew from the row store, and no row is lost with it.

use std::collections::BTreeMap;

use super::live::LiveRows;
use crate::files::{ByteField, agrees, checksum, field, get, put, take_treemap, u32_at, u64_at};
use crate::ids::{RowId, Seq};

/// First bytes of the file.
const LIVE_MAGIC: [u8; 8] = *b"PIPELIVE";
/// Version that this build writes; it reads no other.
const LIVE_VERSION: u32 = 1;
/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;

/// [`LIVE_MAGIC`].
const MAGIC: ByteField = field("magic", 0, 8);
/// [`LIVE_VERSION`].
const VERSION: ByteField = field("version", 8, 4);
/// How many partitions follow.
const PARTITIONS: ByteField = field("partitions", 12, 4);
/// Identity of the collection.
const COLLECTION: ByteField = field("collection", 16, 16);
/// The last log record that is included.
const APPLIED: ByteField = field("applied", 32, 8);
/// One more than the largest row id that was ever given out.
const NEXT_ROW: ByteField = field("next row", 40, 8);
/// All fields in order.
#[cfg(test)]
const FIELDS: &[ByteField] = &[MAGIC, VERSION, PARTITIONS, COLLECTION, APPLIED, NEXT_ROW];
const HEADER_BYTES: usize = 48;

/// The bytes of the file. Behind the header, for each partition: its number (4 bytes) and its
/// rows in the portable format of 64-bit Roaring bitmaps.
pub(super) fn encode(collection: [u8; 16], live: &LiveRows) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let mut count = 0_u32;
    for (number, rows) in live.partitions() {
        bytes.extend(number.to_le_bytes());
        rows.serialize_into(&mut bytes).expect("writing to memory does not fail");
        count += 1;
    }
    put(&mut bytes, MAGIC, &LIVE_MAGIC);
    put(&mut bytes, VERSION, &LIVE_VERSION.to_le_bytes());
    put(&mut bytes, PARTITIONS, &count.to_le_bytes());
    put(&mut bytes, COLLECTION, &collection);
    put(&mut bytes, APPLIED, &live.applied.0.to_le_bytes());
    put(&mut bytes, NEXT_ROW, &live.next_row.0.to_le_bytes());
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// The live rows of these bytes, or what is wrong with them.
pub(super) fn decode(collection: [u8; 16], bytes: &[u8]) -> Result<LiveRows, String> {
    let short = || format!("{} bytes are too few", bytes.len());
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    if covered.len() < HEADER_BYTES {
        return Err(short());
    }
    if get(covered, MAGIC) != LIVE_MAGIC {
        return Err("it does not begin with PIPELIVE".to_owned());
    }
    if u32_at(covered, VERSION) != LIVE_VERSION {
        return Err(format!("version {} is unknown", u32_at(covered, VERSION)));
    }
    if !agrees(u64::from_le_bytes(*sum), checksum(covered)) {
        return Err("its checksum is wrong".to_owned());
    }
    if get(covered, COLLECTION) != collection {
        return Err("it belongs to another collection".to_owned());
    }
    let mut body = &covered[HEADER_BYTES..];
    let mut partitions = BTreeMap::new();
    for _ in 0..u32_at(covered, PARTITIONS) {
        let (number, rest) = body.split_first_chunk::<4>().ok_or_else(short)?;
        let (rows, rest) = take_treemap(rest).ok_or("the rows of a partition cannot be read")?;
        partitions.insert(u32::from_le_bytes(*number), rows);
        body = rest;
    }
    if !body.is_empty() {
        return Err("something stands behind the last partition".to_owned());
    }
    Ok(LiveRows::new(Seq(u64_at(covered, APPLIED)), RowId(u64_at(covered, NEXT_ROW)), partitions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::damage::assert_damage_is_refused;
    use crate::files::documentation::assert_table;
    use crate::wal::{PutRow, Record};

    const ID: [u8; 16] = *b"a collection id.";

    fn some() -> LiveRows {
        let mut live = LiveRows::default();
        let row = |row, partition| PutRow { row: RowId(row), partition, key: b"", blob: b"" };
        live.apply(Seq(1), &Record::Put(vec![row(0, 3), row(1, 7), row(1 << 40, 3)]));
        live.apply(Seq(2), &Record::Delete(vec![RowId(1)]));
        live
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = encode(ID, &some());
        let read = decode(ID, &bytes).unwrap();
        assert_eq!(read, some());
        assert_eq!((read.len(), read.len_in(3), read.len_in(7)), (2, 2, 0));
        assert_eq!(read.next_row, RowId((1 << 40) + 1));
        assert!(decode(*b"another identity", &bytes).is_err());
    }

    #[test]
    fn a_promise_of_rows_that_are_not_there_is_refused_before_there_is_room_for_them() {
        let mut bytes = encode(ID, &some());
        bytes.truncate(HEADER_BYTES + 4);
        bytes.extend((1_u64 << 40).to_le_bytes());
        bytes.extend([7, 0, 0, 0]);
        bytes.extend([12346_u32, 1 << 16].map(u32::to_le_bytes).concat());
        bytes.extend(checksum(&bytes).to_le_bytes());
        assert!(decode(ID, &bytes).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn a_cut_or_flipped_file_is_refused() {
        assert_damage_is_refused(&encode(ID, &some()), |bytes| decode(ID, bytes).is_err());
    }

    #[test]
    fn the_header_has_no_gap_and_is_documented() {
        assert_eq!(assert_table("Live rows", FIELDS), HEADER_BYTES);
    }
}
