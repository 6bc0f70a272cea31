//! Whole builds: what is read back from disk, refusals, and what is left after a stop.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Rows;
use crate::build::{
    BuildError, BuildOptions, PartitionBy, Progress, Silent, Stage, build, estimate,
};
use crate::format::constants::BLOCK_BYTES;
use crate::format::{
    BlockChecksums, FileHeader, FileKind, HeadParts, Manifest, PageView, check_page,
    decode_row_map, decode_row_pairs, open_body,
};
use crate::quant::{CodeKind, Codebook};
use crate::types::{Metric, NodeId, PageId, VectorSet, VectorType};

pub(super) fn small(metric: Metric) -> BuildOptions {
    let mut options = BuildOptions::new(metric);
    options.graph.degree = 16;
    options.graph.list = 32;
    options.graph.threads = 2;
    options
}

fn run(set: VectorSet<'_>, dir: &Path, options: &BuildOptions) -> Result<Manifest, BuildError> {
    build(set, dir, options, &Silent, &AtomicBool::new(false))?;
    let bytes = fs::read(dir.join("MANIFEST")).expect("a build writes a manifest");
    Ok(Manifest::decode(&bytes).expect("the manifest is valid"))
}

/// Reads everything back and compares it with the input; returns row -> neighbour rows.
pub(super) fn read_back(
    set: VectorSet<'_>,
    dir: &Path,
    manifest: &Manifest,
) -> HashMap<u64, Vec<u64>> {
    let identity = manifest.identity();
    for file in manifest.files() {
        let bytes = fs::metadata(dir.join(&file.path)).expect("the file stands there").len();
        file.check_length(bytes).expect("the length is as stated");
    }
    let body = |path: &str, kind| {
        let bytes = fs::read(dir.join(path)).expect("readable");
        open_body(&bytes, kind, &identity).expect("undamaged").1.to_vec()
    };
    let book =
        Codebook::from_bytes(&body(manifest.codebook_file.path.as_str(), FileKind::Codebook))
            .expect("a codebook");
    let mut row_at = HashMap::new();
    let mut edges_at = HashMap::new();
    for part in &manifest.partitions {
        let segment = fs::read(dir.join(part.dir.join(&part.segments[0].file.path)));
        let segment = segment.expect("readable");
        let blocked = |name, kind: FileKind| {
            let bytes = fs::read(dir.join(part.dir.join(name))).expect("readable");
            let header = FileHeader::decode(&bytes, kind, &identity).expect("a header");
            let at = kind.checksums_offset(header.body_bytes).expect("in range") as usize;
            let sums = BlockChecksums::decode(&header, &bytes[at..]).expect("checksums");
            let first = kind.body_offset() as usize;
            let body = bytes[first..first + header.body_bytes as usize].to_vec();
            for (i, block) in body.chunks(BLOCK_BYTES).enumerate() {
                sums.verify(i as u64, block).expect("undamaged");
            }
            body
        };
        let codes = blocked(&part.codes.path, FileKind::Codes);
        let limit = manifest.layout.node_limit();
        let map = part.row_map.as_ref().expect("a row map");
        let map: HashMap<u32, u32> = if manifest.partitions.len() == 1 {
            let map = decode_row_map(&blocked(&map.path, FileKind::RowMap), limit);
            (0..).zip(map.expect("a row map")).collect()
        } else {
            let map = decode_row_pairs(&blocked(&map.path, FileKind::RowPairs), limit);
            map.expect("a row map of some rows").into_iter().collect()
        };
        let records = map.len();
        let mut found = 0;
        for (i, image) in segment.chunks(manifest.layout.page_bytes()).enumerate() {
            let page = PageId(part.first_page + i as u32);
            check_page(image, &identity, page).expect("a sealed page");
            let view = PageView::new(&manifest.layout, image);
            for slot in (0..64).filter(|s| view.occupied() >> s & 1 == 1) {
                let node = manifest.layout.node(page, slot);
                let row = view.row_id(slot).0;
                assert_eq!(view.vector(slot), set.row(row as usize), "the vector of row {row}");
                assert_eq!(map[&(row as u32)], node.0, "the map knows row {row}");
                found += 1;
                let mut code = vec![0; book.code_bytes()];
                book.encode(set.row(row as usize), set.vector_type(), &mut code);
                let at = (i * manifest.layout.records_per_page() + slot) * code.len();
                assert_eq!(codes[at..at + code.len()], code, "the code of row {row}");
                let mut edges = Vec::new();
                view.neighbours_into(slot, &mut edges);
                assert!(row_at.insert(node.0, row).is_none(), "one record per node");
                edges_at.insert(row, edges);
            }
        }
        if manifest.partitions.len() > 1 {
            assert_eq!(found, records, "the map knows no row of another partition");
        }
    }
    assert_eq!(edges_at.len(), set.rows(), "every row exactly once");
    let head = body(manifest.head_file.path.as_str(), FileKind::Head);
    let head = HeadParts::decode(&head, manifest.slots()).expect("a head index");
    assert!(!head.nodes.is_empty());
    assert!(head.nodes.iter().all(|n| row_at.contains_key(n)), "head nodes exist");
    assert!(row_at.contains_key(&manifest.entries[0].0), "the entry exists");
    let rows = |edges: Vec<u32>| edges.iter().map(|n| row_at[n]).collect();
    edges_at.into_iter().map(|(row, edges)| (row, rows(edges))).collect()
}

