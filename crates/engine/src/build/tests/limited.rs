//! Builds in shards: what is read back, that all can be reached, refusals, and stops.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Rows;
use super::index::{parts_of_rows, read_back, small};
use crate::build::limited::build_in_shards;
use crate::build::pipeline::build_whole;
use crate::build::plan::{CutPlan, Plan};
use crate::build::reach::connect_lists;
use crate::build::sizes::Sizes;
use crate::build::{
    BuildError, BuildOptions, PartitionBy, Progress, RowSource, Silent, Stage, build_limited,
    estimate,
};
use crate::distance::QueryDistance;
use crate::format::Manifest;
use crate::graph::{Adjacency, GreedyScratch, greedy_search};
use crate::quant::CodeKind;
use crate::types::{Metric, VectorSet, VectorType};

static GO: AtomicBool = AtomicBool::new(false);

fn plan(rows: usize, shards: usize) -> Plan {
    let cut =
        Some(CutPlan { group: 8, edges: 64 * rows, together: rows / 6 + 1, sorted_bytes: 4096 });
    let room = (3 * rows).div_ceil(shards).max(1);
    Plan { shards, room, sample: rows.min(700), cut, limit: 1 << 40 }
}

/// Builds in shards, reads all back, and returns the edges by row and the row where searches start.
fn linked(set: VectorSet<'_>, shards: usize, options: &BuildOptions) -> (Adjacency, u32) {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let plan = plan(set.rows(), shards);
    build_in_shards(&set, &plan, &dir, options, &Silent, &GO).expect("it is built");
    let manifest = fs::read(dir.join("MANIFEST")).expect("a manifest");
    let manifest = Manifest::decode(&manifest).expect("the manifest is valid");
    let found = read_back(set, &dir, &manifest);
    let mut graph = Adjacency::new(set.rows(), options.graph.degree);
    for (row, edges) in &found {
        let edges: Vec<u32> = edges.iter().map(|&n| n as u32).collect();
        assert!(!edges.contains(&(*row as u32)), "row {row} has no edge to itself");
        graph.set(*row as usize, &edges);
    }
    let entry = entry_row(&dir, &manifest);
    (graph, entry)
}

pub(super) fn entry_row(dir: &Path, manifest: &Manifest) -> u32 {
    let part = &manifest.partitions[0];
    let segment = fs::read(dir.join(part.dir.join(&part.segments[0].file.path)));
    let segment = segment.expect("readable");
    let entry = manifest.entries[0];
    let (page, slot) = (manifest.layout.page_of(entry), manifest.layout.slot_of(entry));
    let at = page.0 as usize * manifest.layout.page_bytes();
    let image = &segment[at..at + manifest.layout.page_bytes()];
    crate::format::PageView::new(&manifest.layout, image).row_id(slot).0 as u32
}

pub(super) fn reached(graph: &Adjacency, start: u32) -> usize {
    let mut seen = vec![false; graph.nodes()];
    let mut stack = vec![start];
    seen[start as usize] = true;
    let mut count = 0;
    while let Some(node) = stack.pop() {
        count += 1;
        for &n in graph.neighbours(node as usize) {
            if !std::mem::replace(&mut seen[n as usize], true) {
                stack.push(n);
            }
        }
    }
    count
}

#[test]
fn codes_of_either_kind_are_made_in_pieces_and_stand_by_their_rows() {
    for ty in [VectorType::U8, VectorType::F32] {
        let rows = Rows::clustered(1500, 24, ty, 4);
        for (codes, bytes) in [(CodeKind::Product, 6), (CodeKind::Rabitq, 20)] {
            let options = BuildOptions { codes, code_bytes: Some(bytes), ..small(Metric::Cosine) };
            // What is read back is compared with what the codebook makes of each row.
            let (graph, start) = linked(rows.set(), 4, &options);
            assert_eq!(reached(&graph, start), 1500, "{codes} {ty}");
        }
    }
}

