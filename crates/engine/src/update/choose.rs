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
        let pair = PairDistance::new(metric, self.set(ty));
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

    /// Completes a list: the first `held` candidates stay, and free places up to `degree` go to
    /// the others, nearest first, to those that lead somewhere new before the rest.
    ///
    /// Nothing that is held is compared with anything else that is, so that this costs a
    /// fraction of [`choose`](Self::choose), and no long edge is lost to the nearer ones.
    ///
    /// # Panics
    /// As [`choose`](Self::choose).
    pub(super) fn complete(
        &self,
        held: usize,
        metric: Metric,
        ty: VectorType,
        rule: PruneOptions,
    ) -> Vec<u32> {
        let pair = PairDistance::new(metric, self.set(ty));
        let near = |i: usize| (pair.distance(0, i), i);
        let nearest = |a: &(f32, usize), b: &(f32, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let mut list: Vec<(f32, usize)> = (1..self.nodes.len().min(held + 1)).map(near).collect();
        let mut others: Vec<(f32, usize)> = (list.len() + 1..self.nodes.len()).map(near).collect();
        others.sort_unstable_by(nearest);
        let mut occluded = Vec::with_capacity(others.len());
        for &(distance, i) in &others {
            if list.len() >= rule.degree {
                break;
            }
            let hides = |&(of, j): &(f32, usize)| {
                if of > distance {
                    return false;
                }
                let between = pair.distance(j, i);
                between <= 0.0 || distance > rule.alpha * between
            };
            if list.iter().any(hides) {
                occluded.push((distance, i));
            } else {
                list.push((distance, i));
            }
        }
        let free = rule.degree.saturating_sub(list.len());
        list.extend(occluded.into_iter().take(free));
        list.sort_unstable_by(nearest);
        list.truncate(rule.degree);
        list.into_iter().map(|(_, i)| self.nodes[i]).collect()
    }

    fn set(&self, ty: VectorType) -> VectorSet<'_> {
        let dim = ty.dim_of(self.bytes.len() / self.nodes.len());
        let set = VectorSet::new(&self.bytes, dim, ty).expect("vectors of one shape");
        assert_eq!(set.rows(), self.nodes.len(), "one vector for each node");
        set
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
    fn a_list_is_completed_with_edges_that_lead_apart_first() {
        // The owner at 100; 110 and 160 are held; 111 and 112 lie behind 110, 80 and 82 apart.
        let mut pool = EdgePool::new(7, 1);
        for (i, &x) in [100u8, 160, 110, 112, 82, 80, 111].iter().enumerate() {
            pool.push(i as u32 + 10, |out| out.push(x));
        }
        let complete = |degree| {
            pool.complete(2, Metric::L2, VectorType::U8, PruneOptions { degree, alpha: 1.2 })
        };
        assert_eq!(complete(3), [12, 14, 11], "82 leads apart, 111 does not");
        assert_eq!(complete(4), [12, 16, 14, 11], "then the nearest of the rest");
        assert_eq!(complete(2), [12, 11], "nothing that is held goes");
        assert_eq!(complete(9), [12, 16, 13, 14, 15, 11]);
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