#[test]
fn all_rows_and_edges_are_read_back_whatever_the_number_of_partitions() {
    let rows = Rows::clustered(1200, 16, VectorType::U8, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let mut seen = Vec::new();
    let cuts = PartitionBy::ALL.map(|(_, by)| (3, by));
    for (partitions, partition_by) in cuts.into_iter().chain([(1, PartitionBy::Graph)]) {
        let dir = temp.path().join(format!("index-{partitions}-{partition_by:?}"));
        let mut options = BuildOptions { partitions, partition_by, ..small(Metric::L2) };
        options.graph.threads = 1;
        let manifest = run(rows.set(), &dir, &options).expect("it builds");
        assert_eq!(manifest.partitions.len(), partitions);
        seen.push(read_back(rows.set(), &dir, &manifest));
        let part_of = |node: u32| {
            let page = manifest.layout.page_of(NodeId(node)).0;
            manifest.partitions.iter().rposition(|p| p.first_page <= page)
        };
        assert_eq!(part_of(manifest.slots() as u32 - 1), Some(partitions - 1));
    }
    // The graph is that of the rows: how nodes are numbered does not matter.
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

/// The partition of each row id, by the row maps of an index of several.
pub(super) fn parts_of_rows(dir: &Path, manifest: &Manifest) -> HashMap<u64, usize> {
    let mut part_of = HashMap::new();
    for (number, part) in manifest.partitions.iter().enumerate() {
        let file = part.dir.join(&part.row_map.as_ref().expect("a row map").path);
        let bytes = fs::read(dir.join(file)).expect("readable");
        let (kind, identity) = (FileKind::RowPairs, manifest.identity());
        let header = FileHeader::decode(&bytes, kind, &identity).expect("a header");
        let body = &bytes[kind.body_offset() as usize..][..header.body_bytes as usize];
        let pairs = decode_row_pairs(body, manifest.slots()).expect("pairs");
        part_of.extend(pairs.into_iter().map(|(row, _)| (u64::from(row), number)));
    }
    part_of
}

#[test]
fn partitions_are_balanced_and_those_of_near_rows_cut_few_edges() {
    let rows = Rows::clustered(6000, 16, VectorType::U8, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let mut cut_of = HashMap::new();
    for (name, partition_by) in PartitionBy::ALL {
        for partitions in [2, 5, 10] {
            let dir = temp.path().join(format!("{name}-{partitions}"));
            let options = BuildOptions { partitions, partition_by, ..small(Metric::L2) };
            let manifest = run(rows.set(), &dir, &options).expect("it builds");
            let edges = read_back(rows.set(), &dir, &manifest);
            let part_of = parts_of_rows(&dir, &manifest);
            for number in 0..partitions {
                // Those by the order of pages are as equal as pages are.
                let slack = if partition_by == PartitionBy::Order { 1.1 } else { 1.05 };
                let most = 6000.0 * slack / partitions as f64;
                let rows = part_of.values().filter(|part| **part == number).count();
                assert!(rows as f64 <= most, "{name}, {partitions}: {rows} rows in one");
            }
            let all: usize = edges.values().map(Vec::len).sum();
            let leaves = |(row, to): (&u64, &Vec<u64>)| {
                to.iter().filter(|to| part_of[to] != part_of[row]).count()
            };
            let cut = edges.iter().map(leaves).sum::<usize>() as f64 / all as f64;
            cut_of.insert((name, partitions), cut);
        }
    }
    for partitions in [2, 5, 10] {
        let cut = |name| cut_of[&(name, partitions)];
        assert!(cut("graph") < 0.5 * cut("random"), "{cut_of:?}");
        assert!(cut("graph") <= cut("kmeans") * 1.05, "{cut_of:?}");
        assert!(cut("graph") < cut("order"), "{cut_of:?}");
    }
}

#[test]
fn small_and_degenerate_inputs_build_for_every_metric() {
    let temp = tempfile::tempdir().expect("a directory");
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for n in [1, 2, 5, 40] {
            for (i, rows) in
                [Rows::equal(n, 8), Rows::clustered(n, 8, VectorType::F32, 2)].iter().enumerate()
            {
                let dir = temp.path().join(format!("{metric}-{n}-{i}"));
                let manifest = run(rows.set(), &dir, &small(metric)).expect("it builds");
                assert_eq!(manifest.rows, n as u64);
                read_back(rows.set(), &dir, &manifest);
            }
        }
        // More partitions than pages: some hold none.
        let rows = Rows::equal(3, 8);
        let dir = temp.path().join(format!("{metric}-parts"));
        let options = BuildOptions { partitions: 3, ..small(metric) };
        let manifest = run(rows.set(), &dir, &options).expect("it builds");
        read_back(rows.set(), &dir, &manifest);
    }
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).expect("readable").count()
}

#[test]
fn wrong_inputs_are_refused_by_name_and_leave_nothing() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let refuse = |bytes: &[u8], ty, metric| {
        let set = VectorSet::new(bytes, 4, ty).expect("whole rows");
        run(set, &dir, &small(metric)).expect_err("it is refused")
    };
    assert!(matches!(refuse(&[], VectorType::U8, Metric::L2), BuildError::Empty));
    for value in [f32::NAN, f32::INFINITY] {
        let mut components = [1.0f32; 12];
        components[9] = value;
        let bytes: Vec<u8> = components.iter().flat_map(|x| x.to_le_bytes()).collect();
        let found = refuse(&bytes, VectorType::F32, Metric::L2);
        assert!(matches!(found, BuildError::NotFinite { row: 2, .. }), "{found}");
        assert!(found.to_string().contains("row 2"), "{found}");
    }
    let mut components = [1.8e19_f32; 12];
    let in_bytes = |components: &[f32]| -> Vec<u8> {
        components.iter().flat_map(|x| x.to_le_bytes()).collect()
    };
    components[..4].fill(9e18);
    let found = refuse(&in_bytes(&components), VectorType::F32, Metric::Cosine);
    assert!(matches!(found, BuildError::Norm { row: 1, .. }), "{found}");
    assert!(found.to_string().contains("1.296"), "{found}");
    let mut options = small(Metric::L2);
    options.graph.alpha = 0.5;
    let rows = Rows::equal(5, 4);
    let found = run(rows.set(), &dir, &options).expect_err("it is refused");
    assert!(matches!(found, BuildError::Option { option: "alpha", .. }));
    assert_eq!(entries(temp.path()), 0, "nothing is left");
}

