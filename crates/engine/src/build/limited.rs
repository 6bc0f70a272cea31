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
use super::merge::{NEAR_WORDS, merge, merge_nearest};
use super::nearest::Nearest;
use super::options::BuildOptions;
use super::order::{Locality, OrderOptions, PageOrder, order_by};
use super::parted::{Parting, parts_rows};
use super::partition_bounds::NEAR_IN_FILES;
use super::pipeline::{Build, BuildReport, Input, build_whole, in_pool};
use super::plan::{CutPlan, MOST_SHARDS, Plan};
use super::progress::{Progress, Stage, check_cancel};
use super::random::Random;
use super::reach::connect_lists;
use super::shard_pages::Pages;
use super::shards::{SPREAD, Shards};
use super::site::Site;
use super::sizes::{NEAREST, Sizes, SlotNeeds};
use super::source::RowSource;
use super::spill::{Spill, SpillWriter};
use super::threads::thread_count;
use super::vamana::vamana;
use super::vamana_options::VamanaOptions;
use crate::distance::PairDistance;
use crate::graph::medoid;
use crate::types::VectorSet;

/// As [`build()`](super::build()), holding no more than about `limit` bytes.
///
/// Where the whole build fits, it is done in memory. Else rows are sorted into overlapping shards,
/// whose graphs are built one after the other and merged; the source is read several times.
///
/// # Errors
/// As [`build()`](super::build()), and [`BuildError::MemoryLimit`] for a limit that is too small.
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
    let whole = Sizes::new(rows as u64, dim, ty, options)?;
    let input = rows as u64 * ty.vector_bytes(dim) as u64;
    if whole.peak_memory_bytes().saturating_add(input) <= limit && rows < u32::MAX as usize {
        let mut bytes = huge::with_capacity(input as usize);
        bytes.resize(input as usize, 0);
        read(source, 0, &mut bytes)?;
        match build_whole(view(source, &bytes), limit, dir, options, progress, cancel) {
            // Rows that need longer codes than was reckoned: shards leave room for them.
            Err(BuildError::MemoryLimit { .. }) => {}
            ended => return ended,
        }
    }
    let cuts = parts_rows((options.partitions, options.partition_by), rows)?;
    let sizes = sizes_in_shards(source, options)?;
    let plan = Plan::new(&sizes, cuts.then_some(options.partitions), limit)?;
    build_in_shards(source, &plan, dir, options, progress, cancel)
}

fn sizes_in_shards(source: &dyn RowSource, options: &BuildOptions) -> Result<Sizes, BuildError> {
    let groups = (options.partitions as u64).max(MOST_SHARDS);
    let (rows, needs) = (source.rows() as u64, SlotNeeds { least: 0, groups });
    Sizes::with_slots(rows, source.dim(), source.vector_type(), options, needs)
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
    let sizes = sizes_in_shards(source, options)?;
    let cuts = parts_rows((options.partitions, options.partition_by), source.rows())?;
    let cut = if cuts { CutPlan::spilled_bytes(&sizes, SPREAD * NEAR_IN_FILES) } else { 0 };
    let spilled = Plan::spilled_bytes(&sizes) + cut;
    let needed = sizes.disk_bytes().saturating_add(spilled);
    let site = Site::open(dir, options.overwrite, needed)?;
    let limit = Some(plan.limit);
    let build = Build { options, sizes, progress, cancel, limit, stages: Vec::new() };
    in_pool(options, dir, || build.run_limited(source, plan, site, spilled))?
}

/// A graph in a file, what its nodes are laid out by, and where a search starts.
struct Merged {
    graph: Spill,
    laying: Laying,
    start: u32,
}

/// By what nodes come into pages.
enum Laying {
    /// They are in pages of their shards.
    Shards(PageOrder, Locality),
    /// Partitions come first: the nearest of each row, and the shard where each is at home.
    Partitions(Spill, Vec<u32>),
}

