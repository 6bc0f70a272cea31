//! `docs/database-format.md` against the constants, and the bytes of a small store.

use std::fs;

use super::*;
use crate::flat::{block, bytes::Field, manifest};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/database-format.md");

/// (name, offset, size) of each row of the first table below the heading `title`.
fn documented(document: &str, title: &str) -> Vec<(String, usize, usize)> {
    let below = document.lines().skip_while(|l| l.trim_start_matches('#').trim() != title).skip(1);
    let table = below.take_while(|l| !l.starts_with('#')).skip_while(|l| !l.starts_with('|'));
    let rows = table.take_while(|l| l.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "offset, size, name, meaning: {row}");
        (cells[2].to_owned(), cells[0].parse().unwrap(), cells[1].parse().unwrap())
    })
    .collect()
}

#[test]
fn byte_tables_of_flat_vectors_agree_with_the_constants() {
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let tables: [(&str, &[Field]); 3] = [
        ("Flat vectors: header of FLAT", manifest::HEADER),
        ("Flat vectors: one segment in FLAT", manifest::ENTRY),
        ("Flat vectors: header of a block", block::HEADER),
    ];
    for (title, fields) in tables {
        let expected: Vec<_> =
            fields.iter().map(|&(name, at, bytes)| (name.to_owned(), at, bytes)).collect();
        assert_eq!(documented(&document, title), expected, "{title}");
        let mut end = 0;
        for &(name, offset, bytes) in fields {
            assert_eq!(offset, end, "{name} leaves a gap or overlaps");
            end += bytes;
        }
    }
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
    let list = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let mut header = b"PIPEFLAT\x01\0\0\0\x01\0\0\0".to_vec();
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
    let sum = crc_fast::crc64_nvme(&block[8..]);
    block[..8].copy_from_slice(&sum.to_le_bytes());
    let spans = with_checksum(vec![8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let segment = fs::read(dir.path().join("segment-000001")).unwrap();
    assert_eq!(segment, [block, spans].concat());
}
