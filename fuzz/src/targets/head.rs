//! Head index bodies, the two maps and the list of tombstones.
//!
//! The first byte of an input says which one it is, modulo four.

use pipeann_engine::format::{
    HeadParts, decode_page_map, decode_row_map, decode_tombstones, encode_map,
};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["head", "page map", "row map", "tombstones"];

/// Above every node and page of an input that is right.
const LIMIT: u32 = 1 << 24;

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((part, body)) = data.split_first() else { return };
    let part = usize::from(part % 4);
    if part == 0 {
        let Ok(head) = bounded(body.len(), || HeadParts::decode(body, LIMIT.into())) else {
            return;
        };
        reached.mark("head", !head.nodes.is_empty());
        assert_eq!(head.encode().expect("what was read can be written"), body);
        return;
    }
    let entries = bounded(body.len(), || match part {
        1 => decode_page_map(body, body.len() as u32 / 4, LIMIT),
        2 => decode_row_map(body, LIMIT.into()),
        _ => decode_tombstones(body, LIMIT.into()),
    });
    let Ok(entries) = entries else { return };
    reached.mark(SECTIONS[part], !entries.is_empty());
    assert_eq!(encode_map(&entries), body);
}