#[test]
fn an_index_is_replaced_only_when_asked_and_other_files_never() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let (few, many) = (Rows::equal(5, 4), Rows::clustered(50, 4, VectorType::U8, 1));
    fs::create_dir(&dir).expect("an empty directory may be used");
    run(few.set(), &dir, &small(Metric::L2)).expect("it builds");
    let found = run(many.set(), &dir, &small(Metric::L2)).expect_err("it is refused");
    assert!(matches!(found, BuildError::Exists { .. }));
    let replace = BuildOptions { overwrite: true, ..small(Metric::L2) };
    let manifest = run(many.set(), &dir, &replace).expect("it builds");
    assert_eq!(manifest.rows, 50);
    read_back(many.set(), &dir, &manifest);
    assert_eq!(entries(temp.path()), 1, "the old index is gone");

    for place in ["queries.u8bin", "part-0000/codes-1.bak", "part-0001", ".hidden"] {
        let place = dir.join(place);
        fs::write(&place, "mine").expect("a file");
        let found = run(few.set(), &dir, &replace).expect_err("it is refused");
        assert!(matches!(&found, BuildError::Stranger { path, .. } if path.ends_with(&place)));
        fs::remove_file(place).expect("it is still there");
    }
    assert_eq!(entries(temp.path()), 1, "nothing is left");
    read_back(many.set(), &dir, &manifest);

    let other = temp.path().join("other");
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("letter.txt"), "dear").expect("a file");
    let found = run(few.set(), &other, &replace).expect_err("it is refused");
    assert!(matches!(found, BuildError::Occupied { .. }));
    let found = run(few.set(), &other.join("letter.txt"), &replace).expect_err("it is refused");
    assert!(matches!(found, BuildError::Occupied { .. }));
}

/// Raises the flag when a stage begins.
struct StopAt<'a>(Stage, &'a AtomicBool);

impl Progress for StopAt<'_> {
    fn stage(&self, stage: Stage, _: u64) {
        self.1.fetch_or(stage == self.0, Ordering::Relaxed);
    }

    fn advance(&self, _: u64) {}
}

