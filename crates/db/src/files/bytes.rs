//! Fixed-width little-endian fields of structures whose length was checked.

pub(crate) use pipeann_engine::format::constants::ByteField;

/// A field, spelled in one line.
pub(crate) const fn field(name: &'static str, offset: usize, bytes: usize) -> ByteField {
    ByteField { name, offset, bytes }
}

/// CRC-64/NVMe, as everywhere in the formats.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// Whether the checksum that is stored is the one that was computed. A program made for fuzzing
/// (`--cfg fuzzing`) takes any, so that bytes which nobody sealed reach what a checksum guards.
pub(crate) fn agrees(stored: u64, computed: u64) -> bool {
    stored == computed || cfg!(fuzzing)
}

/// Writes `value`, whose length is the field's width.
pub(crate) fn put(structure: &mut [u8], field: ByteField, value: &[u8]) {
    structure[field.offset..field.offset + field.bytes].copy_from_slice(value);
}

/// The bytes of a field; `N` is its width.
pub(crate) fn get<const N: usize>(structure: &[u8], field: ByteField) -> [u8; N] {
    debug_assert_eq!(N, field.bytes, "field {} has another width", field.name);
    let mut out = [0; N];
    out.copy_from_slice(&structure[field.offset..field.offset + field.bytes]);
    out
}

pub(crate) fn u32_at(structure: &[u8], field: ByteField) -> u32 {
    u32::from_le_bytes(get(structure, field))
}

pub(crate) fn u64_at(structure: &[u8], field: ByteField) -> u64 {
    u64::from_le_bytes(get(structure, field))
}
