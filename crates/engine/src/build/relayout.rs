//! A graph that stands in an index, laid out anew: other partitions, pages and nodes, the same rows,
//! edges and codebook.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::gather::{gather, view};
use super::halves::linking_copy;
use super::import::connected;
use super::options::BuildOptions;
use super::order::{EMPTY_SLOT, Locality, PageOrder};
use super::parted::{Parting, parts_rows};
use super::partition_bounds::NEAR_IN_FILES;
use super::pipeline::{Build, BuildReport, Input, SourceRows, in_pool};
use super::plan::CutPlan;
use super::progress::{Progress, Stage};
use super::site::Site;
use super::sizes::Sizes;
use super::standing_files::StandingFiles;
use super::vamana_options::VamanaOptions;
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
    let options = standing_options(&graph.manifest, &graph.codebook, options);
    let sizes = standing_sizes(&graph.manifest, graph.ids.len(), &options)?;
    let site = Site::open(dir, options.overwrite, sizes.disk_bytes())?;
    let build = Build { options: &options, sizes, progress, cancel, stages: Vec::new() };
    in_pool(&options, dir, || build.run_repartition(graph, site))?
}

/// As [`repartition`], of a graph in files, holding no more than about `limit` bytes.
///
/// # Errors
/// As [`repartition`]; [`BuildError::MemoryLimit`] for a limit that is too small, and
/// [`BuildError::Option`] for partitions by what needs all vectors.
pub fn repartition_limited(
    graph: &StandingFiles,
    limit: u64,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let options = standing_options(&graph.manifest, &graph.codebook, options);
    let rows = graph.ids.len();
    let sizes = standing_sizes(&graph.manifest, rows, &options)?;
    parts_rows((options.partitions, options.partition_by), rows)?;
    let plan = CutPlan::new(&sizes, options.partitions, limit)?;
    let needed = sizes.disk_bytes().saturating_add(CutPlan::spilled_bytes(&sizes, NEAR_IN_FILES));
    let site = Site::open(dir, options.overwrite, needed)?;
    let build = Build { options: &options, sizes, progress, cancel, stages: Vec::new() };
    in_pool(&options, dir, || build.run_repartition_limited(graph, &plan, site))?
}

/// The options of an index that is made of one with this manifest and codebook.
fn standing_options(
    manifest: &Manifest,
    codebook: &Codebook,
    options: &BuildOptions,
) -> BuildOptions {
    let (layout, built) = (&manifest.layout, &manifest.build);
    BuildOptions {
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
    }
}

fn standing_sizes(
    manifest: &Manifest,
    rows: usize,
    options: &BuildOptions,
) -> Result<Sizes, BuildError> {
    let layout = &manifest.layout;
    options.check(layout.dim())?;
    Sizes::new(rows as u64, layout.dim(), layout.vector_type(), options)
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
    fn run_repartition_limited(
        mut self,
        standing: &StandingFiles,
        plan: &CutPlan,
        site: Site,
    ) -> Result<BuildReport, BuildError> {
        let StandingFiles { manifest, codebook, ids, nodes, start, vectors, lists } = standing;
        let (order, locality) = self.timed(Stage::Order, |b| {
            b.progress.stage(Stage::Order, ids.len() as u64);
            let by = (b.options.partitions, b.options.partition_by);
            if !parts_rows(by, ids.len())? {
                return b.as_it_was(standing);
            }
            // What is nearest stands first in a list, as far as robust prune has left it there.
            let from = Parting { source: vectors, graph: lists, near: lists, ranks: nodes };
            b.parted(&site, &from, plan)
        })?;
        let codes = self.timed(Stage::Encode, |b| b.codes(vectors, codebook, &mut |_| {}))?;
        let head = self.timed(Stage::Head, |b| {
            let rows = b.sample(ids.len(), b.sizes.head_nodes);
            b.head(view(vectors, &gather(vectors, &rows)?), &rows, &order)
        })?;
        let rows = Some(SourceRows { ids, applied: manifest.applied });
        let input = Input { source: vectors, rows, start: *start, locality };
        self.write_index(site, &input, lists, &order, (codebook, &codes), &head)
    }

    /// Pages as they were, cut into as many partitions as are asked for.
    fn as_it_was(&self, standing: &StandingFiles) -> Result<(PageOrder, Locality), BuildError> {
        let records_per_page = self.sizes.layout.records_per_page();
        let slots = standing.nodes.iter().max().map_or(0, |last| *last as usize + 1);
        let mut rows = vec![EMPTY_SLOT; slots.next_multiple_of(records_per_page)];
        for (row, &node) in standing.nodes.iter().enumerate() {
            rows[node as usize] = row as u32;
        }
        let order = PageOrder::of_slots(rows, standing.nodes.len(), records_per_page, vec![]);
        let locality = order.locality_in(&standing.lists)?;
        Ok((order.cut(self.options.partitions), locality))
    }
}
