//! Indexes of DiskANN taken over: what becomes of their rows and edges, and which are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::Rows;
use super::index::{read_back, small};
use super::limited::{entry_row, reached};
use crate::build::{BuildError, BuildReport, DiskannIndex, Silent, import_diskann};
use crate::format::{DISKANN_SECTOR_BYTES, DiskannError, Manifest};
use crate::graph::Adjacency;
use crate::types::{Metric, VectorSet, VectorType};

static GO: AtomicBool = AtomicBool::new(false);

/// Byte offsets of numbers in the metadata sector.
const MEDOID: std::ops::Range<usize> = 24..32;
const METADATA: std::ops::Range<usize> = 0..80;

/// The bytes of a disk index as DiskANN lays them out.
fn disk_index(set: VectorSet<'_>, lists: &[Vec<u32>], degree: usize, medoid: u64) -> Vec<u8> {
    let node_bytes = set.row_bytes() + 4 * (degree + 1);
    let per_sector = DISKANN_SECTOR_BYTES / node_bytes;
    let (step, in_step) = (node_bytes.next_multiple_of(DISKANN_SECTOR_BYTES), per_sector.max(1));
    let length = DISKANN_SECTOR_BYTES + lists.len().div_ceil(in_step) * step;
    let mut bytes = vec![0; length];
    bytes[..8].copy_from_slice(&[9, 0, 0, 0, 1, 0, 0, 0]);
    let numbers =
        [lists.len(), set.dim(), medoid as usize, node_bytes, per_sector, 0, 0, 0, length];
    for (i, number) in numbers.iter().enumerate() {
        bytes[8 + i * 8..16 + i * 8].copy_from_slice(&(*number as u64).to_le_bytes());
    }
    for (node, list) in lists.iter().enumerate() {
        let mut at = DISKANN_SECTOR_BYTES + node / in_step * step + node % in_step * node_bytes;
        bytes[at..at + set.row_bytes()].copy_from_slice(set.row(node));
        at += set.row_bytes();
        for word in std::iter::once(list.len() as u32).chain(list.iter().copied()) {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            at += 4;
        }
    }
    bytes
}

/// A ring with chords; lists have from 3 to `degree` edges, in no order of distance.
fn chords(rows: usize, degree: usize) -> Vec<Vec<u32>> {
    let list = |node: usize| {
        let edges = 3 + node % (degree - 2);
        let mut list: Vec<u32> =
            (0..edges).map(|i| ((node + 1 + i * i * 7) % rows) as u32).collect();
        list.sort_unstable();
        list.dedup();
        list.retain(|&to| to as usize != node);
        list.reverse();
        list
    };
    (0..rows).map(list).collect()
}

/// An index under construction in a directory of its own.
struct Case {
    temp: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Case {
    fn new(bytes: Vec<u8>) -> Self {
        let case = Self { temp: tempfile::tempdir().expect("a directory"), bytes };
        case.leave("_disk.index", &case.bytes);
        case
    }

    fn leave(&self, end: &str, bytes: &[u8]) {
        fs::write(self.temp.path().join(format!("old{end}")), bytes).expect("written");
    }

    fn prefix(&self) -> PathBuf {
        self.temp.path().join("old")
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("index")
    }

    fn import(
        &self,
        ty: Option<VectorType>,
        metric: Option<Metric>,
    ) -> Result<BuildReport, BuildError> {
        let before = entries(self.temp.path());
        let index = DiskannIndex::open(&self.prefix(), ty, metric);
        let done = index.and_then(|index| {
            import_diskann(&index, &self.dir(), &small(Metric::L2), &Silent, &GO)
        });
        if done.is_err() {
            assert_eq!(entries(self.temp.path()), before, "nothing is left: {done:?}");
        }
        done
    }

    fn manifest(&self) -> Manifest {
        let bytes = fs::read(self.dir().join("MANIFEST")).expect("a manifest");
        Manifest::decode(&bytes).expect("the manifest is valid")
    }

    fn problem(&self, ty: Option<VectorType>, metric: Option<Metric>) -> DiskannError {
        match self.import(ty, metric).expect_err("it is refused") {
            BuildError::Diskann { problem, path } => {
                assert!(path.starts_with(self.temp.path()), "the file is named");
                problem
            }
            other => panic!("{other}"),
        }
    }
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).expect("a directory").count()
}

