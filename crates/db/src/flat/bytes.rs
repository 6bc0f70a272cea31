//! Fixed-width little-endian fields of structures whose length was checked.

/// A field: name, offset, bytes.
pub(super) type Field = (&'static str, usize, usize);

/// CRC-64/NVMe, as everywhere in the formats.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// Writes `value`, whose length is the field's width.
pub(super) fn put(structure: &mut [u8], (_, offset, bytes): Field, value: &[u8]) {
    structure[offset..offset + bytes].copy_from_slice(value);
}

/// The bytes of a field; `N` is its width.
pub(super) fn get<const N: usize>(structure: &[u8], (name, offset, bytes): Field) -> [u8; N] {
    debug_assert_eq!(N, bytes, "field {name} has another width");
    let mut out = [0; N];
    out.copy_from_slice(&structure[offset..offset + bytes]);
    out
}

pub(super) fn u32_at(structure: &[u8], field: Field) -> u32 {
    u32::from_le_bytes(get(structure, field))
}

pub(super) fn u64_at(structure: &[u8], field: Field) -> u64 {
    u64::from_le_bytes(get(structure, field))
}
