//! Metadata sectors of DiskANN with any length of file, nodes read by what they tell, and the
//! summary beside them.
//!
//! An input is the metadata in 80 bytes, nothing behind them, then nodes.

use pipeann_engine::format::{DISKANN_SECTOR_BYTES, DiskannLayout, DiskannSummary};
use pipeann_engine::types::VectorType;

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["summary", "u8 nodes", "f32 nodes", "large nodes"];

/// Bytes of the metadata; the length of the file stands in the last eight.
pub(crate) const METADATA_BYTES: usize = 80;

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    reached.mark("summary", bounded(data.len(), || DiskannSummary::decode(data)).is_ok());
    let (head, nodes) = data.split_at(data.len().min(METADATA_BYTES));
    let mut sector = head.to_vec();
    sector.resize(DISKANN_SECTOR_BYTES, 0);
    let told = sector[72..80].first_chunk().copied().expect("the slice has 8 bytes");
    for (section, ty) in [("u8 nodes", VectorType::U8), ("f32 nodes", VectorType::F32)] {
        let layout =
            bounded(data.len(), || DiskannLayout::decode(&sector, u64::from_le_bytes(told), ty));
        let Ok(layout) = layout else { continue };
        let (group, _) = layout.group();
        // The last group of an input is filled up: it would be most of the input.
        let mut groups = nodes.to_vec();
        let whole = groups.len().next_multiple_of(group);
        if whole > 1 << 20 {
            continue;
        }
        groups.resize(whole, 0);
        bounded(data.len(), || {
            let Ok(nodes) = layout.nodes(0, &groups) else { return };
            for (node, bytes) in nodes {
                let mut edges = Vec::new();
                let read = layout.node(node, bytes, &mut edges).is_ok();
                assert!(edges.len() <= layout.degree());
                reached.mark(section, read);
                reached.mark("large nodes", read && group > DISKANN_SECTOR_BYTES);
            }
        });
    }
}
