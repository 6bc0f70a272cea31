//! Entries of a column as bytes: a key, and the rows that have it.
//!
//! ```text
//! shared (1) | suffix bytes (1) | suffix | rows (varint) | payload bytes (varint) | payload
//! ```
//!
//! A key is what it shares with the one before, and a suffix; the first entry of a block shares
//! nothing. Up to [`LISTED_ROWS`] rows are listed: the first as its distance from the first row of
//! the run, the others from the one before, all as varints (7 bits a byte, the least first, the
//! top bit set but in the last). More are a 32-bit Roaring bitmap in the portable format.

use roaring::RoaringBitmap;

use super::row_map::RowMap;
use crate::files::take_bitmap;

/// More rows than these make a bitmap.
pub(super) const LISTED_ROWS: usize = 256;

fn push_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint off the front; `None` where there is none.
#[inline]
fn take_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends entries to the bytes of a block.
#[derive(Debug, Default)]
pub(super) struct EntryWriter {
    pub(super) bytes: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
    payload: Vec<u8>,
}

impl EntryWriter {
    /// Appends `key` with ascending `rows` (the lower halves of their ids); `base` is the first
    /// row of the run. Keys have to ascend.
    pub(super) fn push(&mut self, key: &[u8], rows: &[u32], base: u32) {
        let mut shared = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        if self.bytes.is_empty() {
            shared = 0;
            self.first = key.to_vec();
        }
        let narrow = |n: usize| u8::try_from(n).expect("a key is at most KEY_BYTES long");
        self.bytes.extend([narrow(shared), narrow(key.len() - shared)]);
        self.bytes.extend(&key[shared..]);
        push_varint(u32::try_from(rows.len()).expect("rows of a run fit 32 bits"), &mut self.bytes);
        self.payload.clear();
        if rows.len() <= LISTED_ROWS {
            let mut before = base;
            for &row in rows {
                push_varint(row - before, &mut self.payload);
                before = row;
            }
        } else {
            let bitmap = RoaringBitmap::from_sorted_iter(rows.iter().copied());
            let bitmap = bitmap.expect("rows ascend");
            bitmap.serialize_into(&mut self.payload).expect("writing to memory does not fail");
        }
        let length = u32::try_from(self.payload.len()).expect("a bitmap has less than 4 GiB");
        push_varint(length, &mut self.bytes);
        self.bytes.extend(&self.payload);
        self.last.clear();
        self.last.extend(key);
    }

    /// The first key of the block and its bytes; the next entry begins another.
    pub(super) fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.first), std::mem::take(&mut self.bytes))
    }
}

/// The rows of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRows<'a> {
    pub(super) count: u32,
    base: u32,
    payload: &'a [u8],
}

/// Bytes that are no entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadEntry;

impl EntryRows<'_> {
    /// Whether they are a bitmap.
    pub(super) fn is_bitmap(&self) -> bool {
        self.count as usize > LISTED_ROWS
    }

    /// Appends a list of rows.
    pub(super) fn list_into(&self, out: &mut Vec<u32>) -> Result<(), BadEntry> {
        let (mut payload, mut row) = (self.payload, self.base);
        for _ in 0..self.count {
            let step = take_varint(&mut payload).ok_or(BadEntry)?;
            row = row.checked_add(step).ok_or(BadEntry)?;
            out.push(row);
        }
        Ok(())
    }

    /// The bitmap, with as many rows as the entry says: one of a few bytes may stand for all rows.
    pub(super) fn bitmap(&self) -> Result<RoaringBitmap, BadEntry> {
        let (bitmap, _) = take_bitmap(self.payload).ok_or(BadEntry)?;
        if bitmap.len() == u64::from(self.count) { Ok(bitmap) } else { Err(BadEntry) }
    }

    /// Appends the rows, however they stand.
    pub(super) fn rows_into(&self, out: &mut Vec<u32>) -> Result<(), BadEntry> {
        if self.is_bitmap() {
            out.extend(self.bitmap()?);
            return Ok(());
        }
        self.list_into(out)
    }
}

/// Reads the entries of a block from front to back.
#[derive(Debug)]
pub(super) struct EntryReader<'a> {
    bytes: &'a [u8],
    base: u32,
    /// Rows of the run; no entry has more.
    rows: u32,
    key: Vec<u8>,
}

