//! `docs/database-format.md` against the constants, and the bytes of a small store.

use std::fs;

use super::*;
use crate::files::documentation::assert_table;
use crate::flat::{block, manifest};

#[test]
fn byte_tables_of_flat_vectors_agree_with_the_constants() {
    assert_table("Flat vectors: header of FLAT", manifest::HEADER);
    assert_table("Flat vectors: one segment in FLAT", manifest::ENTRY);
    assert_table("Flat vectors: header of a block", block::HEADER);
}

#[test]
fn a_small_store_is_written_with_these_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let flat = open(dir.path());
    append(&flat, 0x0304, &[(9, *b"abcde"), (8, *b"fghij")]);
    flat.flush().unwrap();
    let with_checksum = |mut bytes: Vec<u8>| {
        bytes.extend(crc_fast::crc64_nvme(&bytes).to_le_bytes());
        bytes
    };
    let of_field = |bytes: &[u8]| crc_fast::crc64_nvme(bytes) ^ crc_fast::crc64_nvme(&FIELD);
    let list = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let mut header = b"PIPEFLAT\x02\0\0\0\x01\0\0\0".to_vec();
    header.extend_from_slice(&FIELD);
    header.extend_from_slice(&[5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    header.extend_from_slice(&[4, 3, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    header.extend(crc_fast::crc64_nvme(&list).to_le_bytes());
    let mut expected = with_checksum(header);
    expected.extend_from_slice(&list);
    assert_eq!(fs::read(dir.path().join("FLAT")).unwrap(), expected);

    let capacity = ((64 << 10) - 24) / 13;
    let mut block = vec![0; 64 << 10];
    block[8..24].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    (block[24], block[32]) = (9, 8);
    let vectors = 24 + capacity * 8;
    block[vectors..vectors + 10].copy_from_slice(b"abcdefghij");
    let sum = of_field(&block[8..]);
    block[..8].copy_from_slice(&sum.to_le_bytes());
    let mut spans = vec![8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    spans.extend(of_field(&spans).to_le_bytes());
    let segment = fs::read(dir.path().join("segment-000001")).unwrap();
    assert_eq!(segment, [block, spans].concat());
}