#[test]
fn a_build_stopped_in_any_stage_leaves_nothing_and_keeps_the_old_index() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let rows = Rows::clustered(600, 8, VectorType::U8, 1);
    let replace = BuildOptions { overwrite: true, ..small(Metric::L2) };
    for existing in [0, 1] {
        for stage in
            [Stage::Check, Stage::Encode, Stage::Graph, Stage::Order, Stage::Head, Stage::Write]
        {
            let flag = AtomicBool::new(false);
            let done = build(rows.set(), &dir, &replace, &StopAt(stage, &flag), &flag);
            assert!(matches!(done, Err(BuildError::Cancelled(_))), "{stage:?}: {done:?}");
            assert_eq!(entries(temp.path()), existing, "{stage:?}");
        }
        if existing == 0 {
            run(rows.set(), &dir, &replace).expect("it builds");
        }
    }
    let bytes = fs::read(dir.join("MANIFEST")).expect("the old index stands");
    assert_eq!(Manifest::decode(&bytes).expect("whole").rows, 600);
}

#[test]
fn the_estimate_of_disk_space_is_close() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let rows = Rows::clustered(3000, 32, VectorType::F32, 1);
    let options = small(Metric::L2);
    let told = estimate(3000, 32, VectorType::F32, &options).expect("in range").disk_bytes;
    let report = build(rows.set(), &dir, &options, &Silent, &AtomicBool::new(false));
    let found = report.expect("it builds").disk_bytes;
    assert!(told >= found && told < found + found / 10, "told {told}, found {found}");
}

#[test]
fn codes_are_of_the_kind_and_length_asked_for() {
    let temp = tempfile::tempdir().expect("a directory");
    let rows = Rows::clustered(900, 32, VectorType::U8, 1);
    let built = |name: &str, options: BuildOptions| {
        let dir = temp.path().join(name);
        let manifest = run(rows.set(), &dir, &options)?;
        read_back(rows.set(), &dir, &manifest);
        Ok(manifest.code_bytes)
    };
    let rabitq = BuildOptions { codes: CodeKind::Rabitq, ..small(Metric::L2) };
    let of_bytes = |bytes| BuildOptions { code_bytes: Some(bytes), ..rabitq.clone() };
    assert_eq!(built("bits", rabitq.clone()).expect("it builds"), 8 + 4 * 4);
    assert_eq!(built("fewer", of_bytes(15)).expect("it builds"), 8 + 4);
    for asked in [11, 41] {
        let found: BuildError = built("none", of_bytes(asked)).expect_err("it is refused");
        assert!(found.to_string().contains("have 12 to 40 bytes"), "{found}");
    }
    let within = |limit| BuildOptions { search_memory: Some(limit), ..small(Metric::L2) };
    assert_eq!(built("ample", within(1 << 30)).expect("it builds"), 32);
    // Scratch, codebook and head index, and some 20 bytes for each slot.
    let tight = (4 << 20) + 34 * 1024 + 900 * 24;
    assert_eq!(built("tight", within(tight)).expect("it builds"), 16);
}

/// Rows of which each `nth` is so many times as long.
fn scaled(nth: usize, times: f32) -> Vec<u8> {
    let rows = Rows::clustered(2_000, 16, VectorType::F32, 1);
    let mut bytes = rows.set().bytes().to_vec();
    for row in bytes.chunks_exact_mut(16 * 4).step_by(nth) {
        for x in row.as_chunks_mut().0 {
            *x = (f32::from_le_bytes(*x) * times).to_le_bytes();
        }
    }
    bytes
}

#[test]
fn rows_whose_lengths_lie_orders_apart_have_codes_of_any_scale() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let is_any = |bytes: &[u8], options: &BuildOptions| {
        let set = VectorSet::new(bytes, 16, VectorType::F32).expect("whole rows");
        let options = BuildOptions { overwrite: true, ..options.clone() };
        let manifest = run(set, &dir, &options).expect("it builds");
        read_back(set, &dir, &manifest);
        let file = fs::read(dir.join(manifest.codebook_file.path.as_str())).expect("readable");
        let (_, body) = open_body(&file, FileKind::Codebook, &manifest.identity()).expect("whole");
        Codebook::from_bytes(body).expect("a codebook").is_any_scale()
    };
    for metric in [Metric::L2, Metric::InnerProduct] {
        let options = small(metric);
        assert!(!is_any(&scaled(1, 1.0), &options), "{metric}: alike");
        assert!(!is_any(&scaled(3, 3.0), &options), "{metric}: hardly apart");
        assert!(is_any(&scaled(1_999, 1e9), &options), "{metric}: one far longer than all others");
        assert!(is_any(&scaled(5, 1e-3), &options), "{metric}: many far shorter");
        assert!(!is_any(&scaled(200, 1e-3), &options), "{metric}: as few as any search finds");
        let forced = BuildOptions { any_scale: true, ..options };
        assert!(is_any(&scaled(1, 1.0), &forced), "{metric}: as asked");
    }
    assert!(!is_any(&scaled(5, 1e6), &small(Metric::Cosine)), "lengths are left out");
}