impl<'a> EntryReader<'a> {
    /// Reads a block of a run with these rows.
    pub(super) fn new(bytes: &'a [u8], map: &RowMap) -> Self {
        Self::resume(bytes, map, Vec::new())
    }

    /// The key of the entry that was read last.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Continues where another reader of the same block stood: its key, and the bytes it had left.
    pub(super) fn resume(bytes: &'a [u8], map: &RowMap, key: Vec<u8>) -> Self {
        Self { bytes, base: map.first(), rows: map.rows(), key }
    }

    /// The key, and how many bytes are left.
    pub(super) fn suspend(self) -> (Vec<u8>, usize) {
        (self.key, self.bytes.len())
    }

    /// The rows of the next entry; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<EntryRows<'a>>, BadEntry> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.entry().ok_or(BadEntry).map(Some)
    }

    fn entry(&mut self) -> Option<EntryRows<'a>> {
        let (&[shared, suffix], rest) = self.bytes.split_first_chunk::<2>()?;
        let (suffix, mut rest) = rest.split_at_checked(suffix.into())?;
        if usize::from(shared) > self.key.len() {
            return None;
        }
        self.key.truncate(shared.into());
        self.key.extend(suffix);
        let count = take_varint(&mut rest).filter(|count| *count <= self.rows)?;
        let payload = take_varint(&mut rest)?;
        let (payload, rest) = rest.split_at_checked(payload as usize)?;
        self.bytes = rest;
        Some(EntryRows { count, base: self.base, payload })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn map(rows: std::ops::Range<u32>) -> RowMap {
        RowMap::new(0, &rows.collect())
    }

    fn entries() -> impl Strategy<Value = BTreeMap<Vec<u8>, BTreeSet<u32>>> {
        let key = proptest::collection::vec(prop_oneof![Just(0_u8), Just(7), any::<u8>()], 0..10);
        let rows = proptest::collection::btree_set(100_u32..100_000, 1..400);
        proptest::collection::btree_map(key, rows, 0..8)
    }

    proptest! {
        #[test]
        fn entries_are_read_back(entries in entries()) {
            let mut writer = EntryWriter::default();
            for (key, rows) in &entries {
                let rows: Vec<u32> = rows.iter().copied().collect();
                writer.push(key, &rows, 90);
            }
            let (_, bytes) = writer.take();
            let mut reader = EntryReader::new(&bytes, &map(90..100_000));
            let mut read = BTreeMap::new();
            while let Some(rows) = reader.next().unwrap() {
                let mut list = Vec::new();
                rows.rows_into(&mut list).unwrap();
                prop_assert_eq!(rows.count as usize, list.len());
                read.insert(reader.key().to_vec(), list.into_iter().collect());
            }
            prop_assert_eq!(read, entries);
        }

        #[test]
        fn arbitrary_bytes_are_never_read_past_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut reader = EntryReader::new(&bytes, &map(0..1000));
            while let Ok(Some(rows)) = reader.next() {
                let _ = rows.rows_into(&mut Vec::new());
            }
        }
    }

    #[test]
    fn an_entry_of_more_rows_than_its_run_has_or_than_it_says_is_refused() {
        let mut writer = EntryWriter::default();
        writer.push(b"a", &(10..400).collect::<Vec<_>>(), 10);
        let (_, mut bytes) = writer.take();
        assert_eq!(EntryReader::new(&bytes, &map(10..300)).next().err(), Some(BadEntry));
        // 390 rows as a varint, and one more.
        assert_eq!(bytes[3..5], [0x86, 3]);
        bytes[3] += 1;
        let map = map(0..1000);
        let rows = EntryReader::new(&bytes, &map).next().unwrap().unwrap();
        assert_eq!(rows.rows_into(&mut Vec::new()), Err(BadEntry));
    }

    #[test]
    fn bytes_of_entries_are_these() {
        let mut writer = EntryWriter::default();
        writer.push(b"ab", &[12, 300], 10);
        writer.push(b"ac", &[10], 10);
        let (first, bytes) = writer.take();
        assert_eq!(first, b"ab");
        assert_eq!(bytes, [0, 2, b'a', b'b', 2, 3, 2, 0xa0, 2, 1, 1, b'c', 1, 1, 0]);
    }
}
