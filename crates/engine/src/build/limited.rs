//! A build under a memory limit: shard after shard, then merged.
//!
//! Rows are read from their source as they are wanted, lists of edges wait in a file, and a page
//! holds rows of one shard. In memory are one shard with its graph, and some bytes for each row.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::check::check_source;
use super::error::BuildError;
use super::gather::{gather, read, view};
use super::halves::copy_in_place;
use super::huge;
use super::merge::merge;
use super::nearest::Nearest;
use super::options::{BuildOptions, PartitionBy};
use super::order::{EMPTY_SLOT, Locality, OrderOptions, PageOrder, order_by};
use super::pipeline::{Build, BuildReport, Input, build, in_pool};
use super::plan::Plan;
use super::progress::{Progress, Stage, check_cancel};
use super::random::Random;
use super::reach::connect_lists;
use super::shards::{SPREAD, Shards};
use super::site::Site;
use super::sizes::{NEAREST, Sizes};
use super::source::RowSource;
use super::spill::{Spill, SpillWriter};
use super::threads::thread_count;
use super::vamana::{VamanaOptions, vamana};
use crate::distance::PairDistance;
use crate::graph::{Adjacency, medoid};
use crate::types::VectorSet;

/// As [`build()`], holding no more than about `limit` bytes.
///
/// Where the whole build fits, it is done in memory. Else rows are sorted into overlapping shards,
/// whose graphs are built one after the other and merged; the source is read several times.
///
/// # Errors
/// As [`build()`], and [`BuildError::MemoryLimit`] for a limit that is too small.
pub fn build_limited(
    source: &dyn RowSource,
    limit: u64,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let (rows, dim, ty) = (source.rows(), source.dim(), source.vector_type());
    options.check(dim)?;
    if rows == 0 {
        return Err(BuildError::Empty);
    }
    let sizes = Sizes::new(rows as u64, dim, ty, options)?;
    let input = rows as u64 * ty.vector_bytes(dim) as u64;
    if sizes.peak_memory_bytes().saturating_add(input) <= limit && rows < u32::MAX as usize {
        let mut bytes = huge::with_capacity(input as usize);
        bytes.resize(input as usize, 0);
        read(source, 0, &mut bytes)?;
        return build(view(source, &bytes), dir, options, progress, cancel);
    }
    let plan = Plan::new(&sizes, limit)?;
    build_in_shards(source, &plan, dir, options, progress, cancel)
}

