//! The whole build, from borrowed vectors to an index directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::check::{check_ids, check_rows};
use super::error::BuildError;
use super::gather::{gather, view};
use super::halves::linking_copy;
use super::head::head_parts;
use super::nearest::Nearest;
use super::options::{BuildOptions, PartitionBy};
use super::order::{Locality, OrderOptions, PageOrder, order_by};
use super::partition::assign;
use super::progress::{Cancelled, Progress, Stage, check_cancel};
use super::random::shuffled;
use super::reach::EdgeLists;
use super::site::Site;
use super::sizes::{NEAREST, Sizes};
use super::source::RowSource;
use super::threads::thread_count;
use super::vamana::vamana;
use super::vamana_options::VamanaOptions;
use super::write::{GENERATION, Parts, Writer};
use crate::distance::PairDistance;
use crate::format::{
    BuildParameters, FileKind, HeadParameters, HeadParts, Identity, LayoutError, Manifest,
};
use crate::graph::{Adjacency, medoid};
use crate::quant::Codebook;
use crate::types::{NodeId, RowId, VectorSet};

/// What a build has made.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildReport {
    /// Rows in the index.
    pub rows: u64,
    /// Logical pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Records a page has room for.
    pub records_per_page: usize,
    /// Mean number of edges of a node.
    pub mean_degree: f64,
    /// What the pages keep together.
    pub locality: Locality,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Wall time of each stage.
    pub stages: Vec<(Stage, Duration)>,
}

/// Builds an index of `source` in the directory `dir`; the row ids are the positions.
///
/// The index appears under its name when it is complete and on stable storage. Until then an
/// index that stood there can be opened, and after a failure it still can.
///
/// # Errors
/// [`BuildError`]; nothing new is left on disk then. [`Cancelled`] soon after `cancel` is set.
pub fn build(
    source: VectorSet<'_>,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let run = WholeBuild { dir, options, progress, cancel, limit: None };
    build_as(source, None, &run)
}

/// As [`build`], refusing where it takes more than `limit` bytes beside `source`.
pub(super) fn build_whole(
    source: VectorSet<'_>,
    limit: u64,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let run = WholeBuild { dir, options, progress, cancel, limit: Some(limit) };
    build_as(source, None, &run)
}

/// Which rows a build is made of.
#[derive(Clone, Copy, Debug)]
pub struct SourceRows<'a> {
    /// The row id of the vector at each position, ascending and below 2^32 - 1.
    pub ids: &'a [RowId],
    /// The last sequence number of the caller's log that the rows include.
    pub applied: u64,
}

/// As [`build`], with the row ids given.
///
/// # Errors
/// As [`build`], and [`BuildError::Rows`] for ids that are not as they have to be. Messages
/// about vectors name positions.
///
/// # Panics
/// Where there are not as many row ids as vectors.
pub fn build_rows(
    source: VectorSet<'_>,
    rows: SourceRows<'_>,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    assert_eq!(source.rows(), rows.ids.len(), "each vector has one row id");
    check_ids(rows.ids)?;
    let run = WholeBuild { dir, options, progress, cancel, limit: None };
    build_as(source, Some(rows), &run)
}

/// How and where a build in memory is made.
struct WholeBuild<'a> {
    dir: &'a Path,
    options: &'a BuildOptions,
    progress: &'a dyn Progress,
    cancel: &'a AtomicBool,
    limit: Option<u64>,
}

fn build_as(
    source: VectorSet<'_>,
    rows: Option<SourceRows<'_>>,
    run: &WholeBuild<'_>,
) -> Result<BuildReport, BuildError> {
    let &WholeBuild { dir, options, progress, cancel, limit } = run;
    options.check(source.dim())?;
    if source.rows() == 0 {
        return Err(BuildError::Empty);
    }
    let sizes = Sizes::new(source.rows() as u64, source.dim(), source.vector_type(), options)?;
    let site = Site::open(dir, options.overwrite, sizes.disk_bytes())?;
    let build = Build { options, sizes, progress, cancel, limit, stages: Vec::new() };
    in_pool(options, dir, || build.run(source, rows, site))?
}

/// Runs `work` where as many threads stand by as the options ask for.
pub(super) fn in_pool<T: Send>(
    options: &BuildOptions,
    dir: &Path,
    work: impl FnOnce() -> T + Send,
) -> Result<T, BuildError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(thread_count(options.graph.threads));
    let pool = pool.build().map_err(|e| BuildError::Io {
        action: "start threads for",
        path: dir.to_owned(),
        source: std::io::Error::other(e),
    })?;
    Ok(pool.install(work))
}

