//! How much two nodes would gain from sharing a page.
//!
//! A search that reads a node soon wants the node's nearest neighbours; so the weight of a
//! pair falls with the rank at which each is the other's neighbour, and both ranks add up.

use super::nearest::Nearest;

/// Symmetric weights between near nodes, five bytes for each direction of a pair.
pub(crate) struct Affinity {
    offsets: Vec<u64>,
    nodes: Vec<u32>,
    weights: Vec<u8>,
}

/// The weight of being the neighbour at a rank (from 0) among `width`.
fn rank_weight(rank: usize, width: usize) -> u8 {
    (120 * (width - rank) / width).max(1) as u8
}

impl Affinity {
    /// Weights from the first `width` near neighbours of every node.
    pub(crate) fn new(nearest: &Nearest, width: usize) -> Self {
        let count = nearest.nodes();
        let mut offsets = vec![0u64; count + 2];
        for node in 0..count {
            for &near in nearest.of(node).iter().take(width) {
                offsets[node + 2] += 1;
                offsets[near as usize + 2] += 1;
            }
        }
        for i in 2..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        let total = offsets[count + 1] as usize;
        let (mut nodes, mut weights) = (vec![0u32; total], vec![0u8; total]);
        let mut put = |from: usize, to: usize, weight: u8| {
            let at = &mut offsets[from + 1];
            nodes[*at as usize] = to as u32;
            weights[*at as usize] = weight;
            *at += 1;
        };
        for node in 0..count {
            for (rank, &near) in nearest.of(node).iter().take(width).enumerate() {
                put(node, near as usize, rank_weight(rank, width));
                put(near as usize, node, rank_weight(rank, width));
            }
        }
        offsets.truncate(count + 1);
        Self { offsets, nodes, weights }
    }

    /// Nodes and weights that `node` is drawn to; a mutual neighbour comes twice.
    #[inline]
    pub(crate) fn of(&self, node: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize;
        let weights = self.weights[range.clone()].iter().map(|&w| u32::from(w));
        self.nodes[range].iter().copied().zip(weights)
    }

    /// The nodes that `node` is drawn to, for prefetching.
    pub(crate) fn row(&self, node: u32) -> &[u32] {
        &self.nodes[self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize]
    }

    /// Number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}