/// Builds the shards of a plan and merges them.
pub(crate) fn build_in_shards(
    source: &dyn RowSource,
    plan: &Plan,
    dir: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<BuildReport, BuildError> {
    let (rows, ty) = (source.rows() as u64, source.vector_type());
    if options.partitions > 1 && options.partition_by != PartitionBy::Order {
        let why = "a build that does not fit into its memory has partitions by `order` alone; \
                   `pipeann partition` cuts an index that is there";
        return Err(BuildError::Option { option: "partition-by", why });
    }
    let sizes = Sizes::new(rows, source.dim(), ty, options)?;
    let needed = sizes.disk_bytes().saturating_add(Plan::spilled_bytes(&sizes));
    let site = Site::open(dir, options.overwrite, needed)?;
    let build = Build { options, sizes, progress, cancel, stages: Vec::new() };
    in_pool(options, dir, || build.run_limited(source, plan, site))?
}

/// A graph in a file, the pages of its nodes, and where a search starts.
struct Merged {
    graph: Spill,
    order: PageOrder,
    locality: Locality,
    start: u32,
}

impl Build<'_> {
    fn run_limited(
        mut self,
        source: &dyn RowSource,
        plan: &Plan,
        site: Site,
    ) -> Result<BuildReport, BuildError> {
        let metric = self.options.metric;
        let longest =
            self.timed(Stage::Check, |b| check_source(source, metric, b.progress, b.cancel))?;
        let merged = self.timed(Stage::Graph, |b| b.merged(source, plan, &site))?;
        let Merged { mut graph, order, locality, start } = merged;
        self.timed(Stage::Order, |b| {
            b.progress.stage(Stage::Order, source.rows() as u64);
            // Lists were merged in turn, and stay in no strict order of distance.
            connect_lists(&mut graph, start, |_, _| ())
        })?;
        let (book, codes) = self.timed(Stage::Encode, |b| {
            let sample = gather(source, &b.sample(source.rows(), plan.sample))?;
            b.encode(source, view(source, &sample), longest)
        })?;
        let head = self.timed(Stage::Head, |b| {
            let rows = b.sample(source.rows(), b.sizes.head_nodes);
            b.head(view(source, &gather(source, &rows)?), &rows, &order)
        })?;
        let input = Input { source, rows: None, start, locality };
        self.write_index(site, &input, &graph, &order, (&book, &codes), &head)
    }

    /// Some rows, ascending.
    fn sample(&self, rows: usize, count: usize) -> Vec<u32> {
        let mut random = Random::new(self.options.graph.seed ^ 0x4EAD);
        let mut drawn: Vec<u32> = Vec::with_capacity(count);
        while drawn.len() < count {
            // Again for those that were drawn twice.
            let missing = count - drawn.len();
            drawn.extend((0..missing).map(|_| random.below(rows) as u32));
            drawn.sort_unstable();
            drawn.dedup();
        }
        drawn
    }

    /// Builds the graph of every shard and the order of its pages, and merges them.
    fn merged(
        &self,
        source: &dyn RowSource,
        plan: &Plan,
        site: &Site,
    ) -> Result<Merged, BuildError> {
        let (rows, graph) = (source.rows(), &self.options.graph);
        // All shards and the merging.
        let steps = (SPREAD * graph.passes + 1) * rows;
        self.progress.stage(Stage::Graph, steps as u64);
        let sampled = self.sample(rows, plan.sample);
        let bytes = gather(source, &sampled)?;
        let sample = view(source, &bytes);
        let start = sampled[medoid(sample, self.options.metric) as usize];
        let shape = (plan.shards, plan.room);
        let shards =
            Shards::assign(source, self.options.metric, sample, shape, graph.seed, self.cancel)?;
        drop((sampled, bytes));
        let mut pages = Pages::new(rows, shards.count(), &self.sizes);
        let mut lists = Vec::with_capacity(shards.count());
        for shard in 0..shards.count() {
            check_cancel(self.cancel)?;
            lists.push(self.shard(source, &shards, shard, site, &mut pages)?);
        }
        let shape = (rows, graph.degree);
        let merged = merge(site, &shards, &lists, shape, self.progress, self.cancel)?;
        drop((shards, lists));
        let locality = pages.locality(rows);
        Ok(Merged {
            graph: merged,
            order: pages.into_order(rows).cut(self.options.partitions),
            locality,
            start,
        })
    }

    /// Builds the graph of a shard, lays out the rows that are at home there, and puts the lists
    /// of all its rows in a file.
    fn shard(
        &self,
        source: &dyn RowSource,
        shards: &Shards,
        shard: usize,
        site: &Site,
        pages: &mut Pages,
    ) -> Result<Spill, BuildError> {
        let members = shards.members(shard);
        let degree = self.options.graph.degree;
        let mut out = SpillWriter::create(site, &format!("shard-{shard}"), degree)?;
        if members.is_empty() {
            return out.finish();
        }
        let mut bytes = gather(source, &members)?;
        let (dim, ty) = (source.dim(), source.vector_type());
        let ty = copy_in_place(&mut bytes, dim, ty, self.options.metric);
        let set = VectorSet::new(&bytes, dim, ty).expect("whole rows are a set");
        let pair = PairDistance::new(self.options.metric, set);
        let start = medoid(set, self.options.metric);
        // Free places are filled by the other list of a row.
        let options = VamanaOptions { saturate: false, ..self.options.graph };
        let inner = Within(self.progress);
        let graph = vamana(&pair, start, &options, &inner, self.cancel)?;
        for node in 0..members.len() {
            out.push(graph.neighbours(node).iter().map(|&n| members[n as usize]))?;
        }
        let threads = thread_count(options.threads);
        let nearest = Nearest::find(&pair, &graph, NEAREST, threads, self.cancel)?;
        let home: Vec<u32> = (0..members.len() as u32)
            .filter(|&node| shards.is_home(members[node as usize], shard))
            .collect();
        let near = nearest.among(&home);
        drop((nearest, pair));
        drop(bytes);
        let options = OrderOptions {
            fill: self.sizes.layout.fill(),
            neighbours: NEAREST,
            threads,
            ..OrderOptions::new(self.sizes.layout.records_per_page())
        };
        if !home.is_empty() {
            let order = order_by(&near, &options, threads, self.cancel)?;
            pages.add(&order, &near, &graph, &home, &members);
        }
        out.finish()
    }
}

