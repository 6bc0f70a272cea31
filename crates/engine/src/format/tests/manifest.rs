//! The manifest: round trips, refusals, and what its invariants exclude.

use proptest::prelude::*;

use super::{file, manifest, path};
use crate::format::checksum::checksum;
use crate::format::constants::{MANIFEST_MAGIC, manifest_start};
use crate::format::{FileKind, FormatError, Manifest, RelativePath, decode_tombstones, encode_map};
use crate::types::{ErrorClass, NodeId};

/// Changes one field and makes the checksum right again.
fn tampered(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut out = manifest(&[2, 3]).encode().unwrap();
    out[offset..offset + bytes.len()].copy_from_slice(bytes);
    reseal(&mut out);
    out
}

pub(super) fn reseal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - 8);
    sum.copy_from_slice(&checksum(u64::from_le_bytes(MANIFEST_MAGIC), content).to_le_bytes());
}

#[test]
fn several_partitions_and_segments_come_back() {
    for pages in [&[2][..], &[2, 3, 4], &[2, 0, 1]] {
        let manifest = manifest(pages);
        assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Ok(manifest));
    }
}

#[test]
fn newer_version_is_refused_by_name() {
    let error = Manifest::decode(&tampered(manifest_start::VERSION.offset, &[9])).unwrap_err();
    let newer = FormatError::NewerVersion { kind: FileKind::Manifest, supported: 2, found: 9 };
    assert_eq!(error, newer);
    assert_eq!(error.class(), ErrorClass::FixInput);
    let text = error.to_string();
    assert_eq!(text, "manifest: format version 9, but this program reads up to 2; upgrade it");
}

#[test]
fn unknown_numbers_are_refused() {
    for (offset, bytes, field) in [
        (manifest_start::VERSION.offset, &[0][..], "version"),
        (manifest_start::FLAGS.offset, &[1], "flags"),
        (manifest_start::RESERVED.offset, &[1], "reserved"),
        (manifest_start::METRIC.offset, &[4], "metric"),
        (manifest_start::CODE_BYTES.offset, &[0], "code bytes"),
        (manifest_start::BUILD_ALPHA.offset, &f32::NAN.to_le_bytes(), "alpha"),
    ] {
        let error = Manifest::decode(&tampered(offset, bytes)).unwrap_err();
        assert!(matches!(error, FormatError::Value { field: f, .. } if f == field), "{error}");
    }
    let error = Manifest::decode(&tampered(manifest_start::LAYOUT.offset + 4, &[7])).unwrap_err();
    assert!(matches!(error, FormatError::Layout(_)), "{error}");
}

#[test]
fn every_flipped_bit_and_every_cut_is_detected() {
    let mut bytes = manifest(&[2, 3]).encode().unwrap();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    for length in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..length]).is_err(), "length {length}");
    }
    bytes.push(0);
    assert!(matches!(Manifest::decode(&bytes), Err(FormatError::Length { .. })));
}

#[test]
fn invalid_manifest_is_neither_written_nor_read() {
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest(&[2, 3]);
        change(&mut manifest);
        match manifest.encode().unwrap_err() {
            FormatError::Value { field, .. } => field,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused(&|m| m.partitions.clear()), "number of partitions");
    assert_eq!(refused(&|m| m.partitions[1].first_page = 3), "first page of a partition");
    assert_eq!(refused(&|m| m.rows = 101), "rows");
    assert_eq!(refused(&|m| m.next_row_id = (1 << 32) + 1), "next row id");
    assert_eq!(refused(&|m| m.entries.clear()), "number of entry nodes");
    assert_eq!(refused(&|m| m.entries[1] = NodeId(1 << 20)), "entry node");
    assert_eq!(refused(&|m| m.head.nodes = 1 << 20), "head nodes");
    assert_eq!(refused(&|m| m.partitions[0].codes.bytes += 4096), "file bytes of codes");
    assert_eq!(refused(&|m| m.partitions[0].page_map.bytes += 4), "file bytes of a page map");
    let segment = "first physical page of a segment";
    assert_eq!(refused(&|m| m.partitions[0].segments[1].first_physical_page = 0), segment);
    let segment = "file bytes of a segment";
    assert_eq!(refused(&|m| m.partitions[0].segments[0].file.bytes -= 1), segment);
    let tombstones = "file bytes of tombstones";
    assert_eq!(refused(&|m| m.partitions[1].tombstones = Some(file("t", 1 << 20))), tombstones);
    assert_eq!(refused(&|m| m.partitions[1].tombstones = Some(file("t", 64))), tombstones);
    let row_map = "file bytes of a row map";
    assert_eq!(refused(&|m| m.partitions[0].row_map = Some(file("rows-3", 1 << 30))), row_map);
}

