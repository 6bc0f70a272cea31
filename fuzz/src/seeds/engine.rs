//! Structures of the engine's files, and searches under way.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use pipeann_engine::filter::AllowSet;
use pipeann_engine::format::{
    BlockChecksums, BuildParameters, FileEntry, FileHeader, FileKind, HeadParameters, HeadParts,
    Identity, Manifest, PageWriter, PartitionEntry, RecordLayout, RelativePath, SegmentEntry,
    encode_map, seal_body,
};
use pipeann_engine::quant::{CodeKind, CodeOptions, Codebook};
use pipeann_engine::search::{DistanceRange, Policy, SearchParams, SearchState, Step};
use pipeann_engine::types::{Metric, NodeId, PageId, RowId, VectorSet, VectorType};

use super::seed::Seeds;
use crate::targets::{DISKANN_METADATA_BYTES, FILE_KINDS, PAGE_IDENTITY, SmallGraph};

const UUID: [u8; 16] = *b"identity of seed";

pub(super) fn add(seeds: &mut Seeds) {
    codebooks(seeds);
    diskann(seeds);
    file_headers(seeds);
    heads(seeds);
    manifests(seeds);
    pages(seeds);
    searches(seeds);
}

fn codebooks(seeds: &mut Seeds) {
    const DIM: usize = 4;
    let rows: Vec<u8> = (0..400 * DIM).map(|i| (i * 37 % 251) as u8).collect();
    let set = VectorSet::new(&rows, DIM, VectorType::U8).expect("whole vectors");
    for (name, kind, code_bytes) in
        [("product", CodeKind::Product, 2), ("rabitq", CodeKind::Rabitq, 0)]
    {
        let options = CodeOptions { kind, iterations: 2, seed: 1, ..CodeOptions::for_dim(DIM) };
        let options = if code_bytes > 0 { CodeOptions { code_bytes, ..options } } else { options };
        let book = Codebook::train(set, Metric::L2, &options);
        seeds.add("codebook", name, book.to_bytes());
    }
    let parts = Codebook::from_parts(1, 1, Metric::Cosine, 7, vec![0.5; 256]);
    let mut older = parts.expect("256 centroids of one component").to_bytes();
    seeds.add("codebook", "product-unknown-error", older.as_slice());
    // The layout before the error on the training's rows was kept.
    older[4..6].copy_from_slice(&1_u16.to_le_bytes());
    older[20..24].fill(0);
    seeds.add("codebook", "product-without-error", older);
}

fn diskann(seeds: &mut Seeds) {
    let numbers = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    seeds.add("diskann", "summary", numbers(&[2, 0, 3, 8]));
    // Of three nodes with an edge to each other one, and room for four, those of the first group.
    let nodes = |name: &str, dim: usize, vector_bytes: usize, seeds: &mut Seeds| {
        let node_bytes = vector_bytes + 4 + 4 * 4;
        let sector = 4096;
        let group = node_bytes.next_multiple_of(sector);
        let groups = if group == sector { 1 } else { 3 };
        let length = (sector + groups * group) as u64;
        let per_sector = (sector / node_bytes) as u64;
        let mut bytes = [9_u32, 1].map(u32::to_le_bytes).concat();
        let told = [3, dim as u64, 1, node_bytes as u64, per_sector, 0, 0, 0, length];
        bytes.extend(numbers(&told));
        assert_eq!(bytes.len(), DISKANN_METADATA_BYTES);
        for node in 0..if groups > 1 { 1 } else { 3_u32 } {
            let start = bytes.len();
            bytes.extend(vec![0; vector_bytes]);
            let others = (0..3).filter(|other| *other != node);
            bytes.extend([2].into_iter().chain(others).flat_map(u32::to_le_bytes));
            bytes.resize(start + node_bytes, 0);
        }
        seeds.add("diskann", name, bytes);
    };
    nodes("nodes-u8", 8, 8, seeds);
    nodes("nodes-f32", 2, 8, seeds);
    nodes("nodes-large", 4100, 4100, seeds);
}