fn recall_at_10(set: VectorSet<'_>, queries: VectorSet<'_>, metric: Metric) -> f64 {
    let mut options = small(metric);
    options.graph.degree = 32;
    options.graph.list = 64;
    let (graph, start) = linked(set, 5, &options);
    let mut scratch = GreedyScratch::new();
    let mut hits = 0;
    for q in 0..queries.rows() {
        let query = QueryDistance::new(metric, set.vector_type(), queries.row(q));
        let distance = |n: u32| query.distance(set.row(n as usize));
        let mut exact: Vec<f32> = (0..set.rows() as u32).map(distance).collect();
        exact.sort_unstable_by(f32::total_cmp);
        greedy_search(&graph, start, 40, distance, |_| {}, &mut scratch);
        let found = scratch.list.items().iter().take(10);
        hits += found.filter(|c| c.distance <= exact[9]).count();
    }
    hits as f64 / (10 * queries.rows()) as f64
}

#[test]
fn shards_merge_into_a_graph_that_finds_what_is_near_by_every_metric() {
    for (metric, least) in [(Metric::L2, 0.98), (Metric::Cosine, 0.98), (Metric::InnerProduct, 0.9)]
    {
        for ty in [VectorType::U8, VectorType::F32] {
            let (rows, queries) =
                (Rows::clustered(4000, 24, ty, 1), Rows::clustered(100, 24, ty, 2));
            let recall = recall_at_10(rows.set(), queries.set(), metric);
            assert!(recall >= least, "{metric} {ty}: recall {recall}");
        }
    }
}

#[test]
fn every_row_can_be_reached_however_rows_lie() {
    let far = {
        let mut bytes = Vec::new();
        // Eight crowds at corners far from each other, in the order of the rows.
        for row in 0..1600usize {
            let corner = |k: usize| if ((row / 200) >> (k % 3)) & 1 == 1 { 250u8 } else { 0 };
            bytes.extend((0..8).map(|k| corner(k) + (row * 7 + k) as u8 % 5));
        }
        bytes
    };
    let far = VectorSet::new(&far, 8, VectorType::U8).expect("whole rows");
    let equal = Rows::equal(900, 8);
    let few: Vec<Rows> = (1..6).map(|rows| Rows::clustered(rows, 8, VectorType::F32, 3)).collect();
    for set in [far, equal.set()].into_iter().chain(few.iter().map(Rows::set)) {
        for shards in [3, 7] {
            let (graph, start) = linked(set, shards, &small(Metric::L2));
            assert_eq!(reached(&graph, start), set.rows(), "{} rows", set.rows());
        }
    }
}

