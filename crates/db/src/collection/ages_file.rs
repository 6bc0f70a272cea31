//! The file `AGES`: when rows were written, of a collection with a time to live.
//!
//! It is replaced whole when a range begins. Rows behind its end count as written when they are next
//! met, so a file that is older, missing or damaged only lets rows live longer.

use super::age_ranges::{AgeRange, AgeRanges};
use crate::catalog::UnixMs;
use crate::files::{ByteField, agrees, checksum, field, get, put, u32_at, u64_at};
use crate::ids::RowId;

/// First bytes of the file.
const AGES_MAGIC: [u8; 8] = *b"PIPEAGES";
/// Version that this build writes; it reads no other.
const AGES_VERSION: u32 = 1;
/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;
/// More than the file takes.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// [`AGES_MAGIC`].
const MAGIC: ByteField = field("magic", 0, 8);
/// [`AGES_VERSION`].
const VERSION: ByteField = field("version", 8, 4);
/// How many ranges follow.
const RANGES: ByteField = field("ranges", 12, 4);
/// Identity of the collection.
const COLLECTION: ByteField = field("collection", 16, 16);
/// Nothing is known of this row and later ones.
const END: ByteField = field("end", 32, 8);
#[cfg(test)]
const HEADER: &[ByteField] = &[MAGIC, VERSION, RANGES, COLLECTION, END];
const HEADER_BYTES: usize = 40;

/// The first row.
const FIRST: ByteField = field("first row", 0, 8);
/// When the last row was written at the latest.
const UNTIL: ByteField = field("until", 8, 8);
#[cfg(test)]
const RANGE: &[ByteField] = &[FIRST, UNTIL];
const RANGE_BYTES: usize = 16;

/// The bytes of the file: a header, the ranges, and the checksum.
pub(super) fn encode(collection: [u8; 16], ages: &AgeRanges) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let count = u32::try_from(ages.ranges.len()).expect("the list is short");
    put(&mut bytes, MAGIC, &AGES_MAGIC);
    put(&mut bytes, VERSION, &AGES_VERSION.to_le_bytes());
    put(&mut bytes, RANGES, &count.to_le_bytes());
    put(&mut bytes, COLLECTION, &collection);
    put(&mut bytes, END, &ages.end.0.to_le_bytes());
    for range in &ages.ranges {
        let mut entry = [0; RANGE_BYTES];
        put(&mut entry, FIRST, &range.first.0.to_le_bytes());
        put(&mut entry, UNTIL, &range.until.0.to_le_bytes());
        bytes.extend(entry);
    }
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// The ages of these bytes, or what is wrong with them.
pub(super) fn decode(collection: [u8; 16], bytes: &[u8]) -> Result<AgeRanges, String> {
    let short = || format!("{} bytes are too few", bytes.len());
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    let (header, entries) = covered.split_at_checked(HEADER_BYTES).ok_or_else(short)?;
    if get(header, MAGIC) != AGES_MAGIC {
        return Err("it does not begin with PIPEAGES".to_owned());
    }
    if u32_at(header, VERSION) != AGES_VERSION {
        return Err(format!("version {} is unknown", u32_at(header, VERSION)));
    }
    if !agrees(u64::from_le_bytes(*sum), checksum(covered)) {
        return Err("its checksum is wrong".to_owned());
    }
    if get(header, COLLECTION) != collection {
        return Err("it belongs to another collection".to_owned());
    }
    let (entries, rest) = entries.as_chunks::<RANGE_BYTES>();
    if !rest.is_empty() || entries.len() != u32_at(header, RANGES) as usize {
        return Err(format!("{} ranges are not those that it tells of", entries.len()));
    }
    let range = |entry: &[u8; RANGE_BYTES]| AgeRange {
        first: RowId(u64_at(entry, FIRST)),
        until: UnixMs(u64_at(entry, UNTIL)),
    };
    let ranges: Vec<_> = entries.iter().map(range).collect();
    let end = RowId(u64_at(header, END));
    let in_order = ranges.windows(2).all(|pair| pair[0].first <= pair[1].first);
    if !in_order || ranges.last().is_some_and(|last| last.first > end) {
        return Err("its ranges are not in the order of rows".to_owned());
    }
    Ok(AgeRanges { ranges, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::damage::assert_damage_is_refused;
    use crate::files::documentation::assert_table;

    const ID: [u8; 16] = *b"a collection id.";

    fn some() -> AgeRanges {
        let range = |first, until| AgeRange { first: RowId(first), until: UnixMs(until) };
        AgeRanges { ranges: vec![range(0, 1_000), range(7, 1 << 40)], end: RowId(9) }
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = encode(ID, &some());
        assert_eq!(decode(ID, &bytes).unwrap(), some());
        assert!(decode(*b"another identity", &bytes).is_err());
        let none = AgeRanges::default();
        assert_eq!(decode(ID, &encode(ID, &none)).unwrap(), none);
    }

    #[test]
    fn a_cut_or_flipped_file_is_refused() {
        assert_damage_is_refused(&encode(ID, &some()), |bytes| decode(ID, bytes).is_err());
    }

    #[test]
    fn the_tables_have_no_gap_and_are_documented() {
        assert_eq!(assert_table("Ages of rows", HEADER), HEADER_BYTES);
        assert_eq!(assert_table("Range of ages", RANGE), RANGE_BYTES);
    }
}
