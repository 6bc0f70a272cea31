//! Blocked files: any block is verified alone, and only in its own place.

use super::{IDENTITY, OTHER};
use crate::format::constants::{ALIGNMENT, BLOCK_BYTES};
use crate::format::{BlockChecksums, FileHeader, FileKind, FormatError, Identity, block_count};

fn header(identity: Identity, generation: u64) -> FileHeader {
    FileHeader { kind: FileKind::Codes, identity, generation, body_bytes: 0, body_checksum: 0 }
}

fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + i / BLOCK_BYTES) as u8).collect()
}

fn whole_file(blocks: &BlockChecksums, body: &[u8]) -> Vec<u8> {
    [blocks.encode_head(), body.to_vec(), blocks.encode_tail()].concat()
}

#[test]
fn blocks_are_verified_from_the_file() {
    for bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 5000] {
        let body = body(bytes);
        let file = whole_file(&BlockChecksums::of_body(header(IDENTITY, 2), &body), &body);
        assert!(file.len().is_multiple_of(ALIGNMENT));

        let header = FileHeader::decode(&file, FileKind::Codes, &IDENTITY).unwrap();
        assert_eq!(header.file_bytes(), file.len() as u64);
        assert_eq!(header.body_bytes, bytes as u64);
        let array = header.kind.checksums_offset(header.body_bytes).unwrap() as usize;
        let blocks = BlockChecksums::decode(&header, &file[array..]).unwrap();
        assert_eq!(blocks.len() as u64, block_count(bytes as u64));
        assert_eq!(blocks.header(), header);
        for (number, block) in body.chunks(BLOCK_BYTES).enumerate() {
            let start = header.kind.body_offset() as usize + number * BLOCK_BYTES;
            assert_eq!(&file[start..start + block.len()], block);
            assert_eq!(blocks.verify(number as u64, block), Ok(()));
        }
    }
}

#[test]
fn streamed_blocks_make_the_same_array() {
    let body = body(2 * BLOCK_BYTES + 7);
    let mut streamed = BlockChecksums::start(header(IDENTITY, 2));
    body.chunks(BLOCK_BYTES).for_each(|block| streamed.push(block));
    assert_eq!(streamed, BlockChecksums::of_body(header(IDENTITY, 2), &body));
}

#[test]
fn wrong_blocks_are_refused() {
    let mut body = vec![7; 2 * BLOCK_BYTES + 100];
    let blocks = BlockChecksums::of_body(header(IDENTITY, 2), &body);
    let (first, rest) = body.split_at(BLOCK_BYTES);
    assert_eq!(first, &rest[..BLOCK_BYTES], "equal bytes in two places");
    let array = |blocks: &BlockChecksums| {
        let tail = blocks.encode_tail();
        tail[tail.len() - ALIGNMENT..][..24].to_vec()
    };
    let sums = array(&blocks);
    assert_ne!(sums[..8], sums[8..16], "a block is accepted in its place only");
    assert_ne!(array(&BlockChecksums::of_body(header(OTHER, 2), &body)), sums);
    assert_ne!(array(&BlockChecksums::of_body(header(IDENTITY, 3), &body)), sums);

    assert!(matches!(blocks.verify(3, first), Err(FormatError::Value { .. })));
    assert!(matches!(blocks.verify(u64::MAX, first), Err(FormatError::Value { .. })));
    assert!(matches!(blocks.verify(2, first), Err(FormatError::Length { .. })));
    assert!(matches!(blocks.verify(0, &first[1..]), Err(FormatError::Length { .. })));
    body[BLOCK_BYTES + 9] ^= 4;
    let damaged = blocks.verify(1, &body[BLOCK_BYTES..2 * BLOCK_BYTES]).unwrap_err();
    assert!(matches!(damaged, FormatError::Block { block: 1, .. }), "{damaged}");
}

#[test]
fn damaged_or_short_array_is_refused() {
    let body = body(3 * BLOCK_BYTES);
    let blocks = BlockChecksums::of_body(header(IDENTITY, 2), &body);
    let mut tail = blocks.encode_tail();
    let header = blocks.header();
    assert!(BlockChecksums::decode(&header, &tail[..24]).is_ok());
    let cut = BlockChecksums::decode(&header, &tail[..23]).unwrap_err();
    assert!(matches!(cut, FormatError::CutOff { .. }), "{cut}");
    tail[8] ^= 1;
    let damaged = BlockChecksums::decode(&header, &tail).unwrap_err();
    assert!(matches!(damaged, FormatError::Checksum { .. }), "{damaged}");
    // A length that no memory could hold asks for none.
    let huge = FileHeader { body_bytes: u64::MAX - (1 << 50), ..header };
    assert!(matches!(BlockChecksums::decode(&huge, &tail), Err(FormatError::CutOff { .. })));
}
