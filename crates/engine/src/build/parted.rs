//! Lays out partitions one after the other, of rows and a graph that are in files.
//!
//! In memory are the vectors and lists of one partition, or of a part of it where it is too large:
//! rows of equal rank, which lie near each other, then stay together.

use super::error::BuildError;
use super::gather::gather;
use super::halves::copy_in_place;
use super::import::nearest_first;
use super::nearest::Nearest;
use super::options::PartitionBy;
use super::order::{EMPTY_SLOT, Locality, OrderOptions, PageOrder, order_by};
use super::partition::assign_limited;
use super::pipeline::Build;
use super::plan::CutPlan;
use super::progress::check_cancel;
use super::reach::EdgeLists;
use super::site::Site;
use super::sizes::{NEAREST, Sizes};
use super::source::RowSource;
use super::spill::Spill;
use super::threads::thread_count;
use crate::distance::PairDistance;
use crate::types::VectorSet;

/// What partitions of rows in files are made from.
pub(super) struct Parting<'a> {
    pub(super) source: &'a dyn RowSource,
    pub(super) graph: &'a Spill,
    /// The nearest of each row, nearest first.
    pub(super) near: &'a Spill,
    /// Rows of near ranks lie near each other.
    pub(super) ranks: &'a [u32],
}

/// Whether rows have to come into partitions before they are laid out, by a way that needs no more
/// than lists of neighbours.
///
/// # Errors
/// [`BuildError::Option`] where the way needs more.
pub(super) fn parts_rows(
    (count, by): (usize, PartitionBy),
    rows: usize,
) -> Result<bool, BuildError> {
    // Of a handful of rows nothing is near or far.
    let parts = count > 1 && by != PartitionBy::Order && rows >= 2 * count;
    if parts && by == PartitionBy::Kmeans {
        let why = "under a memory limit that the build does not fit into there are partitions by \
                   `graph`, `random` and `order`";
        return Err(BuildError::Option { option: "partition-by", why });
    }
    Ok(parts)
}

impl Build<'_> {
    /// Partition first, then lay out each by itself.
    pub(super) fn parted(
        &self,
        site: &Site,
        from: &Parting<'_>,
        plan: &CutPlan,
    ) -> Result<(PageOrder, Locality), BuildError> {
        let (count, by) = (self.options.partitions, self.options.partition_by);
        let seed = self.options.graph.seed;
        let part_of = assign_limited(site, from.near, (count, by), plan, seed, self.cancel)?;
        let rows = part_of.len();
        let mut pages = Laid::new(rows, count, &self.sizes);
        let mut place_of = vec![EMPTY_SLOT; rows];
        let (mut sorted, ends) = by_partition(&part_of, count);
        drop(part_of);
        let mut rest = &mut sorted[..];
        for (part, &end) in ends.iter().enumerate() {
            let first = pages.count();
            let before = if part == 0 { 0 } else { ends[part - 1] };
            let (members, others) = std::mem::take(&mut rest).split_at_mut(end - before);
            rest = others;
            if members.len() > plan.together {
                members.sort_unstable_by_key(|&row| (from.ranks[row as usize], row));
            }
            let pieces = members.len().div_ceil(plan.together).max(1);
            let together = members.len().div_ceil(pieces).max(1);
            for piece in members.chunks_mut(together) {
                check_cancel(self.cancel)?;
                piece.sort_unstable();
                self.lay_out(from, piece, &mut place_of, &mut pages)?;
                self.progress.advance(piece.len() as u64);
            }
            pages.partitions.push(first..pages.count());
        }
        Ok(pages.into_order(rows))
    }

    /// Adds the pages of some rows, which ascend.
    fn lay_out(
        &self,
        from: &Parting<'_>,
        piece: &[u32],
        place_of: &mut [u32],
        pages: &mut Laid,
    ) -> Result<(), BuildError> {
        let mut bytes = gather(from.source, piece)?;
        let (dim, ty) = (from.source.dim(), from.source.vector_type());
        let ty = copy_in_place(&mut bytes, dim, ty, self.options.metric);
        let set = VectorSet::new(&bytes, dim, ty).expect("whole rows are a set");
        let pair = PairDistance::new(self.options.metric, set);
        let lists = lists_among(from.graph, piece, place_of)?;
        let graph = nearest_first(lists, from.graph.max_degree(), &pair);
        let threads = thread_count(self.options.graph.threads);
        let nearest = Nearest::find(&pair, &graph, NEAREST, threads, self.cancel)?;
        drop(bytes);
        let options = OrderOptions {
            fill: self.sizes.layout.fill(),
            neighbours: NEAREST,
            threads,
            ..OrderOptions::new(self.sizes.layout.records_per_page())
        };
        let order = order_by(&nearest, &options, threads, self.cancel)?;
        pages.add(&order, &order.locality(&graph, &nearest), piece);
        Ok(())
    }
}