impl Build<'_> {
    fn run_limited(
        mut self,
        source: &dyn RowSource,
        plan: &Plan,
        site: Site,
        spilled: u64,
    ) -> Result<BuildReport, BuildError> {
        let metric = self.options.metric;
        let book = self.timed(Stage::Check, |b| {
            let longest = check_source(source, metric, b.progress, b.cancel)?;
            let sample = gather(source, &b.sample(source.rows(), plan.sample))?;
            b.trained_within(plan, source, view(source, &sample), longest)
        })?;
        self.reckon_codes(&book, &site, spilled)?;
        let merged = self.timed(Stage::Graph, |b| b.merged(source, plan, &site))?;
        let Merged { mut graph, laying, start } = merged;
        let (order, locality) = self.timed(Stage::Order, |b| {
            b.progress.stage(Stage::Order, source.rows() as u64);
            // Lists were merged in turn, and stay in no strict order of distance.
            connect_lists(&mut graph, start, |_, _| (), b.cancel)?;
            match laying {
                Laying::Shards(order, locality) => Ok((order, locality)),
                Laying::Partitions(near, ranks) => {
                    let from = Parting { source, graph: &graph, near: &near, ranks: &ranks };
                    let cut = plan.cut.as_ref().expect("planned where partitions come first");
                    b.parted(&site, &from, cut)
                }
            }
        })?;
        let codes = self.timed(Stage::Encode, |b| b.codes(source, &book, &mut |_| {}))?;
        let head = self.timed(Stage::Head, |b| {
            let rows = b.sample(source.rows(), b.sizes.head_nodes);
            b.head(view(source, &gather(source, &rows)?), &rows, &order)
        })?;
        let input = Input { source, rows: None, start, locality };
        self.write_index(site, &input, &graph, &order, (&book, &codes), &head)
    }

    /// Some rows, ascending.
    pub(super) fn sample(&self, rows: usize, count: usize) -> Vec<u32> {
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
        let cuts = parts_rows((self.options.partitions, self.options.partition_by), rows)?;
        let mut made = if cuts {
            Made::Nearest(Vec::with_capacity(shards.count()))
        } else {
            Made::Pages(Pages::new(rows, shards.count(), &self.sizes))
        };
        let mut lists = Vec::with_capacity(shards.count());
        for shard in 0..shards.count() {
            check_cancel(self.cancel)?;
            lists.push(self.shard(source, &shards, shard, site, &mut made)?);
        }
        let shape = (rows, graph.degree);
        let merged = merge(site, &shards, &lists, shape, self.progress, self.cancel)?;
        drop(lists);
        let laying = match made {
            Made::Pages(pages) => {
                let locality = pages.locality(rows);
                Laying::Shards(pages.into_order(rows).cut(self.options.partitions), locality)
            }
            Made::Nearest(lists) => {
                let near =
                    merge_nearest(site, &shards, &lists, (rows, NEAR_IN_FILES), self.cancel)?;
                let home = (0..rows).map(|row| u32::from(shards.of(row)[0]));
                Laying::Partitions(near, home.collect())
            }
        };
        Ok(Merged { graph: merged, laying, start })
    }

    /// Builds the graph of a shard, puts the lists of all its rows in a file, and lays out the rows
    /// that are at home there or notes what is near all of them.
    fn shard(
        &self,
        source: &dyn RowSource,
        shards: &Shards,
        shard: usize,
        site: &Site,
        made: &mut Made,
    ) -> Result<Spill, BuildError> {
        let members = shards.members(shard);
        let degree = self.options.graph.degree;
        let mut out = SpillWriter::create(site, &format!("shard-{shard}"), degree)?;
        if members.is_empty() {
            if let Made::Nearest(lists) = made {
                lists.push(SpillWriter::create(site, "none", 1)?.finish()?);
            }
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
        let pages = match made {
            Made::Pages(pages) => pages,
            Made::Nearest(lists) => {
                lists.push(near_lists(site, &pair, &nearest, &members)?);
                return out.finish();
            }
        };
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

/// What shards have made so far beside their graphs: pages, or lists of near neighbours.
enum Made {
    Pages(Pages),
    Nearest(Vec<Spill>),
}

/// The nearest of the members of a shard with their distances, in a file.
fn near_lists(
    site: &Site,
    pair: &PairDistance<'_>,
    nearest: &Nearest,
    members: &[u32],
) -> Result<Spill, BuildError> {
    let mut out = SpillWriter::create(site, "near", NEAR_WORDS * NEAR_IN_FILES)?;
    let mut words = Vec::with_capacity(NEAR_WORDS * NEAR_IN_FILES);
    for node in 0..members.len() {
        words.clear();
        for &to in nearest.of(node).iter().take(NEAR_IN_FILES) {
            words.extend([members[to as usize], pair.distance(node, to as usize).to_bits()]);
        }
        out.push(words.iter().copied())?;
    }
    out.finish()
}

/// Passes on steps, and hides that stages within a stage begin.
struct Within<'a>(&'a dyn Progress);

impl Progress for Within<'_> {
    fn stage(&self, _: Stage, _: u64) {}

    fn advance(&self, n: u64) {
        self.0.advance(n);
    }
}