/// Pages of the shards so far, and what they keep together.
struct Pages {
    slots: Vec<u32>,
    records_per_page: usize,
    edges_inside: f64,
    nearest_inside: f64,
}

impl Pages {
    fn new(rows: usize, shards: usize, sizes: &Sizes) -> Self {
        let records_per_page = sizes.layout.records_per_page();
        // Threads of each shard leave some pages that they could not fill.
        let spare = shards * 16 * records_per_page;
        let slots = (rows as f64 / sizes.layout.fill()) as usize + spare;
        let slots = Vec::with_capacity(slots);
        Self { slots, records_per_page, edges_inside: 0.0, nearest_inside: 0.0 }
    }

    /// Adds the pages of a shard: `order` speaks of positions in `home`, these of positions in
    /// `members`.
    fn add(
        &mut self,
        order: &PageOrder,
        near: &Nearest,
        graph: &Adjacency,
        home: &[u32],
        members: &[u32],
    ) {
        let row = |at: u32| match at {
            EMPTY_SLOT => EMPTY_SLOT,
            at => members[home[at as usize] as usize],
        };
        self.slots.extend(order.rows.iter().map(|&at| row(at)));
        let mut page_of = vec![usize::MAX; members.len()];
        home.iter().enumerate().for_each(|(at, &n)| page_of[n as usize] = order.page_of(at));
        for (at, &node) in home.iter().enumerate() {
            let page = order.page_of(at);
            let edges = graph.neighbours(node as usize).iter();
            self.edges_inside += edges.filter(|&&n| page_of[n as usize] == page).count() as f64;
            let near = near.of(at).iter().take(10);
            let inside = near.filter(|&&n| order.page_of(n as usize) == page).count();
            self.nearest_inside += inside as f64 / 10.0;
        }
    }

    fn locality(&self, rows: usize) -> Locality {
        Locality {
            edges_in_page: self.edges_inside / rows as f64,
            nearest_in_page: self.nearest_inside / rows as f64,
        }
    }

    fn into_order(self, rows: usize) -> PageOrder {
        let mut nodes = vec![EMPTY_SLOT; rows];
        let taken = self.slots.iter().enumerate().filter(|(_, row)| **row != EMPTY_SLOT);
        taken.for_each(|(node, &row)| nodes[row as usize] = node as u32);
        let (rows, records_per_page) = (self.slots, self.records_per_page);
        PageOrder { rows, nodes, records_per_page, partitions: Vec::new() }
    }
}

/// Passes on steps, and hides that stages within a stage begin.
struct Within<'a>(&'a dyn Progress);

impl Progress for Within<'_> {
    fn stage(&self, _: Stage, _: u64) {}

    fn advance(&self, n: u64) {
        self.0.advance(n);
    }
}