#[test]
fn a_limit_that_holds_all_builds_in_memory_and_one_too_small_is_refused_by_number() {
    let rows = Rows::clustered(600, 16, VectorType::U8, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let options = small(Metric::L2);
    let run = |limit| build_limited(&rows.set(), limit, &dir, &options, &Silent, &GO);
    let whole = estimate(600, 16, VectorType::U8, &options).expect("an estimate");
    let refused = run(1 << 20).expect_err("a mebibyte is too small");
    let BuildError::MemoryLimit { limit, needed } = refused else { panic!("{refused}") };
    assert!(limit == 1 << 20 && needed > limit);
    assert!(!dir.exists(), "nothing is left of a refused build");
    let input = 600 * 16;
    assert_eq!(run(whole.peak_memory_bytes + input).expect("it fits").rows, 600);
}

/// Floats of which every fifth row is a thousand times shorter, which product codes would lose.
fn of_two_scales(rows: usize, dim: usize) -> Vec<u8> {
    let mut bytes = Rows::clustered(rows, dim, VectorType::F32, 1).set().bytes().to_vec();
    for row in bytes.chunks_exact_mut(dim * 4).step_by(5) {
        for x in row.as_chunks_mut().0 {
            *x = (f32::from_le_bytes(*x) * 1e-3).to_le_bytes();
        }
    }
    bytes
}

/// Notes whether the graph was begun.
struct Begun(AtomicBool);

impl Progress for Begun {
    fn stage(&self, stage: Stage, _: u64) {
        self.0.fetch_or(stage == Stage::Graph, Ordering::Relaxed);
    }

    fn advance(&self, _: u64) {}
}

#[test]
fn codes_of_any_scale_are_as_long_as_the_limit_leaves_room_for() {
    let (rows, dim) = (1500, 32);
    let bytes = of_two_scales(rows, dim);
    let set = VectorSet::new(&bytes, dim, VectorType::F32).expect("whole rows");
    let options = BuildOptions { code_bytes: Some(4), ..small(Metric::L2) };
    let sizes = Sizes::new(rows as u64, dim, VectorType::F32, &options).expect("a shape");
    let wide = plan(rows, 4);
    let needed = |code_bytes| match wide.code_limit(&sizes, code_bytes) {
        BuildError::MemoryLimit { needed, .. } => needed,
        other => panic!("{other}"),
    };
    // Two factors, and 4 bytes for each bit of the components.
    assert_eq!(sizes.any_scale_code_bytes(), 8 + 4 * 4);
    let expected =
        [(1 << 40, Some(24)), (needed(23), Some(20)), (needed(12), Some(12)), (needed(11), None)];
    for (limit, expected) in expected {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("index");
        let begun = Begun(AtomicBool::new(false));
        let plan = Plan { limit, ..wide };
        let built = build_in_shards(&set, &plan, &dir, &options, &begun, &GO);
        let Some(expected) = expected else {
            let refused = built.expect_err("there is no room for any");
            assert!(matches!(refused, BuildError::MemoryLimit { .. }), "{refused}");
            assert!(!begun.0.into_inner(), "refused before the graph");
            assert!(!dir.exists(), "nothing is left");
            continue;
        };
        built.expect("it is built");
        let manifest = fs::read(dir.join("MANIFEST")).expect("a manifest");
        let manifest = Manifest::decode(&manifest).expect("the manifest is valid");
        assert_eq!(manifest.code_bytes, expected);
        read_back(set, &dir, &manifest);
    }
}

#[test]
fn rows_that_need_longer_codes_than_memory_holds_are_built_in_shards() {
    let (rows, dim) = (20_000, 8);
    let bytes = of_two_scales(rows, dim);
    let set = VectorSet::new(&bytes, dim, VectorType::F32).expect("whole rows");
    let mut options = small(Metric::L2);
    options.code_bytes = Some(1);
    options.graph.passes = 1;
    let whole = estimate(rows as u64, dim, VectorType::F32, &options).expect("an estimate");
    let limit = whole.peak_memory_bytes + bytes.len() as u64;
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let refused = build_whole(set, limit, &dir, &options, &Silent, &GO).expect_err("too long");
    assert!(matches!(refused, BuildError::MemoryLimit { .. }), "{refused}");
    assert!(!dir.exists(), "nothing is left");
    build_limited(&set, limit, &dir, &options, &Silent, &GO).expect("it is built");
    let manifest = fs::read(dir.join("MANIFEST")).expect("a manifest");
    let manifest = Manifest::decode(&manifest).expect("the manifest is valid");
    assert_eq!(manifest.code_bytes, 8 + 4);
    read_back(set, &dir, &manifest);
}

#[test]
fn connecting_what_cannot_be_reached_stops_when_told_to() {
    let mut graph = Adjacency::new(3, 2);
    let stopped = connect_lists(&mut graph, 0, |_, _| (), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(BuildError::Cancelled(_))), "{stopped:?}");
}

/// Raises a flag when a stage begins.
struct StopAt<'a>(Stage, &'a AtomicBool);

impl Progress for StopAt<'_> {
    fn stage(&self, stage: Stage, _: u64) {
        if stage == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    fn advance(&self, _: u64) {}
}

/// The share of edges that leave their partition, and the rows of each partition.
fn cut_of(set: VectorSet<'_>, dir: &Path) -> (f64, Vec<usize>) {
    let manifest = fs::read(dir.join("MANIFEST")).expect("a manifest");
    let manifest = Manifest::decode(&manifest).expect("the manifest is valid");
    let edges = read_back(set, dir, &manifest);
    let part_of = parts_of_rows(dir, &manifest);
    let mut rows = vec![0; manifest.partitions.len()];
    part_of.values().for_each(|&part| rows[part] += 1);
    let all: usize = edges.values().map(Vec::len).sum();
    let leave =
        edges.iter().map(|(row, to)| to.iter().filter(|to| part_of[to] != part_of[row]).count());
    (leave.sum::<usize>() as f64 / all as f64, rows)
}

