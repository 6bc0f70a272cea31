//! Near neighbours of every node, from the graph: its nearest edges and their nearest edges.
//!
//! Robust prune drops near nodes that a nearer one occludes. For sharing pages and for free
//! edge slots it is nearness that counts, and two steps along the nearest edges find about
//! all of it for some hundred distances a node.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::progress::{Cancelled, Silent};
use super::threads::{Shared, each_item};
use crate::distance::PairDistance;
use crate::graph::Adjacency;

/// Marks the end of a list shorter than the table is wide.
pub(crate) const NONE: u32 = u32::MAX;

/// `width` near nodes per node, nearest first, ended by [`NONE`] where there are fewer.
pub(crate) struct Nearest {
    ids: Vec<u32>,
    width: usize,
}

/// How many of the nearest edges of a node, and of each of these, are looked at.
const FIRST: usize = 10;
const SECOND: usize = 8;
/// Edges of the node itself that are looked at.
const OWN: usize = 24;

impl Nearest {
    /// Looks up to two steps along the edges of `graph`, whose lists are sorted nearest first.
    pub(crate) fn find(
        pair: &PairDistance<'_>,
        graph: &Adjacency,
        width: usize,
        threads: usize,
        cancel: &AtomicBool,
    ) -> Result<Self, Cancelled> {
        let mut ids = super::huge::with_capacity(graph.nodes() * width);
        ids.resize_with(graph.nodes() * width, || AtomicU32::new(NONE));
        let scratch = || (Vec::<u32>::new(), Vec::<(f32, u32)>::new());
        let find = |(seen, pool): &mut (Vec<u32>, Vec<(f32, u32)>), node: usize| {
            let edges = graph.neighbours(node);
            seen.clear();
            seen.extend_from_slice(&edges[..edges.len().min(OWN.max(width))]);
            for &near in edges.iter().take(FIRST) {
                seen.extend(graph.neighbours(near as usize).iter().take(SECOND));
            }
            seen.sort_unstable();
            seen.dedup();
            seen.retain(|&n| n as usize != node);
            seen.iter().for_each(|&n| pair.prefetch(n as usize));
            pool.clear();
            pool.extend(seen.iter().map(|&n| (pair.distance(node, n as usize), n)));
            let nearer = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if pool.len() > width {
                pool.select_nth_unstable_by(width, nearer);
                pool.truncate(width);
            }
            pool.sort_unstable_by(nearer);
            for (place, &(_, n)) in ids[node * width..][..width].iter().zip(pool.iter()) {
                place.store(n, Ordering::Relaxed);
            }
        };
        each_item(Shared::new(graph.nodes(), threads), scratch, find, &Silent, cancel)?;
        let ids = ids.into_iter().map(AtomicU32::into_inner).collect();
        Ok(Self { ids, width })
    }

    /// Lists of `width` near nodes for each node, nearest first, ended by [`NONE`] where there
    /// are fewer.
    pub(crate) fn from_lists(ids: Vec<u32>, width: usize) -> Self {
        debug_assert!(ids.len().is_multiple_of(width), "lists are whole");
        Self { ids, width }
    }

    /// Near nodes of `node`, nearest first.
    #[inline]
    pub(crate) fn of(&self, node: usize) -> &[u32] {
        let row = &self.ids[node * self.width..(node + 1) * self.width];
        &row[..row.iter().position(|&n| n == NONE).unwrap_or(self.width)]
    }

    /// The near neighbours of some nodes among each other, by their positions in `nodes`.
    pub(crate) fn among(&self, nodes: &[u32]) -> Self {
        let mut position = vec![NONE; self.nodes()];
        nodes.iter().enumerate().for_each(|(at, &node)| position[node as usize] = at as u32);
        let mut ids = Vec::with_capacity(nodes.len() * self.width);
        for (i, &node) in nodes.iter().enumerate() {
            let near = self.of(node as usize).iter().map(|&n| position[n as usize]);
            ids.extend(near.filter(|&at| at != NONE));
            ids.resize((i + 1) * self.width, NONE);
        }
        Self { ids, width: self.width }
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.ids.len() / self.width.max(1)
    }
}
