//! Makes every node reachable from the start.
//!
//! Pruning now and then drops the last edge into a node (copies of one vector do it often),
//! and a search would never find that row. Such a node gets an edge from a neighbour that is
//! reachable: in a free place, or in place of the neighbour's farthest edge, whose target the
//! new node then carries on to. So no other node loses its path.

use crate::distance::PairDistance;
use crate::graph::Adjacency;

/// Connects all nodes of a graph whose lists are sorted nearest first, and keeps them so.
pub(crate) fn connect(graph: &mut Adjacency, pair: &PairDistance<'_>, start: u32) {
    let mut reached = vec![false; graph.nodes()];
    let mut stack = Vec::new();
    let mut queue = Vec::new();
    spread(graph, start, &mut reached, &mut stack);
    for node in 0..graph.nodes() as u32 {
        if reached[node as usize] {
            continue;
        }
        let from = reachable_near(graph, node, start, &reached, &mut queue);
        attach(graph, pair, from, node);
        spread(graph, node, &mut reached, &mut stack);
    }
}

fn spread(graph: &Adjacency, from: u32, reached: &mut [bool], stack: &mut Vec<u32>) {
    reached[from as usize] = true;
    stack.push(from);
    while let Some(node) = stack.pop() {
        for &n in graph.neighbours(node as usize) {
            if !std::mem::replace(&mut reached[n as usize], true) {
                stack.push(n);
            }
        }
    }
}

/// Nodes looked at, walking outwards, for a reachable one with a free place.
const WALK: usize = 512;

fn reachable_near(
    graph: &Adjacency,
    node: u32,
    start: u32,
    reached: &[bool],
    queue: &mut Vec<u32>,
) -> u32 {
    queue.clear();
    queue.push(node);
    let mut full = None;
    let mut at = 0;
    while let Some(&current) = queue.get(at) {
        at += 1;
        for &n in graph.neighbours(current as usize) {
            if reached[n as usize] {
                if graph.neighbours(n as usize).len() < graph.max_degree() {
                    return n;
                }
                full = full.or(Some(n));
            }
            if queue.len() < WALK && !queue.contains(&n) {
                queue.push(n);
            }
        }
    }
    full.unwrap_or(start)
}

fn attach(graph: &mut Adjacency, pair: &PairDistance<'_>, from: u32, node: u32) {
    let mut edges = graph.neighbours(from as usize).to_vec();
    if edges.len() == graph.max_degree() {
        let replaced = edges.pop().expect("a full list has a last edge");
        let mut own = graph.neighbours(node as usize).to_vec();
        if !own.contains(&replaced) {
            if own.len() == graph.max_degree() {
                own.pop();
            }
            own.push(replaced);
            set_sorted(graph, pair, node, &mut own);
        }
    }
    edges.push(node);
    set_sorted(graph, pair, from, &mut edges);
}

fn set_sorted(graph: &mut Adjacency, pair: &PairDistance<'_>, node: u32, edges: &mut [u32]) {
    let to = |n: u32| pair.distance(node as usize, n as usize);
    edges.sort_by(|&a, &b| to(a).total_cmp(&to(b)).then(a.cmp(&b)));
    graph.set(node as usize, edges);
}