fn summary(numbers: [u64; 4]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn rows_edges_and_medoid_are_those_of_the_index() {
    // Several nodes in a sector, one that fits in none, and one that fills it to the last byte.
    let shapes = [
        (VectorType::U8, 24, 9),
        (VectorType::I8, 24, 9),
        (VectorType::F32, 1100, 9),
        (VectorType::F32, 1014, 9),
    ];
    for (ty, dim, degree) in shapes {
        let rows = Rows::clustered(301, dim, ty, 3);
        let lists = chords(301, degree);
        let case = Case::new(disk_index(rows.set(), &lists, degree, 17));
        let report = case.import(Some(ty), Some(Metric::L2)).expect("it is imported");
        assert_eq!(report.rows, 301);
        let manifest = case.manifest();
        assert_eq!(manifest.layout.max_degree(), degree);
        assert_eq!(entry_row(&case.dir(), &manifest), 17);
        for (row, mut edges) in read_back(rows.set(), &case.dir(), &manifest) {
            let mut list: Vec<u64> = lists[row as usize].iter().map(|&to| u64::from(to)).collect();
            edges.sort_unstable();
            list.sort_unstable();
            assert_eq!(edges, list, "the edges of row {row}, {ty} x {dim}");
        }
    }
}

#[test]
fn nodes_that_nothing_leads_to_are_connected_and_edges_to_oneself_dropped() {
    let rows = Rows::clustered(200, 16, VectorType::U8, 3);
    // Two rings apart, and some that only lead out.
    let list = |node: u32| match node {
        0..90 => vec![(node + 1) % 90, node, (node + 7) % 90],
        90..180 => vec![90 + (node + 1) % 90],
        _ => vec![node - 1, node - 1],
    };
    let lists: Vec<Vec<u32>> = (0..200).map(list).collect();
    let case = Case::new(disk_index(rows.set(), &lists, 4, 3));
    case.import(Some(VectorType::U8), Some(Metric::Cosine)).expect("it is imported");
    let manifest = case.manifest();
    let mut graph = Adjacency::new(200, 4);
    for (row, edges) in read_back(rows.set(), &case.dir(), &manifest) {
        let edges: Vec<u32> = edges.iter().map(|&to| to as u32).collect();
        assert!(!edges.contains(&(row as u32)), "row {row} has no edge to itself");
        graph.set(row as usize, &edges);
    }
    assert_eq!(reached(&graph, 3), 200);
}

#[test]
fn vectors_that_were_divided_for_the_inner_product_get_their_lengths_back() {
    let rows = Rows::clustered(150, 16, VectorType::F32, 3);
    let mut given = vec![0.0; 16];
    let longest = 512.0f32;
    let mut stored = Vec::new();
    for row in 0..150 {
        rows.set().row_f32(row, &mut given);
        let divided: Vec<f32> = given.iter().map(|x| x / longest).collect();
        let rest = (1.0 - divided.iter().map(|x| x * x).sum::<f32>()).max(0.0).sqrt();
        stored.extend(divided.iter().chain([&rest]).flat_map(|x| x.to_le_bytes()));
    }
    let stored = VectorSet::new(&stored, 17, VectorType::F32).expect("whole rows");
    let case = Case::new(disk_index(stored, &chords(150, 6), 6, 0));
    let ip = Some(Metric::InnerProduct);
    let untold = case.problem(Some(VectorType::F32), ip);
    assert!(matches!(untold, DiskannError::Unfit { .. }), "{untold}");
    let norm = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &longest.to_le_bytes()].concat();
    case.leave("_disk.index_max_base_norm.bin", &norm);
    let other = case.problem(Some(VectorType::F32), Some(Metric::L2));
    assert!(matches!(other, DiskannError::Disagrees { what: "metric", .. }), "{other}");
    case.leave("_metadata.bin", &summary([0, 1, 150, 16]));
    // 512 is a power of two, so that nothing is lost by dividing.
    case.import(None, None).expect("it is imported");
    read_back(rows.set(), &case.dir(), &case.manifest());
}

fn valid() -> Vec<u8> {
    let rows = Rows::clustered(100, 16, VectorType::U8, 3);
    disk_index(rows.set(), &chords(100, 7), 7, 5)
}

#[test]
fn a_flipped_bit_of_the_metadata_is_refused() {
    let valid = valid();
    for at in METADATA.filter(|at| !MEDOID.contains(at)) {
        for bit in 0..8 {
            let mut bytes = valid.clone();
            bytes[at] ^= 1 << bit;
            Case::new(bytes).problem(Some(VectorType::U8), Some(Metric::L2));
        }
    }
    // A medoid is any node; nothing tells which one it was.
    for at in MEDOID.skip(1) {
        let mut bytes = valid.clone();
        bytes[at] ^= 1;
        let problem = Case::new(bytes).problem(Some(VectorType::U8), Some(Metric::L2));
        assert!(matches!(problem, DiskannError::Metadata { field: "medoid", .. }), "{problem}");
    }
}

