//! Golden files pin the bytes: a change of the format shows as a failing comparison.
//!
//! `PIPEANN_WRITE_GOLDEN=1 cargo test -p pipeann-engine golden` writes them anew, after a
//! deliberate change of a version.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{IDENTITY, manifest, small_layout};
use crate::format::{
    BlockChecksums, FileHeader, FileKind, HeadParts, PageWriter, encode_map, seal_body,
};
use crate::types::{PageId, RowId};

/// 32 bytes per line; a run of equal lines is written once, with its count.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    let lines: Vec<&[u8]> = bytes.chunks(32).collect();
    for run in lines.chunk_by(|a, b| a == b) {
        run[0].iter().for_each(|byte| write!(out, "{byte:02x}").unwrap());
        if run.len() > 1 {
            write!(out, " x {}", run.len()).unwrap();
        }
        out.push('\n');
    }
    out
}

#[expect(clippy::disallowed_methods, reason = "regenerates the files on a developer's wish")]
fn compare(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let found = hex(bytes);
    if std::env::var_os("PIPEANN_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(found, expected, "{name}: the bytes on disk have changed");
}

#[test]
fn golden_manifest() {
    compare("manifest.hex", &manifest(&[2, 3]).encode().unwrap());
}

#[test]
fn golden_page() {
    let layout = small_layout();
    let mut bytes = vec![0; layout.page_bytes()];
    let mut writer = PageWriter::new(&layout, &mut bytes);
    writer.put(0, &[1, 2, 3, 4, 5, 6, 7, 8], RowId(0x0102_0304_0506_0708), &[1, 0x00ab_cdef]);
    writer.put(2, &[9; 8], RowId(3), &[0, 1, 2, 3]);
    writer.seal(&IDENTITY, PageId(1), 3);
    compare("page.hex", &bytes);
}

#[test]
fn golden_head() {
    let head = HeadParts {
        nodes: vec![5, 9, 1],
        max_degree: 2,
        degrees: vec![2, 1, 0],
        adjacency: vec![1, 2, 0, 0, 0, 0],
        entry: 1,
    };
    compare("head.hex", &seal_body(FileKind::Head, &IDENTITY, 3, &head.encode().unwrap()));
}

#[test]
fn golden_page_map() {
    compare("pagemap.hex", &seal_body(FileKind::PageMap, &IDENTITY, 3, &encode_map(&[2, 0, 1])));
}

#[test]
fn golden_codes() {
    let body: Vec<u8> = (0..70_000u32).map(|i| (i / 4096) as u8).collect();
    let header = FileHeader {
        kind: FileKind::Codes,
        identity: IDENTITY,
        generation: 3,
        body_bytes: 0,
        body_checksum: 0,
    };
    let blocks = BlockChecksums::of_body(header, &body);
    compare("codes.hex", &[blocks.encode_head(), body, blocks.encode_tail()].concat());
}
