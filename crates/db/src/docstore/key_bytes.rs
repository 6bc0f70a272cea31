//! How keys and rows are spelled in the embedded store.
//!
//! An entry of the key tree is `escaped key | 0 0 | row id, big-endian`, without a value. In the
//! escaped key every zero byte is followed by 255, so that the terminator ends it and the order
//! of entries is the order of keys, then of row ids. An entry of the row tree is the row id,
//! big-endian, with the value `partition | key length | key | blob`.

use super::Row;
use crate::ids::RowId;

/// The longest primary key, bytes. Escaping may double it, and the embedded store takes entries
/// of at most 65,535 bytes.
pub const MAX_KEY_BYTES: usize = (u16::MAX as usize - TERMINATOR.len() - ROW_BYTES) / 2;

const TERMINATOR: [u8; 2] = [0, 0];
const ESCAPED_ZERO: [u8; 2] = [0, 255];
/// Width of a row id.
pub(super) const ROW_BYTES: usize = 8;
/// Width of partition and key length before a row's key.
pub(super) const ROW_HEADER_BYTES: usize = 8;

/// What all entries of `key` begin with, into `out`.
pub(super) fn key_prefix(key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for &byte in key {
        match byte {
            0 => out.extend_from_slice(&ESCAPED_ZERO),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(&TERMINATOR);
}

/// The entry of `key` for `row`, into `out`.
pub(super) fn key_entry(key: &[u8], row: RowId, out: &mut Vec<u8>) {
    key_prefix(key, out);
    out.extend_from_slice(&row_key(row));
}

/// Length of an entry of `key`.
pub(super) fn entry_bytes(key: &[u8]) -> usize {
    let zeros = key.iter().filter(|byte| **byte == 0).count();
    key.len() + zeros + TERMINATOR.len() + ROW_BYTES
}

/// The row id at the end of a key entry; `None` where the entry is too short.
pub(super) fn entry_row(entry: &[u8]) -> Option<RowId> {
    entry.last_chunk().map(|row| RowId(u64::from_be_bytes(*row)))
}

/// Key and row id of an entry, the key into `out`; `None` where the bytes are no entry.
pub(super) fn decode_entry(entry: &[u8], out: &mut Vec<u8>) -> Option<RowId> {
    let row = entry_row(entry)?;
    let escaped = entry[..entry.len() - ROW_BYTES].strip_suffix(&TERMINATOR)?;
    out.clear();
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0 && bytes.next() != Some(&ESCAPED_ZERO[1]) {
            return None;
        }
        out.push(byte);
    }
    Some(row)
}

/// The key of a row in the row tree.
pub(super) fn row_key(row: RowId) -> [u8; ROW_BYTES] {
    row.0.to_be_bytes()
}

/// Appends the value of a row in the row tree to `value`.
pub(super) fn row_value(partition: u32, key: &[u8], blob: &[u8], value: &mut Vec<u8>) {
    value.reserve(ROW_HEADER_BYTES + key.len() + blob.len());
    value.extend_from_slice(&partition.to_le_bytes());
    let key_bytes = u32::try_from(key.len()).expect("a key is at most MAX_KEY_BYTES long");
    value.extend_from_slice(&key_bytes.to_le_bytes());
    value.extend_from_slice(key);
    value.extend_from_slice(blob);
}

/// The parts of a row's value; `None` where the bytes are no row.
pub(super) fn decode_row(row: RowId, value: &[u8]) -> Option<Row<'_>> {
    let (partition, rest) = value.split_first_chunk::<4>()?;
    let (key_bytes, rest) = rest.split_first_chunk::<4>()?;
    let key_bytes = usize::try_from(u32::from_le_bytes(*key_bytes)).ok()?;
    let (key, blob) = rest.split_at_checked(key_bytes)?;
    Some(Row { row, partition: u32::from_le_bytes(*partition), key, blob })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &[u8], row: u64) -> Vec<u8> {
        let mut out = Vec::new();
        key_entry(key, RowId(row), &mut out);
        out
    }

    fn short_key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..5)
    }

    proptest! {
        #[test]
        fn entries_keep_the_order_of_keys_and_rows(
            a in (short_key(), 0u64..3), b in (short_key(), 0u64..3)
        ) {
            prop_assert_eq!(entry(&a.0, a.1).cmp(&entry(&b.0, b.1)), a.cmp(&b));
        }

        #[test]
        fn entries_are_read_back(key in short_key(), row in any::<u64>()) {
            let mut read = Vec::new();
            prop_assert_eq!(decode_entry(&entry(&key, row), &mut read), Some(RowId(row)));
            prop_assert_eq!(read, key);
        }

        #[test]
        fn the_length_of_an_entry_is_known_beforehand(key in short_key(), row in any::<u64>()) {
            prop_assert_eq!(entry_bytes(&key), entry(&key, row).len());
        }

        #[test]
        fn the_prefix_of_a_key_begins_its_entries_only(a in short_key(), b in short_key()) {
            let mut prefix = Vec::new();
            key_prefix(&a, &mut prefix);
            prop_assert_eq!(entry(&b, 7).starts_with(&prefix), a == b);
        }

        #[test]
        fn arbitrary_bytes_are_never_read_past_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_entry(&bytes, &mut Vec::new());
            if let Some(row) = decode_row(RowId(1), &bytes) {
                prop_assert_eq!(ROW_HEADER_BYTES + row.key.len() + row.blob.len(), bytes.len());
            }
        }
    }

    #[test]
    fn the_longest_key_of_zeros_fits_an_entry() {
        assert!(entry(&vec![0; MAX_KEY_BYTES], u64::MAX).len() <= usize::from(u16::MAX));
    }

    #[test]
    fn bytes_of_rows_and_keys_are_these() {
        let mut value = vec![1];
        row_value(3, b"k", b"bl", &mut value);
        assert_eq!(value, [1, 3, 0, 0, 0, 1, 0, 0, 0, b'k', b'b', b'l']);
        assert_eq!(entry(b"a\0b", 258), [b'a', 0, 255, b'b', 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