fn file_headers(seeds: &mut Seeds) {
    let identity = Identity { uuid: UUID };
    for (choice, kind) in FILE_KINDS.into_iter().enumerate() {
        let body: Vec<u8> = (0..24_u8).collect();
        let mut bytes = vec![choice as u8];
        bytes.extend(UUID);
        bytes.extend(3_u64.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        let mut made = bytes.clone();
        if kind.is_blocked() {
            let body_bytes = body.len() as u64;
            let header = FileHeader { kind, identity, generation: 3, body_bytes, body_checksum: 0 };
            // What stands behind the header is no part of it.
            let head = BlockChecksums::of_body(header, &body).encode_head();
            bytes.extend(&head[..64]);
        } else {
            bytes.extend(seal_body(kind, &identity, 3, &body));
        }
        made.extend(&body);
        let name = kind.name().replace(' ', "-");
        seeds.add("file-header", name.as_str(), bytes);
        seeds.add("file-header", format!("{name}-behind-a-header"), made);
    }
}

fn heads(seeds: &mut Seeds) {
    let head = HeadParts {
        nodes: vec![3, 9, 27],
        max_degree: 2,
        degrees: vec![2, 1, 1],
        adjacency: vec![1, 2, 0, 0, 1, 0],
        entry: 1,
    };
    let with = |part: u8, body: Vec<u8>| [&[part], body.as_slice()].concat();
    seeds.add("head", "head", with(0, head.encode().expect("it is valid")));
    seeds.add("head", "page-map", with(1, encode_map(&[2, u32::MAX, 0])));
    seeds.add("head", "row-map", with(2, encode_map(&[5, u32::MAX, 7, 1])));
    seeds.add("head", "tombstones", with(3, encode_map(&[1, 4, 400])));
}

fn manifests(seeds: &mut Seeds) {
    let file = |path: &str, bytes: u64| FileEntry { path: relative(path), bytes };
    let layout = RecordLayout::choose(8, VectorType::U8, 4, 1000, 0.96).expect("a small record");
    let page_bytes = layout.page_bytes() as u64;
    let map = |path: &str, kind: FileKind, entries: u64, width: u64| {
        file(path, kind.file_bytes(entries * width).expect("it is small"))
    };
    let mut first_page = 0;
    let mut partition = |i: usize, pages: u32, full: bool| {
        let mut segments = vec![SegmentEntry {
            file: file("segment-000000.pages", u64::from(pages) * page_bytes),
            first_physical_page: 0,
            pages,
        }];
        if full {
            segments.push(SegmentEntry {
                file: file("segment-000001.pages", page_bytes),
                first_physical_page: pages,
                pages: 1,
            });
        }
        let slots = u64::from(pages) * layout.records_per_page() as u64;
        first_page += pages;
        PartitionEntry {
            dir: relative(&format!("part-{i:04}")),
            first_page: first_page - pages,
            pages,
            segments,
            page_map: map("pagemap", FileKind::PageMap, u64::from(pages), 4),
            codes: map("codes", FileKind::Codes, slots, 4),
            row_map: full.then(|| map("rowmap", FileKind::RowMap, 40, 4)),
            tombstones: full.then(|| map("tombstones", FileKind::Tombstones, 2, 4)),
        }
    };
    let partitions = vec![partition(0, 2, true), partition(1, 3, false)];
    let manifest = Manifest {
        uuid: UUID,
        generation: 4,
        rows: 38,
        next_row_id: 40,
        applied: 12,
        metric: Metric::L2,
        layout,
        entries: vec![NodeId(0), NodeId(1)],
        code_bytes: 4,
        codebook_version: 1,
        build: BuildParameters { degree: 4, list: 8, alpha: 1.2, passes: 2, seed: 1 },
        head: HeadParameters { nodes: 3, degree: 2, list: 4 },
        head_file: file("head", 100),
        codebook_file: file("codebook", 8292),
        partitions,
    };
    let one = Manifest {
        partitions: manifest.partitions[..1].to_vec(),
        entries: vec![NodeId(0)],
        ..manifest.clone()
    };
    seeds.add("manifest", "two-partitions", manifest.encode().expect("it is valid"));
    seeds.add("manifest", "one-partition", one.encode().expect("it is valid"));
}

fn relative(path: &str) -> RelativePath {
    RelativePath::new(path).expect("it is relative")
}

fn pages(seeds: &mut Seeds) {
    let shapes = [
        ("short-edges", VectorType::U8, 16, 1000),
        ("long-edges", VectorType::F32, 8, 1 << 28),
        ("bits", VectorType::Binary, 64, 1000),
    ];
    for (name, ty, dim, rows) in shapes {
        let layout = RecordLayout::choose(dim, ty, 6, rows, 1.0).expect("a small record");
        let mut page = vec![0; layout.page_bytes()];
        let mut writer = PageWriter::new(&layout, &mut page);
        for slot in 0..2 {
            let vector = vec![slot as u8 + 1; layout.vector_bytes()];
            writer.put(slot, &vector, RowId(slot as u64 + 7), &[1, 5, 70_000 + slot as u32]);
        }
        writer.seal(&PAGE_IDENTITY, PageId(0), 3);
        seeds.add("page", name, [&layout.encode()[..], &page].concat());
    }
}

fn searches(seeds: &mut Seeds) {
    let graph = SmallGraph::new();
    let around = DistanceRange { from: Bound::Excluded(10.0), to: Bound::Included(60_000.0) };
    let params = SearchParams { k: 5, list: 12, ..SearchParams::default() };
    let with = |policy| SearchParams { policy, ..params.clone() };
    let within = SearchParams { within: around, ..params.clone() };
    let kinds: [(&str, SearchParams, Option<Arc<AllowSet>>); 6] = [
        ("pipe", with(Policy::pipe()), None),
        ("beam", with(Policy::beam(4)), None),
        ("page", with(Policy::page(4)), None),
        ("range", within, None),
        ("walk", with(Policy::pipe()), Some(SmallGraph::tested())),
        ("scan", with(Policy::pipe()), Some(SmallGraph::every(40))),
    ];
    for (name, params, allow) in kinds {
        let mut waits = 0;
        run(&graph, &params, allow, |state| {
            waits += 1;
            if matches!(waits, 1 | 3) {
                let mut bytes = Vec::new();
                state.export(&graph.view(), &mut bytes);
                seeds.add("portable", format!("{name}-{waits}"), bytes);
            }
        });
    }
}

/// Runs a search, and shows its state whenever it waits.
fn run(
    graph: &SmallGraph,
    params: &SearchParams,
    allow: Option<Arc<AllowSet>>,
    mut look: impl FnMut(&SearchState),
) {
    let view = graph.view();
    let mut state = SearchState::new(&view);
    let filtered = allow.is_some();
    state.begin(&view, graph.vector(17), params, allow).expect("all codes are in memory");
    if filtered {
        state.set_filter(b"a < 3");
    }
    let mut waiting: VecDeque<PageId> = VecDeque::new();
    loop {
        match state.step(&view).expect("all codes are in memory") {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => {}
            Step::Wait => {
                look(&state);
                let page = waiting.pop_front().expect("it waits for a page it asked for");
                state.receive(&view, page, graph.page(page));
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            Step::Done => return,
        }
    }
}
