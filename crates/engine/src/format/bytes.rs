//! Fixed-width little-endian fields, and a reader that runs out instead of panicking.
//!
//! [`get`] and [`put`] take a [`ByteField`] and a slice whose length the caller has checked against
//! the structure's width. [`Reader`] walks variable-length structures of unknown bytes.

use super::constants::ByteField;

/// The bytes of `field`; `N` is its width.
pub(super) fn get<const N: usize>(structure: &[u8], field: ByteField) -> [u8; N] {
    debug_assert_eq!(N, field.bytes, "field {} has another width", field.name);
    let mut out = [0; N];
    out.copy_from_slice(&structure[field.offset..field.offset + N]);
    out
}

pub(super) fn get_u16(structure: &[u8], field: ByteField) -> u16 {
    u16::from_le_bytes(get(structure, field))
}

pub(super) fn get_u32(structure: &[u8], field: ByteField) -> u32 {
    u32::from_le_bytes(get(structure, field))
}

pub(super) fn get_u64(structure: &[u8], field: ByteField) -> u64 {
    u64::from_le_bytes(get(structure, field))
}

/// Writes `value`, whose length is the field's width.
pub(super) fn put(structure: &mut [u8], field: ByteField, value: &[u8]) {
    structure[field.offset..field.offset + field.bytes].copy_from_slice(value);
}

/// `bytes` as u32 numbers; a rest of less than four bytes is dropped.
pub(super) fn u32s(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c))
}

/// The reader wanted more bytes than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfBytes;

/// Takes parts from the front of a slice.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], OutOfBytes> {
        let (head, rest) = self.rest.split_at_checked(bytes).ok_or(OutOfBytes)?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }
}