/// What an index is made of, and what is known of it.
pub(super) struct Input<'a> {
    pub(super) source: &'a dyn RowSource,
    pub(super) rows: Option<SourceRows<'a>>,
    pub(super) start: u32,
    pub(super) locality: Locality,
}

pub(super) struct Build<'a> {
    pub(super) options: &'a BuildOptions,
    pub(super) sizes: Sizes,
    pub(super) progress: &'a dyn Progress,
    pub(super) cancel: &'a AtomicBool,
    /// Bytes of memory that a build of rows in memory may take, where somebody said so.
    pub(super) limit: Option<u64>,
    pub(super) stages: Vec<(Stage, Duration)>,
}

impl Build<'_> {
    pub(super) fn timed<T>(
        &mut self,
        stage: Stage,
        work: impl FnOnce(&Self) -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        check_cancel(self.cancel)?;
        let start = Instant::now();
        let done = work(self)?;
        self.stages.push((stage, start.elapsed()));
        Ok(done)
    }

    fn run(
        mut self,
        source: VectorSet<'_>,
        rows: Option<SourceRows<'_>>,
        site: Site,
    ) -> Result<BuildReport, BuildError> {
        let options = self.options;
        let longest =
            self.timed(Stage::Check, |b| check_rows(source, options.metric, b.progress))?;
        let (book, codes) = self.timed(Stage::Encode, |b| b.encode(source, longest))?;
        self.reckon_codes(&book, &site, 0)?;
        let start = medoid(source, options.metric);
        let (graph, order) = {
            let (copy, ty) = linking_copy(source, options.metric);
            let set = VectorSet::new(&copy, source.dim(), ty)
                .expect("a copy has the shape of its source");
            let pair = PairDistance::new(options.metric, set);
            let graph = self.timed(Stage::Graph, |b| {
                Ok(vamana(&pair, start, &options.graph, b.progress, b.cancel)?)
            })?;
            let order = self.timed(Stage::Order, |b| b.order(&pair, &graph))?;
            (graph, order)
        };
        let (order, locality) = order;
        let head = self.timed(Stage::Head, |b| b.sampled_head(source, &order))?;
        let input = Input { source: &source, rows, start, locality };
        self.write_index(site, &input, &graph, &order, (&book, &codes), &head)
    }

    /// Writes all files and reports.
    ///
    /// # Errors
    /// Beside those of writing, [`LayoutError::Rows`] where pages
    /// that were not filled left too few node ids.
    pub(super) fn write_index(
        mut self,
        site: Site,
        input: &Input<'_>,
        graph: &dyn EdgeLists,
        order: &PageOrder,
        (book, codes): (&Codebook, &[u8]),
        head: &HeadParts,
    ) -> Result<BuildReport, BuildError> {
        check_slots(&self.sizes, order.rows.len() as u64)?;
        let manifest = self.timed(Stage::Write, |b| {
            let uuid = *uuid::Uuid::new_v4().as_bytes();
            let parts = Parts {
                source: input.source,
                rows: input.rows.map(|rows| rows.ids),
                graph,
                order,
                codes,
                code_bytes: book.code_bytes(),
                layout: b.sizes.layout,
                identity: Identity { uuid },
            };
            let applied = input.rows.map_or(0, |rows| rows.applied);
            b.write(site, &parts, book, head, (input.start, applied))
        })?;
        let files: u64 = manifest.files().iter().map(|f| f.bytes).sum();
        Ok(BuildReport {
            rows: manifest.rows,
            pages: manifest.pages(),
            page_bytes: manifest.layout.page_bytes(),
            records_per_page: manifest.layout.records_per_page(),
            mean_degree: graph.edges() as f64 / manifest.rows as f64,
            locality: input.locality,
            disk_bytes: files,
            stages: self.stages,
        })
    }

    pub(super) fn order(
        &self,
        pair: &PairDistance<'_>,
        graph: &Adjacency,
    ) -> Result<(PageOrder, Locality), BuildError> {
        let rows = graph.nodes();
        self.progress.stage(Stage::Order, rows as u64);
        let threads = thread_count(self.options.graph.threads);
        let nearest = Nearest::find(pair, graph, NEAREST, threads, self.cancel)?;
        let order = OrderOptions {
            fill: self.sizes.layout.fill(),
            neighbours: NEAREST,
            threads,
            ..OrderOptions::new(self.sizes.layout.records_per_page())
        };
        let order = self.partitioned(pair, &nearest, &order)?;
        let locality = order.locality(graph, &nearest);
        self.progress.advance(rows as u64);
        Ok((order, locality))
    }

    /// Partition first, then lay out each by itself.
    fn partitioned(
        &self,
        pair: &PairDistance<'_>,
        nearest: &Nearest,
        order: &OrderOptions,
    ) -> Result<PageOrder, BuildError> {
        let (count, by) = (self.options.partitions, self.options.partition_by);
        // Of a handful of rows nothing is near or far.
        if count == 1 || by == PartitionBy::Order || nearest.nodes() < 2 * count {
            return Ok(order_by(nearest, order, order.threads, self.cancel)?.cut(count));
        }
        let members = assign(pair, nearest, (count, by), self.options.graph.seed, self.cancel)?;
        let parts: Result<Vec<_>, Cancelled> = members
            .into_iter()
            .map(|rows| {
                let own = order_by(&nearest.among(&rows), order, order.threads, self.cancel)?;
                Ok((rows, own))
            })
            .collect();
        Ok(PageOrder::of_partitions(nearest.nodes(), &parts?))
    }

    /// The head index of rows drawn from all.
    pub(super) fn sampled_head(
        &self,
        source: VectorSet<'_>,
        order: &PageOrder,
    ) -> Result<HeadParts, BuildError> {
        let mut rows = shuffled(source.rows(), self.options.graph.seed ^ 0x4EAD);
        rows.truncate(self.sizes.head_nodes);
        rows.sort_unstable();
        self.head(view(&source, &gather(&source, &rows)?), &rows, order)
    }

    /// The head index of `rows`, whose vectors are the sample.
    pub(super) fn head(
        &self,
        sample: VectorSet<'_>,
        rows: &[u32],
        order: &PageOrder,
    ) -> Result<HeadParts, BuildError> {
        self.progress.stage(Stage::Head, rows.len() as u64);
        let nodes = rows.iter().map(|&row| order.nodes[row as usize]).collect();
        let head = &self.options.head;
        let graph = VamanaOptions { degree: head.degree, list: head.list, ..self.options.graph };
        let parts = head_parts(sample, nodes, self.options.metric, &graph, self.cancel)?;
        self.progress.advance(rows.len() as u64);
        Ok(parts)
    }

    fn write(
        &self,
        site: Site,
        parts: &Parts<'_>,
        book: &Codebook,
        head: &HeadParts,
        (start, applied): (u32, u64),
    ) -> Result<Manifest, BuildError> {
        self.progress.stage(Stage::Write, self.sizes.disk_bytes());
        let writer = Writer { site: &site, progress: self.progress, cancel: self.cancel };
        let name = format!("codebook-{GENERATION}");
        let codebook_file =
            writer.whole(None, &name, FileKind::Codebook, &parts.identity, &book.to_bytes())?;
        let name = format!("head-{GENERATION}");
        let head_file =
            writer.whole(None, &name, FileKind::Head, &parts.identity, &head.encode()?)?;
        let partitions = parts.order.partitions.iter().enumerate();
        let partitions: Result<Vec<_>, _> =
            partitions.map(|(i, pages)| writer.partition(parts, i, pages.clone())).collect();
        let graph = &self.options.graph;
        let manifest = Manifest {
            uuid: parts.identity.uuid,
            generation: GENERATION,
            rows: parts.source.rows() as u64,
            next_row_id: parts.row_limit(),
            applied,
            metric: self.options.metric,
            layout: parts.layout,
            entries: vec![NodeId(parts.order.nodes[start as usize])],
            code_bytes: book.code_bytes() as u32,
            codebook_version: book.version(),
            build: BuildParameters {
                degree: graph.degree as u32,
                list: graph.list as u32,
                alpha: graph.alpha,
                passes: graph.passes as u32,
                seed: graph.seed,
            },
            head: HeadParameters {
                nodes: head.nodes.len() as u32,
                degree: head.max_degree,
                list: self.options.head.list as u32,
            },
            head_file,
            codebook_file,
            partitions: partitions?,
        };
        let bytes = manifest.encode()?;
        check_cancel(self.cancel)?;
        site.publish(&bytes)?;
        Ok(manifest)
    }
}

/// Refuses an order of more slots than an edge can name.
pub(super) fn check_slots(sizes: &Sizes, slots: u64) -> Result<(), LayoutError> {
    let Sizes { rows, layout, .. } = sizes;
    if layout.has_slots(slots) {
        return Ok(());
    }
    let (slots, edge_bytes) = (layout.node_limit(), layout.edge_bytes());
    Err(LayoutError::Rows { rows: *rows, slots, edge_bytes })
}
