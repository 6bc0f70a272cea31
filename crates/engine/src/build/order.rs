//! The locality order: which page and slot every node gets.
//!
//! A page read brings all records of the page. The more of them a search wants next, the
//! fewer pages it reads, so nodes that are near each other share pages.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::affinity::Affinity;
use super::error::BuildError;
use super::nearest::Nearest;
use super::pack::pack;
use super::progress::{Cancelled, check_cancel};
use super::reach::{EdgeLists, LOOK};
use super::refine::sweep;
use crate::distance::PairDistance;
use crate::graph::Adjacency;

/// How to lay out nodes in pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderOptions {
    /// Node records in a page.
    pub records_per_page: usize,
    /// Share of the records in use; the rest is left for inserts.
    pub fill: f64,
    /// Near neighbours of a node that its page competes for.
    pub neighbours: usize,
    /// Refinement sweeps after greedy packing.
    pub sweeps: usize,
    /// Threads; 0 means one per CPU.
    pub threads: usize,
}

impl OrderOptions {
    /// The defaults for pages of `records_per_page` records.
    pub fn new(records_per_page: usize) -> Self {
        Self { records_per_page, fill: 0.96, neighbours: 16, sweeps: 1, threads: 0 }
    }
}

/// No row: an unused place in a page.
pub const EMPTY_SLOT: u32 = u32::MAX;

/// Rows in the order of their pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrder {
    /// The row at every node id (page x records per page + slot), or [`EMPTY_SLOT`].
    pub rows: Vec<u32>,
    /// The node id of every row.
    pub nodes: Vec<u32>,
    /// Records a page has room for.
    pub records_per_page: usize,
    /// The pages of each partition, one after the other.
    pub partitions: Vec<Range<usize>>,
}

