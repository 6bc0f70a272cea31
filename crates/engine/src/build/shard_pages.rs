//! Pages of a build in shards: each holds rows of one shard, in the order that shards were built in.

use super::nearest::Nearest;
use super::order::{EMPTY_SLOT, Locality, PageOrder};
use super::sizes::Sizes;
use crate::graph::Adjacency;

/// Pages of the shards so far, and what they keep together.
pub(super) struct Pages {
    slots: Vec<u32>,
    records_per_page: usize,
    edges_inside: f64,
    nearest_inside: f64,
}

impl Pages {
    pub(super) fn new(rows: usize, shards: usize, sizes: &Sizes) -> Self {
        let records_per_page = sizes.layout.records_per_page();
        // Threads of each shard leave some pages that they could not fill.
        let spare = shards * 16 * records_per_page;
        let slots = (rows as f64 / sizes.layout.fill()) as usize + spare;
        let slots = Vec::with_capacity(slots);
        Self { slots, records_per_page, edges_inside: 0.0, nearest_inside: 0.0 }
    }

    /// Adds the pages of a shard: `order` speaks of positions in `home`, these of positions in
    /// `members`.
    pub(super) fn add(
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

    pub(super) fn locality(&self, rows: usize) -> Locality {
        Locality {
            edges_in_page: self.edges_inside / rows as f64,
            nearest_in_page: self.nearest_inside / rows as f64,
        }
    }

    pub(super) fn into_order(self, rows: usize) -> PageOrder {
        PageOrder::of_slots(self.slots, rows, self.records_per_page, Vec::new())
    }
}
