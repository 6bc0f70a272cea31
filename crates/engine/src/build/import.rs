//! A graph that DiskANN has built, laid out as an index of ours: in place of linking rows their
//! edges are read; pages, codes and head index are made as in any build.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::check::check_rows;
use super::diskann::{DiskannIndex, Nodes};
use super::error::BuildError;
use super::options::BuildOptions;
use super::pipeline::{Build, BuildReport, Input, in_pool};
use super::progress::{Progress, Stage};
use super::reach::connect;
use super::site::Site;
use super::sizes::Sizes;
use super::vamana_options::VamanaOptions;
use crate::distance::PairDistance;
use crate::graph::Adjacency;
use crate::types::VectorSet;

/// Makes an index in the directory `dir` of one that DiskANN has built, keeping its edges and its
/// medoid; row ids are DiskANN's. Nodes that no path leads to get an edge, as in a build.
///
/// Metric and degree are the index's, whatever the options say. What they say of the graph
/// otherwise holds for rows that are inserted later. Vectors and graph are in memory meanwhile.
///
/// # Errors
/// As [`build()`](super::build()), and [`BuildError::Diskann`] for nodes that cannot be right.
pub fn import_diskann(
    index: &DiskannIndex,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let graph = VamanaOptions { degree: index.degree(), ..options.graph };
    let options = BuildOptions { metric: index.metric(), graph, ..options.clone() };
    options.check(index.dim())?;
    let sizes = Sizes::new(index.rows() as u64, index.dim(), index.vector_type(), &options)?;
    let site = Site::open(dir, options.overwrite, sizes.disk_bytes())?;
    let build =
        Build { options: &options, sizes, progress, cancel, limit: None, stages: Vec::new() };
    in_pool(&options, dir, || build.run_import(index, site))?
}

impl Build<'_> {
    fn run_import(mut self, index: &DiskannIndex, site: Site) -> Result<BuildReport, BuildError> {
        let start = index.medoid();
        let Nodes { vectors, lists } = self.timed(Stage::Graph, |b| {
            b.progress.stage(Stage::Graph, index.rows() as u64);
            index.read(b.progress, b.cancel)
        })?;
        let source = VectorSet::new(&vectors, index.dim(), index.vector_type())
            .expect("whole vectors were read");
        let longest =
            self.timed(Stage::Check, |b| check_rows(source, b.options.metric, b.progress))?;
        let (book, codes) = self.timed(Stage::Encode, |b| b.encode(source, longest))?;
        self.reckon_codes(&book, &site, 0)?;
        let (graph, (order, locality)) = self.timed(Stage::Order, |b| {
            let pair = PairDistance::new(b.options.metric, source);
            let graph = connected(lists, index.degree(), &pair, start);
            let order = b.order(&pair, &graph)?;
            Ok((graph, order))
        })?;
        let head = self.timed(Stage::Head, |b| b.sampled_head(source, &order))?;
        let input = Input { source: &source, rows: None, start, locality };
        self.write_index(site, &input, &graph, &order, (&book, &codes), &head)
    }
}

/// Sorts all lists nearest first, as the layout wants them, and connects what cannot be reached.
pub(super) fn connected(
    lists: Vec<u32>,
    degree: usize,
    pair: &PairDistance<'_>,
    start: u32,
) -> Adjacency {
    let mut graph = nearest_first(lists, degree, pair);
    connect(&mut graph, pair, start);
    graph
}

/// Sorts all lists nearest first.
pub(super) fn nearest_first(
    mut lists: Vec<u32>,
    degree: usize,
    pair: &PairDistance<'_>,
) -> Adjacency {
    let rows = lists.par_chunks_exact_mut(degree + 1).enumerate();
    rows.for_each_init(Vec::new, |near, (node, row)| {
        let edges = row[0] as usize;
        let edges = &mut row[1..=edges];
        edges.iter().for_each(|&to| pair.prefetch(to as usize));
        near.clear();
        near.extend(edges.iter().map(|&to| (pair.distance(node, to as usize), to)));
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        edges.iter_mut().zip(near.iter()).for_each(|(edge, &(_, to))| *edge = to);
    });
    Adjacency::from_rows(lists, degree)
}
