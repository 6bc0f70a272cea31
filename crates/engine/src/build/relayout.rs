//! A graph that stands in an index, laid out anew: other partitions, pages and nodes, the same rows,
//! edges and codebook.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::gather::{gather, view};
use super::halves::linking_copy;
use super::import::connected;
use super::options::{BuildOptions, MOST_LIST, MOST_PASSES};
use super::order::{EMPTY_SLOT, Locality, PageOrder};
use super::parted::{Parting, parts_rows};
use super::partition_bounds::NEAR_IN_FILES;
use super::pipeline::{Build, BuildReport, Input, SourceRows, in_pool};
use super::plan::CutPlan;
use super::progress::{Progress, Stage};
use super::site::Site;
use super::sizes::{Sizes, SlotNeeds};
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
    let standing = StandingIndex::of(&graph.manifest, &graph.codebook);
    let options = standing.options(options);
    let sizes = standing.sizes(graph.ids.len(), &options)?;
    let site = Site::open(dir, options.overwrite, sizes.disk_bytes())?;
    let build =
        Build { options: &options, sizes, progress, cancel, limit: None, stages: Vec::new() };
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
    let standing = StandingIndex::of(&graph.manifest, &graph.codebook);
    let options = standing.options(options);
    let (rows, slots) = (graph.ids.len(), graph.slots());
    let (sizes, plan) = standing.planned(rows, slots, &options, limit)?;
    let needed = sizes.disk_bytes().saturating_add(CutPlan::spilled_bytes(&sizes, NEAR_IN_FILES));
    let site = Site::open(dir, options.overwrite, needed)?;
    let limit = Some(limit);
    let build = Build { options: &options, sizes, progress, cancel, limit, stages: Vec::new() };
    in_pool(&options, dir, || build.run_repartition_limited(graph, &plan, site))?
}

/// Refuses what [`repartition`] would, or [`repartition_limited`] where there is a limit, before
/// anything is read: an index in `dir` that is not to be replaced, options, a limit that is too small,
/// a disk without room for the index and for the files that it is made from.
///
/// # Errors
/// As these.
pub(crate) fn check_repartition(
    manifest: &Manifest,
    codebook: &Codebook,
    limit: Option<u64>,
    dir: &Path,
    options: &BuildOptions,
) -> Result<(), BuildError> {
    let standing = StandingIndex::of(manifest, codebook);
    let options = standing.options(options);
    let rows = usize::try_from(manifest.rows).unwrap_or(usize::MAX);
    let needed = if let Some(limit) = limit {
        let (sizes, _) = standing.planned(rows, manifest.slots(), &options, limit)?;
        let row_bytes = manifest.layout.vector_bytes() as u64 + sizes.list_bytes();
        let files = manifest.rows.saturating_mul(row_bytes);
        let spilled = CutPlan::spilled_bytes(&sizes, NEAR_IN_FILES);
        sizes.disk_bytes().saturating_add(files).saturating_add(spilled)
    } else {
        standing.sizes(rows, &options)?.disk_bytes()
    };
    Site::open(dir, options.overwrite, needed).map(drop)
}

/// What an index is and what its codes mean, of which another is made.
struct StandingIndex<'a> {
    manifest: &'a Manifest,
    codebook: &'a Codebook,
}

impl<'a> StandingIndex<'a> {
    fn of(manifest: &'a Manifest, codebook: &'a Codebook) -> Self {
        Self { manifest, codebook }
    }

    /// The options of an index that is made of this one.
    fn options(&self, options: &BuildOptions) -> BuildOptions {
        let (layout, built) = (&self.manifest.layout, &self.manifest.build);
        BuildOptions {
            metric: self.manifest.metric,
            graph: VamanaOptions {
                degree: layout.max_degree(),
                // Older versions took longer ones.
                list: (built.list as usize).clamp(1, MOST_LIST),
                alpha: built.alpha,
                passes: (built.passes as usize).clamp(1, MOST_PASSES),
                ..options.graph
            },
            codes: self.codebook.kind(),
            code_bytes: Some(self.codebook.code_bytes()),
            any_scale: self.codebook.is_any_scale(),
            page_bytes: Some(layout.page_bytes()),
            ..options.clone()
        }
    }

    fn sizes(&self, rows: usize, options: &BuildOptions) -> Result<Sizes, BuildError> {
        self.sizes_with(rows, options, SlotNeeds { least: 0, groups: options.partitions as u64 })
    }

    fn sizes_with(
        &self,
        rows: usize,
        options: &BuildOptions,
        needs: SlotNeeds,
    ) -> Result<Sizes, BuildError> {
        let layout = &self.manifest.layout;
        options.check(layout.dim())?;
        if rows == 0 {
            return Err(BuildError::Empty);
        }
        Sizes::with_slots(rows as u64, layout.dim(), layout.vector_type(), options, needs)
    }

