//! Clustered random vectors, exact truth, and indexes built over them in temporary directories.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pipeann_engine::build::{BuildOptions, Silent, build};
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::{Metric, SplitMix64, VectorSet, VectorType, from_f32};

/// Owned vectors.
pub(crate) struct Vectors {
    pub(crate) bytes: Vec<u8>,
    pub(crate) dim: usize,
    pub(crate) ty: VectorType,
}

impl Vectors {
    pub(crate) fn set(&self) -> VectorSet<'_> {
        VectorSet::new(&self.bytes, self.dim, self.ty).unwrap()
    }
}

/// A reproducible stream of numbers.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// `rows` vectors around 50 centres. All values of a seed share the centres.
pub(crate) fn clustered(rows: usize, dim: usize, ty: VectorType, seed: u64) -> Vectors {
    let mut centres = Numbers::new(99);
    let centres: Vec<u64> = (0..50 * dim).map(|_| centres.below(180)).collect();
    let mut numbers = Numbers::new(seed);
    let mut bytes = Vec::with_capacity(rows * ty.vector_bytes(dim));
    let mut row = vec![0.0; dim];
    for _ in 0..rows {
        let centre = numbers.below(50) as usize * dim;
        for (d, component) in row.iter_mut().enumerate() {
            let value = (centres[centre + d] + numbers.below(70) + 1) as f32;
            *component = match ty {
                VectorType::U8 => value,
                VectorType::I8 | VectorType::Binary => value - 125.0,
                VectorType::F32 | VectorType::F16 | VectorType::BF16 => value / 100.0 - 1.0,
            };
        }
        from_f32(&row, ty, &mut bytes);
    }
    Vectors { bytes, dim, ty }
}

/// Rows of the `k` nearest base vectors for each query, and of those as near as the last of them:
/// few bits and large bfloat16 leave many equally far.
pub(crate) fn truth(base: &Vectors, queries: &Vectors, metric: Metric, k: usize) -> Vec<Vec<u64>> {
    let (base, queries) = (base.set(), queries.set());
    (0..queries.rows())
        .map(|q| {
            let distance = QueryDistance::new(metric, base.vector_type(), queries.row(q));
            let mut all: Vec<(f32, u64)> =
                (0..base.rows()).map(|i| (distance.distance(base.row(i)), i as u64)).collect();
            all.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let last = all[k.min(all.len()) - 1].0;
            all.into_iter().take_while(|&(d, _)| d <= last).map(|(_, row)| row).collect()
        })
        .collect()
}

/// Small build parameters, so that tests are quick.
pub(crate) fn options(metric: Metric) -> BuildOptions {
    let mut options = BuildOptions::new(metric);
    options.graph.degree = 32;
    options.graph.list = 48;
    options.graph.threads = 2;
    options
}

pub(crate) fn build_in(dir: &Path, base: &Vectors, options: &BuildOptions) {
    build(base.set(), dir, options, &Silent, &AtomicBool::new(false)).unwrap();
}

/// Opens with an accountant of its own, so that tests do not see each other's memory. Buffered,
/// since temporary directories may lie on a file system without direct I/O.
pub(crate) fn open_options() -> OpenOptions {
    OpenOptions { direct: false, accountant: Accountant::new(None), ..OpenOptions::default() }
}

pub(crate) fn open(dir: &Path) -> Arc<Index> {
    Arc::new(Index::open(dir, &open_options()).unwrap())
}
