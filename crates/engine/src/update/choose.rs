//! Choosing the edges of one node from candidates whose vectors are at hand.
//!
//! As in a build: robust prune keeps the edges that lead somewhere new, and the free places are
//! filled with the nearest of the rest, since a record has room for them anyway.

use crate::distance::PairDistance;
use crate::graph::{PruneCandidate, PruneOptions, robust_prune};
use crate::types::{Metric, VectorSet, VectorType};

/// A node's vector, and behind it those of its candidates.
pub(super) struct EdgePool {
    nodes: Vec<u32>,
    bytes: Vec<u8>,
}

/// Edges of a node.
pub(super) struct Chosen {
    /// What robust prune kept, nearest first: these nodes get an edge back.
    pub(super) diverse: Vec<u32>,
    /// With the free places filled, nearest first.
    pub(super) edges: Vec<u32>,
}

impl EdgePool {
    /// An empty pool with room for `capacity` candidates.
    pub(super) fn new(capacity: usize, vector_bytes: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
            bytes: Vec::with_capacity((capacity + 1) * vector_bytes),
        }
    }

    /// Adds a node, the owner of the pool first; `put` appends its vector. A node that is there
    /// is not added again.
    pub(super) fn push(&mut self, node: u32, put: impl FnOnce(&mut Vec<u8>)) {
        if !self.nodes.contains(&node) {
            self.nodes.push(node);
            put(&mut self.bytes);
        }
    }

    /// Chooses up to `rule.degree` edges.
    ///
    /// # Panics
    /// Where the owner is missing, or the vectors have another shape.
    pub(super) fn choose(&self, metric: Metric, ty: VectorType, rule: PruneOptions) -> Chosen {
        let components = self.bytes.len() / self.nodes.len() / ty.component_bytes();
        let set = VectorSet::new(&self.bytes, components, ty).expect("vectors of one shape");
        assert_eq!(set.rows(), self.nodes.len(), "one vector for each node");
        let pair = PairDistance::new(metric, set);
        let candidate = |i: usize| PruneCandidate {
            distance: pair.distance(0, i),
            node: i as u32,
            settled: false,
        };
        let mut pool: Vec<PruneCandidate> = (1..self.nodes.len()).map(candidate).collect();
        let mut nearest: Vec<(f32, u32)> = pool.iter().map(|c| (c.distance, c.node)).collect();
        nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut kept = Vec::new();
        robust_prune(&pair, 0, &mut pool, rule, &mut kept);
        let mut taken = vec![false; self.nodes.len()];
        kept.iter().for_each(|&i| taken[i as usize] = true);
        let mut free = rule.degree - kept.len();
        let name = |i: u32| self.nodes[i as usize];
        let mut edges = Vec::with_capacity(rule.degree);
        for &(_, i) in &nearest {
            if taken[i as usize] {
                edges.push(name(i));
            } else if free > 0 {
                free -= 1;
                edges.push(name(i));
            }
        }
        Chosen { diverse: kept.into_iter().map(name).collect(), edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(points: &[u8], degree: usize) -> Chosen {
        let mut pool = EdgePool::new(points.len(), 1);
        for (i, &x) in points.iter().enumerate() {
            pool.push(i as u32 + 10, |out| out.push(x));
        }
        pool.choose(Metric::L2, VectorType::U8, PruneOptions { degree, alpha: 1.2 })
    }

    #[test]
    fn edges_lead_apart_and_free_places_go_to_the_nearest() {
        // The owner at 100; behind 110 lie 111 and 112, on the other side 80.
        let all = chosen(&[100, 112, 110, 111, 80], 3);
        assert_eq!(all.diverse, [12, 14]);
        assert_eq!(all.edges, [12, 13, 14]);
        assert_eq!(chosen(&[100, 112, 110, 111, 80], 9).edges, [12, 13, 11, 14]);
        assert_eq!(chosen(&[100, 112, 110, 111, 80], 1).edges, [12]);
        assert!(chosen(&[100], 3).edges.is_empty());
    }

    #[test]
    fn a_candidate_counts_once() {
        let mut pool = EdgePool::new(2, 1);
        for (node, x) in [(1, 5), (2, 7), (2, 7), (1, 5)] {
            pool.push(node, |out| out.push(x));
        }
        let rule = PruneOptions { degree: 9, alpha: 1.2 };
        assert_eq!(pool.choose(Metric::L2, VectorType::U8, rule).edges, [2]);
    }
}