#[test]
fn damaged_files_and_other_layouts_are_refused_by_name() {
    let (u8, l2) = (Some(VectorType::U8), Some(Metric::L2));
    let valid = valid();
    let cut = Case::new(valid[..valid.len() - 1].to_vec()).problem(u8, l2);
    assert!(matches!(cut, DiskannError::Metadata { field: "bytes of the file", .. }), "{cut}");
    let short = Case::new(valid[..100].to_vec()).problem(u8, l2);
    assert_eq!(short, DiskannError::Short { found: 100 });
    let mut older = valid.clone();
    let length = (older.len() as u64).to_le_bytes();
    older[..8].copy_from_slice(&length);
    assert_eq!(Case::new(older).problem(u8, l2), DiskannError::Older);
    let with = |at: usize, word: u32| {
        let mut bytes = valid.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        Case::new(bytes).problem(u8, l2)
    };
    assert!(matches!(with(0, 12), DiskannError::Version { numbers: 12, columns: 1 }));
    assert!(matches!(with(48, 1), DiskannError::Unfit { .. }), "frozen nodes");
    assert!(matches!(with(64, 1), DiskannError::Unfit { .. }), "other vectors");
    assert!(matches!(with(800, 1), DiskannError::NotEmpty { .. }));
    let list = DISKANN_SECTOR_BYTES + 2 * 48 + 16;
    let degree = with(list, 8);
    assert!(matches!(degree, DiskannError::Degree { node: 2, degree: 8, most: 7, .. }), "{degree}");
    assert_eq!(with(list, 0), DiskannError::NoEdges { node: 2 });
    let edge = with(list + 4, 100);
    assert_eq!(edge, DiskannError::Edge { node: 2, to: 100, rows: 100 });
    let last = valid.len() - DISKANN_SECTOR_BYTES + 15 * 48;
    assert!(matches!(with(last + 40, 1), DiskannError::NotEmpty { .. }), "behind the last node");
    let as_floats = Case::new(valid.clone()).problem(Some(VectorType::F32), l2);
    assert!(matches!(as_floats, DiskannError::Metadata { field: "bytes of a node", .. }));
    let other = Case::new(valid).problem(Some(VectorType::F16), l2);
    assert!(matches!(other, DiskannError::Disagrees { what: "vector type", .. }), "{other}");
}

#[test]
fn what_stands_beside_an_index_is_believed_and_has_to_agree() {
    let (u8, l2) = (Some(VectorType::U8), Some(Metric::L2));
    let case = Case::new(valid());
    assert_eq!(case.problem(None, l2), DiskannError::Untold { what: "vector type" });
    assert_eq!(case.problem(u8, None), DiskannError::Untold { what: "metric" });
    for (numbers, what) in [
        ([2, 0, 99, 16], "number of nodes"),
        ([2, 0, 100, 15], "dimension"),
        ([1, 0, 100, 16], "vector type"),
        ([2, 2, 100, 16], "metric"),
    ] {
        case.leave("_metadata.bin", &summary(numbers));
        let problem = case.problem(u8, l2);
        assert!(
            matches!(problem, DiskannError::Disagrees { what: found, .. } if found == what),
            "{what}: {problem}"
        );
    }
    for numbers in [[9, 0, 100, 16], [2, 7, 100, 16]] {
        case.leave("_metadata.bin", &summary(numbers));
        assert!(matches!(case.problem(u8, l2), DiskannError::Metadata { .. }));
    }
    case.leave("_metadata.bin", b"short");
    assert!(matches!(case.problem(u8, l2), DiskannError::Metadata { field: "bytes", .. }));
    case.leave("_metadata.bin", &summary([2, 0, 100, 16]));
    for end in ["_disk.index_pq_pivots.bin", "_disk.index_dummy_map.txt"] {
        case.leave(end, b"");
        assert!(matches!(case.problem(None, None), DiskannError::Unfit { .. }), "{end}");
        fs::remove_file(case.temp.path().join(format!("old{end}"))).expect("removed");
    }
    case.import(None, None).expect("it is imported");
    let exists = case.import(None, None).expect_err("an index stands there");
    assert!(matches!(exists, BuildError::Exists { .. }), "{exists}");
}

#[test]
fn components_that_are_no_numbers_are_refused_by_row() {
    let mut rows = Rows::clustered(60, 8, VectorType::F32, 3);
    rows.bytes[41 * 32 + 4..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let case = Case::new(disk_index(rows.set(), &chords(60, 6), 6, 0));
    let refused = case.import(Some(VectorType::F32), Some(Metric::L2)).expect_err("refused");
    assert!(matches!(refused, BuildError::NotFinite { row: 41, .. }), "{refused}");
}
