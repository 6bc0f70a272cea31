//! Metadata sectors of DiskANN with any length of file, and nodes read by what they tell.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_engine::format::{DISKANN_SECTOR_BYTES, DiskannLayout, DiskannSummary};
use pipeann_engine::types::VectorType;

fuzz_target!(|data: &[u8]| {
    let _ = DiskannSummary::decode(data);
    // The metadata first, nothing behind them, then nodes.
    let (head, nodes) = data.split_at(data.len().min(80));
    let mut sector = head.to_vec();
    sector.resize(DISKANN_SECTOR_BYTES, 0);
    let told: [u8; 8] = sector[72..80].try_into().expect("the slice has 8 bytes");
    for ty in [VectorType::U8, VectorType::F32] {
        let Ok(layout) = DiskannLayout::decode(&sector, u64::from_le_bytes(told), ty) else {
            continue;
        };
        let groups = nodes.len() / layout.group().0 * layout.group().0;
        let Ok(nodes) = layout.nodes(0, &nodes[..groups]) else { continue };
        for (node, bytes) in nodes {
            let mut edges = Vec::new();
            let _ = layout.node(node, bytes, &mut edges);
            assert!(edges.len() <= layout.degree());
        }
    }
});