#[test]
fn shards_come_into_balanced_partitions_by_their_graph_as_those_of_a_whole_build_do() {
    let rows = Rows::clustered(5000, 12, VectorType::U8, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let cut = |name: &str, partition_by, limited: bool| {
        let dir = temp.path().join(format!("{name}-{limited}"));
        let options = BuildOptions { partitions: 5, partition_by, ..small(Metric::L2) };
        if limited {
            build_in_shards(&rows.set(), &plan(5000, 4), &dir, &options, &Silent, &GO)?;
        } else {
            crate::build::build(rows.set(), &dir, &options, &Silent, &GO)?;
        }
        let (cut, rows) = cut_of(rows.set(), &dir);
        // The order of pages is as equal as pages are.
        let most = if partition_by == PartitionBy::Order { 1150 } else { 1050 };
        assert!(rows.iter().all(|&rows| rows <= most), "{name}: {rows:?}");
        Ok::<f64, BuildError>(cut)
    };
    for (name, partition_by) in PartitionBy::ALL {
        let limited = cut(name, partition_by, true);
        if partition_by == PartitionBy::Kmeans {
            let refused = matches!(limited, Err(BuildError::Option { option: "partition-by", .. }));
            assert!(refused && !temp.path().join("kmeans-true").exists());
            continue;
        }
        let limited = limited.expect("it is built");
        if partition_by == PartitionBy::Graph {
            // So few rows in groups of eight: how much is lost of many rows, `cluster-layout` tells.
            let whole = cut(name, partition_by, false).expect("it is built");
            let order = cut("unlimited", PartitionBy::Order, false).expect("it is built");
            let told =
                format!("{limited} of edges cut, {whole} by a whole build, {order} by order");
            assert!(limited <= 2.0 * whole && limited < 0.5 * order, "{told}");
        }
    }
    // Only the index is left.
    let left = fs::read_dir(temp.path()).expect("a directory").count();
    assert_eq!(left, PartitionBy::ALL.len() + 1);
}

#[test]
fn a_build_stopped_at_any_stage_leaves_nothing() {
    let rows = Rows::clustered(900, 16, VectorType::U8, 1);
    for stage in [Stage::Check, Stage::Graph, Stage::Order, Stage::Encode, Stage::Head] {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("index");
        let cancel = AtomicBool::new(false);
        let stop = StopAt(stage, &cancel);
        let plan = plan(900, 4);
        let options = BuildOptions { partitions: 3, ..small(Metric::L2) };
        let ended = build_in_shards(&rows.set(), &plan, &dir, &options, &stop, &cancel);
        assert!(matches!(ended, Err(BuildError::Cancelled(_))), "{stage:?}: {ended:?}");
        assert_eq!(fs::read_dir(temp.path()).expect("a directory").count(), 0, "{stage:?}");
    }
}

/// Rows of which one cannot be read from the second time on.
struct Failing<'a>(VectorSet<'a>, AtomicBool);

impl RowSource for Failing<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn vector_type(&self) -> VectorType {
        self.0.vector_type()
    }

    fn read(&self, first: usize, out: &mut [u8]) -> io::Result<()> {
        if self.1.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.0.read(first, out)
    }
}

#[test]
fn a_row_that_cannot_be_read_ends_the_build_and_is_named() {
    let rows = Rows::clustered(900, 16, VectorType::U8, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("index");
    let source = Failing(rows.set(), AtomicBool::new(false));
    let ended = build_in_shards(&source, &plan(900, 4), &dir, &small(Metric::L2), &Silent, &GO);
    assert!(matches!(ended, Err(BuildError::Source { row: 0..900, .. })), "{ended:?}");
    assert_eq!(fs::read_dir(temp.path()).expect("a directory").count(), 0);
}