/// Rows sorted by their partitions, and where each partition ends among them.
fn by_partition(part_of: &[u16], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut next = vec![0; count + 1];
    part_of.iter().for_each(|&part| next[part as usize + 1] += 1);
    (0..count).for_each(|part| next[part + 1] += next[part]);
    let mut sorted = vec![0; part_of.len()];
    for (row, &part) in part_of.iter().enumerate() {
        let at: &mut usize = &mut next[part as usize];
        sorted[*at] = row as u32;
        *at += 1;
    }
    next.truncate(count);
    (sorted, next)
}

/// Lists of edges among some rows, by their places in `piece`: for each its degree, and room for all.
fn lists_among(graph: &Spill, piece: &[u32], place_of: &mut [u32]) -> Result<Vec<u32>, BuildError> {
    for (place, &row) in piece.iter().enumerate() {
        place_of[row as usize] = place as u32;
    }
    let width = graph.max_degree() + 1;
    let mut lists = super::huge::with_capacity(piece.len() * width);
    let mut edges = Vec::with_capacity(width);
    for (place, &row) in piece.iter().enumerate() {
        edges.clear();
        graph.read(row, &mut edges)?;
        lists.push(0);
        let inside = edges.iter().map(|&to| place_of[to as usize]);
        lists.extend(inside.filter(|&to| to != EMPTY_SLOT));
        lists[place * width] = (lists.len() - place * width - 1) as u32;
        lists.resize((place + 1) * width, 0);
    }
    piece.iter().for_each(|&row| place_of[row as usize] = EMPTY_SLOT);
    Ok(lists)
}

/// Pages so far, and what they keep together.
struct Laid {
    slots: Vec<u32>,
    records_per_page: usize,
    partitions: Vec<std::ops::Range<usize>>,
    rows: usize,
    kept: Locality,
}

impl Laid {
    fn new(rows: usize, count: usize, sizes: &Sizes) -> Self {
        let records_per_page = sizes.layout.records_per_page();
        // Threads of each partition leave some pages that they could not fill.
        let spare = count.min(rows / (16 * records_per_page) + 1) * 16 * records_per_page;
        Self {
            slots: Vec::with_capacity((rows as f64 / sizes.layout.fill()) as usize + spare),
            records_per_page,
            partitions: Vec::with_capacity(count),
            rows: 0,
            kept: Locality { edges_in_page: 0.0, nearest_in_page: 0.0 },
        }
    }

    fn count(&self) -> usize {
        self.slots.len() / self.records_per_page
    }

    fn add(&mut self, order: &PageOrder, kept: &Locality, piece: &[u32]) {
        let row = |at: u32| if at == EMPTY_SLOT { EMPTY_SLOT } else { piece[at as usize] };
        self.slots.extend(order.rows.iter().map(|&at| row(at)));
        self.rows += piece.len();
        let share = piece.len() as f64 / self.rows as f64;
        let mean = |so_far: f64, own: f64| so_far + (own - so_far) * share;
        self.kept = Locality {
            edges_in_page: mean(self.kept.edges_in_page, kept.edges_in_page),
            nearest_in_page: mean(self.kept.nearest_in_page, kept.nearest_in_page),
        };
    }

    fn into_order(self, rows: usize) -> (PageOrder, Locality) {
        let Self { slots, records_per_page, partitions, kept, .. } = self;
        (PageOrder::of_slots(slots, rows, records_per_page, partitions), kept)
    }
}