#[test]
fn files_are_named_with_their_lengths() {
    let manifest = manifest(&[2, 3]);
    let files = manifest.files();
    let names: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        names,
        [
            "codebook-1",
            "head-3",
            "part-0000/segment-000000.pages",
            "part-0000/segment-000001.pages",
            "part-0000/pagemap-3",
            "part-0000/codes-3",
            "part-0000/rows-3",
            "part-0001/segment-000000.pages",
            "part-0001/segment-000001.pages",
            "part-0001/pagemap-3",
            "part-0001/codes-3",
            "part-0001/tombstones-3",
        ]
    );
    assert_eq!(files[2].check_length(8192), Ok(()));
    let cut = files[2].check_length(4096).unwrap_err();
    let text = "segment: 4096 bytes, expected 8192: the file is cut off or replaced";
    assert_eq!((cut.to_string().as_str(), cut.class()), (text, ErrorClass::Stop));
}

#[test]
fn tombstones_come_back_and_disorder_is_refused() {
    let body = encode_map(&[3, 9, 20]);
    assert_eq!(decode_tombstones(&body, 21), Ok(vec![3, 9, 20]));
    assert_eq!(decode_tombstones(&[], 21), Ok(vec![]));
    for (bad, limit) in [(&[3, 3][..], 21), (&[9, 3], 21), (&[3, 20], 20)] {
        let refused = decode_tombstones(&encode_map(bad), limit).unwrap_err();
        assert!(matches!(refused, FormatError::Value { field: "node", .. }), "{refused}");
    }
    assert!(matches!(decode_tombstones(&body[..7], 21), Err(FormatError::Length { .. })));
}

#[test]
fn paths_stay_inside() {
    for fine in ["a", "part-0000/codes-12", "..a", "a.b/c_d"] {
        assert_eq!(RelativePath::new(fine).unwrap().as_str(), fine);
    }
    let long = "a".repeat(256);
    for bad in [
        "", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", ".", "a/.", "a b", "a\\b", "a\0", "ä",
        "C:", &long,
    ] {
        assert!(matches!(RelativePath::new(bad), Err(FormatError::Path { .. })), "{bad}");
    }
    assert_eq!(path("part-0000").join(&path("codes-1")), "part-0000/codes-1");
}

#[test]
fn path_that_leaves_is_refused_on_reading() {
    let mut bytes = manifest(&[2]).encode().unwrap();
    let at = bytes.windows(6).position(|w| w == b"head-3").unwrap();
    bytes[at..at + 6].copy_from_slice(b"../../");
    reseal(&mut bytes);
    assert_eq!(Manifest::decode(&bytes), Err(FormatError::Path { found: "../../".into() }));
}

proptest! {
    #[test]
    fn generated_manifest_comes_back(
        pages in prop::collection::vec(1u32..5, 1..6),
        generation in any::<u64>(),
        seed in any::<u64>(),
        version in any::<u32>(),
        uuid in any::<[u8; 16]>(),
    ) {
        let mut manifest = manifest(&pages);
        manifest.rows = manifest.rows.min(manifest.slots());
        manifest.generation = generation;
        manifest.build.seed = seed;
        manifest.codebook_version = version;
        manifest.uuid = uuid;
        prop_assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Ok(manifest));
    }
}