    /// Sizes, and how rows are laid out within a limit, of a graph whose nodes are below `slots`.
    fn planned(
        &self,
        rows: usize,
        slots: u64,
        options: &BuildOptions,
        limit: u64,
    ) -> Result<(Sizes, CutPlan), BuildError> {
        let parts = parts_rows((options.partitions, options.partition_by), rows)?;
        // Rows that are not parted stay the nodes that they are.
        let least = if parts { 0 } else { slots };
        let needs = SlotNeeds { least, groups: options.partitions as u64 };
        let sizes = self.sizes_with(rows, options, needs)?;
        let plan = CutPlan::new(&sizes, options.partitions, limit)?;
        Ok((sizes, plan))
    }
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
        let slots = usize::try_from(standing.slots()).expect("nodes are below 2^32");
        let mut rows = vec![EMPTY_SLOT; slots.next_multiple_of(records_per_page)];
        for (row, &node) in standing.nodes.iter().enumerate() {
            rows[node as usize] = row as u32;
        }
        let order = PageOrder::of_slots(rows, standing.nodes.len(), records_per_page, vec![]);
        let locality = order.locality_in(&standing.lists, self.cancel)?;
        Ok((order.cut(self.options.partitions), locality))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::check_slots;
    use super::super::tests::Rows;
    use super::*;
    use crate::build::{PartitionBy, Silent, build};
    use crate::format::LayoutError;
    use crate::quant::CodeOptions;
    use crate::types::{Metric, VectorType};

    static GO: AtomicBool = AtomicBool::new(false);

    /// Manifest and codebook of an index of few rows.
    fn few(dir: &Path) -> (Manifest, Codebook) {
        let rows = Rows::clustered(60, 8, VectorType::U8, 1);
        let mut options = BuildOptions::new(Metric::L2);
        options.graph.degree = 8;
        build(rows.set(), dir, &options, &Silent, &GO).expect("it is built");
        let manifest = std::fs::read(dir.join("MANIFEST")).expect("a manifest");
        let manifest = Manifest::decode(&manifest).expect("the manifest is valid");
        let codes = CodeOptions { code_bytes: 8, ..CodeOptions::for_dim(8) };
        (manifest, Codebook::train(rows.set(), Metric::L2, &codes))
    }

    #[test]
    fn nodes_that_stay_as_they_were_have_edges_that_can_name_them() {
        let temp = tempfile::tempdir().expect("a directory");
        let (manifest, book) = few(&temp.path().join("index"));
        let standing = StandingIndex::of(&manifest, &book);
        let last = (1 << 24) + 5;
        let cut = |partitions, partition_by| {
            let asked = BuildOptions { partitions, partition_by, ..BuildOptions::new(Metric::L2) };
            let options = standing.options(&asked);
            let planned = standing.planned(60, last + 1, &options, 1 << 40);
            planned.expect("there is room").0
        };
        for (partitions, by) in [(4, PartitionBy::Order), (1, PartitionBy::Graph)] {
            let sizes = cut(partitions, by);
            assert!(sizes.layout.node_limit() > last, "{partitions} by {by:?}");
            assert!(check_slots(&sizes, last + 1).is_ok());
        }
        let parted = cut(4, PartitionBy::Random);
        assert_eq!(parted.layout.edge_bytes(), 3, "rows are numbered anew");
        let refused = check_slots(&parted, last + 1);
        assert!(matches!(refused, Err(LayoutError::Rows { rows: 60, .. })), "{refused:?}");
    }

    #[test]
    fn an_index_without_rows_is_refused_as_an_input_without_any_is() {
        let temp = tempfile::tempdir().expect("a directory");
        let (manifest, codebook) = few(&temp.path().join("index"));
        let (to, options) = (temp.path().join("to"), BuildOptions::new(Metric::L2));
        let none = Manifest { rows: 0, ..manifest.clone() };
        for limit in [None, Some(1 << 40)] {
            let refused = check_repartition(&none, &codebook, limit, &to, &options);
            assert!(matches!(refused, Err(BuildError::Empty)), "{refused:?}");
        }
        let (ids, nodes) = (Vec::new(), Vec::new());
        let files = StandingFiles::create(&to, none, codebook.clone(), (ids, nodes), 0);
        let files = files.expect("files");
        let refused = repartition_limited(&files, 1 << 40, &to, &options, &Silent, &GO);
        assert!(matches!(refused, Err(BuildError::Empty)), "{refused:?}");
        let (ids, vectors, lists) = (Vec::new(), Vec::new(), Vec::new());
        let graph = StandingGraph { manifest, ids, vectors, lists, codebook, start: 0 };
        let refused = repartition(graph, &to, &options, &Silent, &GO);
        assert!(matches!(refused, Err(BuildError::Empty)), "{refused:?}");
        assert!(!to.exists(), "nothing is left");
    }

    #[test]
    fn what_would_be_refused_is_refused_before_anything_is_read() {
        let temp = tempfile::tempdir().expect("a directory");
        let (manifest, book) = few(&temp.path().join("index"));
        let check = |to: &str, limit, options: &BuildOptions| {
            check_repartition(&manifest, &book, limit, &temp.path().join(to), options)
        };
        let options = BuildOptions::new(Metric::L2);
        for limit in [None, Some(1 << 40)] {
            check("to", limit, &options).expect("nothing is against it");
            let exists = check("index", limit, &options);
            assert!(matches!(exists, Err(BuildError::Exists { .. })), "{exists:?}");
            let none = check("to", limit, &BuildOptions { partitions: 0, ..options.clone() });
            assert!(matches!(none, Err(BuildError::Option { option: "partitions", .. })));
        }
        let tight = check("to", Some(1 << 20), &options);
        assert!(matches!(tight, Err(BuildError::MemoryLimit { .. })), "{tight:?}");
        let by = PartitionBy::Kmeans;
        let by_centres = BuildOptions { partitions: 4, partition_by: by, ..options };
        let refused = check("to", Some(1 << 40), &by_centres);
        assert!(matches!(refused, Err(BuildError::Option { option: "partition-by", .. })));
        assert_eq!(std::fs::read_dir(temp.path()).expect("a directory").count(), 1);
    }
}
