//! Decoders on random, truncated and tampered bytes: an error or a value, never a panic.
//!
//! Plain random bytes stop at the first checksum, so most cases tamper with valid bytes and
//! make the checksums right again.

use proptest::prelude::*;

use super::manifest::reseal;
use super::{IDENTITY, manifest};
use crate::format::checksum::checksum;
use crate::format::constants::{FILE_MAGIC, file_header};
use crate::format::{
    BlockChecksums, FileHeader, FileKind, HeadParts, Manifest, decode_page_map, decode_row_map,
    open_body, seal_body,
};

const HEADER_KINDS: [FileKind; 5] =
    [FileKind::Codebook, FileKind::Head, FileKind::PageMap, FileKind::Codes, FileKind::RowMap];

/// Bytes to write at places, which are taken modulo the length.
fn edits() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let byte = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop::collection::vec((any::<usize>(), byte), 1..12)
}

fn apply(bytes: &mut [u8], edits: &[(usize, u8)]) {
    for &(at, value) in edits {
        bytes[at % bytes.len()] = value;
    }
}

fn head() -> HeadParts {
    HeadParts {
        nodes: vec![5, 9, 1],
        max_degree: 2,
        degrees: vec![2, 1, 0],
        adjacency: vec![1, 2, 0, 0, 0, 0],
        entry: 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), pages in any::<u32>(), limit in any::<u64>()) {
        prop_assert!(Manifest::decode(&bytes).is_err());
        for kind in HEADER_KINDS {
            prop_assert!(FileHeader::decode(&bytes, kind, &IDENTITY).is_err());
        }
        let _ = HeadParts::decode(&bytes, limit);
        let _ = decode_page_map(&bytes, pages, pages);
        let _ = decode_row_map(&bytes, limit);
    }

    #[test]
    fn tampered_manifest(edits in edits(), cut in prop::option::of(0usize..600)) {
        let mut bytes = manifest(&[2, 3]).encode().unwrap();
        bytes.truncate(cut.unwrap_or(bytes.len()));
        if bytes.len() > 24 {
            apply(&mut bytes[24..], &edits);
            let length = bytes.len() as u64;
            bytes[16..24].copy_from_slice(&length.to_le_bytes());
            reseal(&mut bytes);
        }
        if let Ok(read) = Manifest::decode(&bytes) {
            prop_assert_eq!(read.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn tampered_head(edits in edits(), cut in prop::option::of(0usize..60), limit in any::<u64>()) {
        let mut bytes = head().encode().unwrap();
        bytes.truncate(cut.unwrap_or(bytes.len()));
        if !bytes.is_empty() {
            apply(&mut bytes, &edits);
        }
        if let Ok(read) = HeadParts::decode(&bytes, limit) {
            prop_assert_eq!(read.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn tampered_header(edits in edits(), rest in prop::collection::vec(any::<u8>(), 0..100), kind in 0usize..5) {
        let kind = HEADER_KINDS[kind];
        let header = FileHeader {
            kind, identity: IDENTITY, generation: 1, body_bytes: 100, body_checksum: 0,
        };
        let mut bytes = header.encode().to_vec();
        // Not the magic, and of the identity rarely anything.
        for &(at, value) in &edits {
            bytes[if at % 3 == 0 { 8 + at % 48 } else { 32 + at % 24 }] = value;
        }
        let sum = checksum(0, &bytes[..file_header::HEADER_CHECKSUM.offset]);
        bytes[file_header::HEADER_CHECKSUM.offset..].copy_from_slice(&sum.to_le_bytes());
        bytes.extend(rest);
        if let Ok(read) = FileHeader::decode(&bytes, kind, &IDENTITY) {
            prop_assert!(read.file_bytes() > read.body_bytes);
            prop_assert_eq!(&read.encode()[..], &bytes[..64]);
            if kind.is_blocked() {
                let _ = BlockChecksums::decode(&read, &bytes[64..]);
            }
        }
        if !kind.is_blocked() {
            let _ = open_body(&bytes, kind, &IDENTITY);
        }
    }

    #[test]
    fn whole_files_come_back(body in prop::collection::vec(any::<u8>(), 0..300), flip in any::<usize>()) {
        let mut bytes = seal_body(FileKind::Head, &IDENTITY, 4, &body);
        let (header, read) = open_body(&bytes, FileKind::Head, &IDENTITY).unwrap();
        prop_assert_eq!((header.generation, read), (4, &body[..]));
        let bit = flip % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(open_body(&bytes, FileKind::Head, &IDENTITY).is_err());
        prop_assert!(bytes.starts_with(&FILE_MAGIC) || bit < 64);
    }
}
