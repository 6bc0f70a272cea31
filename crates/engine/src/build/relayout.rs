//! A graph that stands in an index, laid out anew: other partitions, pages and nodes, the same rows,
//! edges and codebook.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::halves::linking_copy;
use super::import::connected;
use super::options::BuildOptions;
use super::pipeline::{Build, BuildReport, Input, SourceRows, in_pool};
use super::progress::{Progress, Stage};
use super::site::Site;
use super::sizes::Sizes;
use super::vamana::VamanaOptions;
use crate::distance::PairDistance;
use crate::format::Manifest;
use crate::quant::Codebook;
use crate::types::{RowId, VectorSet};

/// What an index holds, by the position of each row among all row ids in order.
#[derive(Debug)]
pub struct StandingGraph {
    /// The manifest of where it stands.
    pub manifest: Manifest,
    /// Row ids, ascending.
    pub ids: Vec<RowId>,
    /// The bytes of all vectors.
    pub vectors: Vec<u8>,
    /// For each position its degree, and room for as many edges to positions as a node may have.
    pub lists: Vec<u32>,
    /// What codes are made by.
    pub codebook: Codebook,
    /// The position at which searches without a head index begin.
    pub start: u32,
}

/// Makes an index in the directory `dir` of a graph that stands, in the partitions of the options.
///
/// Rows, row ids, edges, codebook and size of pages are kept; of the options partitions, threads,
/// fill, head index and what becomes of an index in the directory count. Vectors and graph are in
/// memory meanwhile.
///
/// # Errors
/// As [`build()`](super::build()).
pub fn repartition(
    graph: StandingGraph,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let StandingGraph { manifest, codebook, .. } = &graph;
    let (layout, built) = (&manifest.layout, &manifest.build);
    let options = BuildOptions {
        metric: manifest.metric,
        graph: VamanaOptions {
            degree: layout.max_degree(),
            list: built.list as usize,
            alpha: built.alpha,
            passes: built.passes as usize,
            ..options.graph
        },
        codes: codebook.kind(),
        code_bytes: Some(codebook.code_bytes()),
        page_bytes: Some(layout.page_bytes()),
        ..options.clone()
    };
    options.check(layout.dim())?;
    let (dim, ty) = (layout.dim(), layout.vector_type());
    let sizes = Sizes::new(graph.ids.len() as u64, dim, ty, &options)?;
    let site = Site::open(dir, options.overwrite, sizes.disk_bytes())?;
    let build = Build { options: &options, sizes, progress, cancel, stages: Vec::new() };
    in_pool(&options, dir, || build.run_repartition(graph, site))?
}

impl Build<'_> {
    fn run_repartition(
        mut self,
        graph: StandingGraph,
        site: Site,
    ) -> Result<BuildReport, BuildError> {
        let StandingGraph { manifest, ids, vectors, lists, codebook, start } = graph;
        let (dim, ty) = (manifest.layout.dim(), manifest.layout.vector_type());
        let source = VectorSet::new(&vectors, dim, ty).expect("whole vectors were read");
        let codes = self.timed(Stage::Encode, |b| b.codes(&source, &codebook, &mut |_| {}))?;
        let (graph, (order, locality)) = self.timed(Stage::Order, |b| {
            let (copy, ty) = linking_copy(source, b.options.metric);
            let set = VectorSet::new(&copy, dim, ty).expect("a copy has the shape of its source");
            let pair = PairDistance::new(b.options.metric, set);
            let graph = connected(lists, b.options.graph.degree, &pair, start);
            let order = b.order(&pair, &graph)?;
            Ok((graph, order))
        })?;
        let head = self.timed(Stage::Head, |b| b.sampled_head(source, &order))?;
        let rows = Some(SourceRows { ids: &ids, applied: manifest.applied });
        let input = Input { source: &source, rows, start, locality };
        self.write_index(site, &input, &graph, &order, (&codebook, &codes), &head)
    }
}
