//! Tests of the room `format`: what each structure promises, on valid and on hostile bytes.

mod blocks;
mod documentation;
mod golden;
mod head;
mod hostile;
mod layout;
mod manifest;
mod page;

use super::{
    BuildParameters, FileEntry, FileKind, HeadParameters, Identity, Manifest, PartitionEntry,
    RecordLayout, RelativePath, SegmentEntry,
};
use crate::types::{Metric, NodeId, VectorType};

const IDENTITY: Identity = Identity { uuid: *b"0123456789abcdef" };
const OTHER: Identity = Identity { uuid: *b"0123456789abcdeF" };

fn small_layout() -> RecordLayout {
    RecordLayout::choose(8, VectorType::U8, 4, 1000, 0.96).unwrap()
}

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

fn file(text: &str, bytes: u64) -> FileEntry {
    FileEntry { path: path(text), bytes }
}

/// A valid manifest whose partitions have these numbers of pages.
fn manifest(partition_pages: &[u32]) -> Manifest {
    let layout = small_layout();
    let mut first_page = 0;
    let code_bytes = 4;
    let page_bytes = layout.page_bytes() as u64;
    let partition = |(i, &pages): (usize, &u32)| {
        let body = u64::from(pages) * layout.records_per_page() as u64 * code_bytes;
        let entry = PartitionEntry {
            dir: path(&format!("part-{i:04}")),
            first_page,
            pages,
            segments: vec![
                SegmentEntry {
                    file: file("segment-000000.pages", u64::from(pages) * page_bytes),
                    first_physical_page: 0,
                    pages,
                },
                SegmentEntry {
                    file: file("segment-000001.pages", page_bytes),
                    first_physical_page: pages,
                    pages: 1,
                },
            ],
            page_map: file(
                "pagemap-3",
                FileKind::PageMap.file_bytes(u64::from(pages) * 4).unwrap(),
            ),
            codes: file("codes-3", FileKind::Codes.file_bytes(body).unwrap()),
            row_map: (i == 0).then(|| file("rows-3", FileKind::RowMap.file_bytes(400).unwrap())),
            tombstones: (i == 1 && pages > 0)
                .then(|| file("tombstones-3", FileKind::Tombstones.file_bytes(8).unwrap())),
        };
        first_page += pages;
        entry
    };
    Manifest {
        uuid: IDENTITY.uuid,
        generation: 3,
        rows: 90,
        next_row_id: 100,
        applied: 77,
        metric: Metric::Cosine,
        layout,
        entries: vec![NodeId(7), NodeId(1)],
        code_bytes: code_bytes as u32,
        codebook_version: 2,
        build: BuildParameters { degree: 4, list: 96, alpha: 1.2, passes: 2, seed: 42 },
        head: HeadParameters { nodes: 3, degree: 2, list: 10 },
        head_file: file("head-3", 1000),
        codebook_file: file("codebook-1", 5000),
        partitions: partition_pages.iter().enumerate().map(partition).collect(),
    }
}
