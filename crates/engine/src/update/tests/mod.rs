//! Behaviour of the room, on small indexes built from a seed.

mod adopt;
mod beginning;
mod codes;
mod crash;
mod displaced;
mod live;
mod many;
mod model;
mod replay;
mod rewrite;
mod scale;
mod shortage;
mod stopped;
mod succession;
mod types;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Files, LiveIndex, LiveOptions};
use crate::build::{BuildOptions, Silent, build};
use crate::distance::QueryDistance;
use crate::index::{Index, OpenOptions};
use crate::memory::Accountant;
use crate::search::{Hit, SearchParams};
use crate::types::{Metric, RowId, SplitMix64, VectorSet, VectorType};

/// A reproducible stream of numbers.
pub(super) struct Numbers(SplitMix64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Vectors of u8 around 100 centres, which all seeds share. Row `i` is vector `i`.
pub(super) struct Rows {
    bytes: Vec<u8>,
    pub(super) dim: usize,
}

impl Rows {
    pub(super) fn clustered(rows: usize, dim: usize, seed: u64) -> Self {
        let mut centres = Numbers::new(99);
        let centres: Vec<usize> = (0..100 * dim).map(|_| centres.below(180)).collect();
        let mut numbers = Numbers::new(seed);
        let mut bytes = Vec::with_capacity(rows * dim);
        for _ in 0..rows {
            let centre = numbers.below(100) * dim;
            for d in 0..dim {
                // The sum of two is denser in the middle, as real clusters are.
                let spread = numbers.below(36) + numbers.below(36);
                bytes.push((centres[centre + d] + spread) as u8);
            }
        }
        Self { bytes, dim }
    }

    pub(super) fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.dim..(row + 1) * self.dim]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.dim
    }

    /// The `k` nearest of `live` rows.
    pub(super) fn truth(
        &self,
        query: &[u8],
        k: usize,
        live: impl Iterator<Item = usize>,
    ) -> Vec<u64> {
        let distance = QueryDistance::new(Metric::L2, VectorType::U8, query);
        let mut all: Vec<(f32, u64)> =
            live.map(|i| (distance.distance(self.row(i)), i as u64)).collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        all.into_iter().take(k).map(|(_, row)| row).collect()
    }
}

/// An index in a directory of its own.
pub(super) struct Place {
    _dir: tempfile::TempDir,
    pub(super) path: PathBuf,
}

impl Place {
    /// The same index in another directory.
    pub(super) fn copy(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        std::fs::create_dir_all(path.join("part-0000")).unwrap();
        for part in ["", "part-0000"] {
            for entry in std::fs::read_dir(self.path.join(part)).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    let to = path.join(part).join(entry.file_name());
                    std::fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        Self { _dir: dir, path }
    }
}

/// Builds an index of the first `count` rows.
pub(super) fn built(rows: &Rows, count: usize) -> Place {
    built_of(&rows.bytes[..count * rows.dim], rows.dim, VectorType::U8, Metric::L2)
}

/// Builds an index of vectors of any type.
pub(super) fn built_of(bytes: &[u8], dim: usize, ty: VectorType, metric: Metric) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    let mut options = BuildOptions::new(metric);
    options.graph.degree = 24;
    options.graph.list = 48;
    // One thread, so that the graph is the same each time.
    options.graph.threads = 1;
    options.graph.passes = 1;
    let set = VectorSet::new(bytes, dim, ty).unwrap();
    build(set, &path, &options, &Silent, &AtomicBool::new(false)).unwrap();
    Place { _dir: dir, path }
}

pub(super) fn open_options() -> OpenOptions {
    OpenOptions { direct: false, accountant: Accountant::new(None), ..OpenOptions::default() }
}

pub(super) fn live(path: &Path) -> LiveIndex {
    let options = LiveOptions { open: open_options(), ..LiveOptions::default() };
    LiveIndex::open(path, options).unwrap()
}

pub(super) fn live_with(path: &Path, files: Arc<dyn Files>) -> LiveIndex {
    let options = LiveOptions { open: open_options(), files, ..LiveOptions::default() };
    LiveIndex::open(path, options).unwrap()
}

pub(super) fn read_only(path: &Path) -> Index {
    Index::open(path, &open_options()).unwrap()
}

pub(super) fn params(list: usize) -> SearchParams {
    SearchParams { k: 10, list, ..SearchParams::default() }
}

/// Rows of hits.
pub(super) fn rows_of(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|h| h.row.0).collect()
}

/// Share of the true neighbours among what `search` answers to `queries`.
pub(super) fn recall(
    queries: &Rows,
    truth: &[Vec<u64>],
    mut search: impl FnMut(&[u8]) -> Vec<Hit>,
) -> f64 {
    let (mut found, mut all) = (0, 0);
    for (q, truth) in truth.iter().enumerate() {
        let hits = rows_of(&search(queries.row(q)));
        found += truth.iter().filter(|row| hits.contains(row)).count();
        all += truth.len();
    }
    found as f64 / all as f64
}

pub(super) fn insert_all(index: &LiveIndex, rows: &Rows, range: std::ops::Range<usize>) {
    for row in range {
        index.insert(RowId(row as u64), rows.row(row)).unwrap();
    }
}

pub(super) fn delete_all(index: &LiveIndex, range: std::ops::Range<usize>) {
    for row in range {
        assert!(index.delete(RowId(row as u64)).unwrap(), "row {row} was there");
    }
}

/// Goes on consolidating until a pass is over.
pub(super) fn consolidate(index: &LiveIndex) -> u64 {
    loop {
        let report = index.consolidate(100).unwrap();
        if report.finished {
            return report.removed;
        }
    }
}

/// Reads the whole index on disk and finds nothing wrong.
pub(super) fn assert_sound(path: &Path) {
    let report = read_only(path).verify(&mut |_| {}).unwrap();
    assert_eq!(report.damage, vec![]);
}
