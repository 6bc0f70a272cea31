//! Makes every node reachable from the start.
//!
//! Pruning now and then drops the last edge into a node (copies of one vector do it often),
//! and a search would never find that row. Such a node gets an edge from a neighbour that is
//! reachable: in a free place, or in place of the neighbour's farthest edge, whose target the
//! new node then carries on to. So no other node loses its path.

use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use super::progress::check_cancel;
use crate::distance::PairDistance;
use crate::graph::Adjacency;

/// Lists read between looks at whether to stop.
pub(crate) const LOOK: usize = 1 << 14;

/// Nobody stops what is done in memory.
static GO_ON: AtomicBool = AtomicBool::new(false);

/// Lists of edges that can be read and replaced, in memory or in a file.
pub(crate) trait EdgeLists: Sync {
    /// Number of nodes.
    fn nodes(&self) -> usize;

    /// Number of edges.
    fn edges(&self) -> u64;

    /// The most edges of a node.
    fn max_degree(&self) -> usize;

    /// Appends the edges of `node` to `out`.
    fn read(&self, node: u32, out: &mut Vec<u32>) -> Result<(), BuildError>;

    /// Gives `node` other edges.
    fn replace(&mut self, node: u32, edges: &[u32]) -> Result<(), BuildError>;
}

impl EdgeLists for Adjacency {
    fn nodes(&self) -> usize {
        Adjacency::nodes(self)
    }

    fn edges(&self) -> u64 {
        Adjacency::edges(self)
    }

    fn max_degree(&self) -> usize {
        Adjacency::max_degree(self)
    }

    fn read(&self, node: u32, out: &mut Vec<u32>) -> Result<(), BuildError> {
        out.extend_from_slice(self.neighbours(node as usize));
        Ok(())
    }

    fn replace(&mut self, node: u32, edges: &[u32]) -> Result<(), BuildError> {
        self.set(node as usize, edges);
        Ok(())
    }
}

/// Connects all nodes of a graph whose lists are sorted nearest first, and keeps them so.
pub(crate) fn connect(graph: &mut Adjacency, pair: &PairDistance<'_>, start: u32) {
    let sort = |node: u32, edges: &mut [u32]| {
        let to = |n: u32| pair.distance(node as usize, n as usize);
        edges.sort_by(|&a, &b| to(a).total_cmp(&to(b)).then(a.cmp(&b)));
    };
    connect_lists(graph, start, sort, &GO_ON).expect("lists in memory are read and replaced");
}

/// Connects all nodes of a graph; `sort` puts the edges of a node in their order.
pub(crate) fn connect_lists(
    graph: &mut impl EdgeLists,
    start: u32,
    sort: impl Fn(u32, &mut [u32]),
    cancel: &AtomicBool,
) -> Result<(), BuildError> {
    let nodes = vec![false; graph.nodes()];
    let mut reached = Reached { nodes, stack: vec![], edges: vec![], looked: 0, cancel };
    let mut queue = Vec::new();
    reached.spread(graph, start)?;
    for node in 0..graph.nodes() as u32 {
        if reached.nodes[node as usize] {
            continue;
        }
        let from = reachable_near(graph, node, start, &reached.nodes, &mut queue)?;
        attach(graph, &sort, from, node)?;
        reached.spread(graph, node)?;
    }
    Ok(())
}

struct Reached<'a> {
    nodes: Vec<bool>,
    stack: Vec<u32>,
    edges: Vec<u32>,
    /// Lists read.
    looked: usize,
    cancel: &'a AtomicBool,
}

impl Reached<'_> {
    fn spread(&mut self, graph: &impl EdgeLists, from: u32) -> Result<(), BuildError> {
        self.nodes[from as usize] = true;
        self.stack.push(from);
        while let Some(node) = self.stack.pop() {
            if self.looked.is_multiple_of(LOOK) {
                check_cancel(self.cancel)?;
            }
            self.looked += 1;
            self.edges.clear();
            graph.read(node, &mut self.edges)?;
            for &n in &self.edges {
                if !std::mem::replace(&mut self.nodes[n as usize], true) {
                    self.stack.push(n);
                }
            }
        }
        Ok(())
    }
}

/// Nodes looked at, walking outwards, for a reachable one with a free place.
const WALK: usize = 512;

fn reachable_near(
    graph: &impl EdgeLists,
    node: u32,
    start: u32,
    reached: &[bool],
    queue: &mut Vec<u32>,
) -> Result<u32, BuildError> {
    queue.clear();
    queue.push(node);
    let mut full = None;
    let mut at = 0;
    let (mut edges, mut others) = (Vec::new(), Vec::new());
    while let Some(&current) = queue.get(at) {
        at += 1;
        edges.clear();
        graph.read(current, &mut edges)?;
        for &n in &edges {
            if reached[n as usize] {
                others.clear();
                graph.read(n, &mut others)?;
                if others.len() < graph.max_degree() {
                    return Ok(n);
                }
                full = full.or(Some(n));
            }
            if queue.len() < WALK && !queue.contains(&n) {
                queue.push(n);
            }
        }
    }
    Ok(full.unwrap_or(start))
}

fn attach(
    graph: &mut impl EdgeLists,
    sort: &impl Fn(u32, &mut [u32]),
    from: u32,
    node: u32,
) -> Result<(), BuildError> {
    let (mut edges, mut own) = (Vec::new(), Vec::new());
    graph.read(from, &mut edges)?;
    if edges.len() == graph.max_degree() {
        let replaced = edges.pop().expect("a full list has a last edge");
        graph.read(node, &mut own)?;
        if !own.contains(&replaced) {
            if own.len() == graph.max_degree() {
                own.pop();
            }
            own.push(replaced);
            sort(node, &mut own);
            graph.replace(node, &own)?;
        }
    }
    edges.push(node);
    sort(from, &mut edges);
    graph.replace(from, &edges)
}