impl PageOrder {
    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.rows.len() / self.records_per_page
    }

    /// The page of a row.
    pub fn page_of(&self, row: usize) -> usize {
        self.nodes[row] as usize / self.records_per_page
    }

    pub(crate) fn from_pages<I: Iterator<Item = u32>>(
        rows: usize,
        records_per_page: usize,
        pages: impl Iterator<Item = I>,
    ) -> Self {
        let (nodes, partitions) = (vec![EMPTY_SLOT; rows], Vec::new());
        let mut order = Self { rows: Vec::new(), nodes, records_per_page, partitions };
        for (page, members) in pages.enumerate() {
            order.rows.resize((page + 1) * records_per_page, EMPTY_SLOT);
            for (slot, row) in members.enumerate() {
                let node = page * records_per_page + slot;
                order.rows[node] = row;
                order.nodes[row as usize] = node as u32;
            }
        }
        order.cut(1)
    }

    /// The same in so many partitions of as many pages, whatever lies in them.
    pub(crate) fn cut(self, count: usize) -> Self {
        let pages = self.pages();
        let partitions = (0..count).map(|i| pages * i / count..pages * (i + 1) / count).collect();
        Self { partitions, ..self }
    }

    /// Of the row in every place, or [`EMPTY_SLOT`].
    pub(crate) fn of_slots(
        slots: Vec<u32>,
        rows: usize,
        records_per_page: usize,
        partitions: Vec<Range<usize>>,
    ) -> Self {
        let mut nodes = vec![EMPTY_SLOT; rows];
        let taken = slots.iter().enumerate().filter(|(_, row)| **row != EMPTY_SLOT);
        taken.for_each(|(node, &row)| nodes[row as usize] = node as u32);
        Self { rows: slots, nodes, records_per_page, partitions }
    }

    /// Orders of partitions one after the other: each of positions in the list of its rows.
    pub(crate) fn of_partitions(rows: usize, parts: &[(Vec<u32>, Self)]) -> Self {
        let records_per_page = parts[0].1.records_per_page;
        let (nodes, partitions) = (vec![EMPTY_SLOT; rows], Vec::new());
        let mut whole = Self { rows: Vec::new(), nodes, records_per_page, partitions };
        for (members, order) in parts {
            let first = whole.pages();
            for &at in &order.rows {
                let row = if at == EMPTY_SLOT { EMPTY_SLOT } else { members[at as usize] };
                if row != EMPTY_SLOT {
                    whole.nodes[row as usize] = whole.rows.len() as u32;
                }
                whole.rows.push(row);
            }
            whole.partitions.push(first..whole.pages());
        }
        whole
    }

    /// What the order keeps together, by the lists of `nearest` as far as ten.
    pub(crate) fn locality(&self, graph: &Adjacency, nearest: &Nearest) -> Locality {
        let (mut edges, mut near, mut possible) = (0u64, 0u64, 0u64);
        for row in 0..graph.nodes() {
            let page = self.page_of(row);
            let inside = |list: &[u32]| {
                list.iter().filter(|&&n| self.page_of(n as usize) == page).count() as u64
            };
            let ten = nearest.of(row);
            let ten = &ten[..ten.len().min(10)];
            edges += inside(graph.neighbours(row));
            near += inside(ten);
            possible += ten.len() as u64;
        }
        Locality {
            edges_in_page: edges as f64 / graph.nodes().max(1) as f64,
            nearest_in_page: near as f64 / possible.max(1) as f64,
        }
    }

    /// As [`locality`](Self::locality), of lists in a file, of which the first ten count as nearest.
    pub(crate) fn locality_in(
        &self,
        graph: &dyn EdgeLists,
        cancel: &AtomicBool,
    ) -> Result<Locality, BuildError> {
        let (mut edges, mut near, mut possible, mut list) = (0, 0, 0, Vec::new());
        for row in 0..graph.nodes() {
            if row % LOOK == 0 {
                check_cancel(cancel)?;
            }
            list.clear();
            graph.read(row as u32, &mut list)?;
            let page = self.page_of(row);
            let is_inside = |n: &&u32| self.page_of(**n as usize) == page;
            edges += list.iter().filter(is_inside).count();
            let ten = &list[..list.len().min(10)];
            near += ten.iter().filter(is_inside).count();
            possible += ten.len();
        }
        Ok(Locality {
            edges_in_page: edges as f64 / graph.nodes().max(1) as f64,
            nearest_in_page: near as f64 / possible.max(1) as f64,
        })
    }
}

/// What an order keeps together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// Mean number of a node's graph neighbours that share its page.
    pub edges_in_page: f64,
    /// Mean share of a node's ten nearest that share its page.
    pub nearest_in_page: f64,
}

/// Assigns all nodes of `graph` (lists sorted nearest first) to pages.
///
/// # Errors
/// [`Cancelled`] soon after `cancel` is set.
pub fn locality_order(
    pair: &PairDistance<'_>,
    graph: &Adjacency,
    options: &OrderOptions,
    cancel: &AtomicBool,
) -> Result<(PageOrder, Locality), Cancelled> {
    let threads = super::threads::thread_count(options.threads);
    let nearest = Nearest::find(pair, graph, options.neighbours, threads, cancel)?;
    let order = order_by(&nearest, options, threads, cancel)?;
    let locality = order.locality(graph, &nearest);
    Ok((order, locality))
}

/// Assigns nodes to pages by the near neighbours given.
pub(crate) fn order_by(
    nearest: &Nearest,
    options: &OrderOptions,
    threads: usize,
    cancel: &AtomicBool,
) -> Result<PageOrder, Cancelled> {
    let affinity = Affinity::new(nearest, options.neighbours);
    let packing = pack(&affinity, options.records_per_page, options.fill, threads, cancel)?;
    for _ in 0..options.sweeps {
        sweep(&affinity, &packing, threads, cancel)?;
    }
    let pages = (0..packing.pages() as u32).map(|page| packing.of(page));
    Ok(PageOrder::from_pages(nearest.nodes(), options.records_per_page, pages))
}
