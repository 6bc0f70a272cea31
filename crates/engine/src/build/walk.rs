//! An order of all nodes in which each follows a near one: a depth-first walk along the edges.
//!
//! Whoever works through the nodes in this order finds most of what a node's search touches in
//! the processor's caches, where the node before has left it.

use crate::graph::EdgeSource;

/// Edges of a node that the walk follows; the first are the nearest that a prune has left.
const FOLLOWED: usize = 24;

/// All of `order`, starting anew at the next of them where the walk comes to an end.
pub(crate) fn depth_first(graph: &impl EdgeSource, order: &[u32]) -> Vec<u32> {
    let mut walked = Vec::with_capacity(order.len());
    let mut seen = vec![false; order.len()];
    let (mut path, mut edges) = (Vec::new(), Vec::new());
    for &start in order {
        let mut next = (!seen[start as usize]).then_some(start);
        while let Some(node) = next {
            seen[node as usize] = true;
            walked.push(node);
            path.push(node);
            next = None;
            while let Some(&last) = path.last() {
                edges.clear();
                graph.append(last, &mut edges);
                next = edges.iter().take(FOLLOWED).copied().find(|&n| !seen[n as usize]);
                if next.is_some() {
                    break;
                }
                path.pop();
            }
        }
    }
    walked
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rings(u32);

    impl EdgeSource for Rings {
        /// Two rings: even and odd nodes.
        fn append(&self, node: u32, out: &mut Vec<u32>) {
            out.push((node + 2) % self.0);
        }
        fn prefetch(&self, _: u32) {}
    }

    #[test]
    fn walks_along_edges_and_visits_every_node_once() {
        let order = [5, 0, 1, 2, 3, 4, 6, 7];
        assert_eq!(depth_first(&Rings(8), &order), [5, 7, 1, 3, 0, 2, 4, 6]);
    }
}
