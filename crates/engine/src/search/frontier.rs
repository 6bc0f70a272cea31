//! What a server is sent of a search whose list is kept elsewhere, and what it answers.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::params::SearchParams;
use super::view::GraphView;
use crate::types::{NodeId, RowId};

/// What is to be expanded.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontier {
    /// The bytes of the query's vector.
    pub query: Vec<u8>,
    /// The nodes, all of pages that are read here; none for the entries of the head index.
    pub nodes: Vec<NodeId>,
    /// Only neighbours of a coded distance below this are told.
    pub bound: f32,
    /// Neighbours told at most, the nearest.
    pub most: usize,
    /// Whether every record of a page that is read is told, and explored where it is nearer than the
    /// bound; otherwise the nodes alone.
    pub packed: bool,
}

/// A node that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expanded {
    /// The node.
    pub node: NodeId,
    /// Its exact distance.
    pub distance: f32,
    /// Its row; none where it was deleted and may not be answered.
    pub row: Option<RowId>,
}

/// What an expansion gave, both nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// The nodes that were read.
    pub expanded: Vec<Expanded>,
    /// Their neighbours with coded distances, each once.
    pub neighbours: Vec<(f32, NodeId)>,
    /// Whether the search may stop early, as [`Policy::early_stop`](super::Policy::early_stop) has it:
    /// where it uses every record, and codes say how far candidates are.
    pub early_stop: bool,
}

/// Why nodes cannot be expanded here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontierError {
    /// More nodes than a search has reads in flight, or more neighbours than a list holds.
    #[error("{what} is {value}, but may be {most} at most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        value: usize,
        /// How many may be.
        most: usize,
    },
    /// The bound is no number.
    #[error("the bound of an expansion is NaN")]
    Bound,
    /// A node is beyond the index.
    #[error("node {0} is beyond the index")]
    Unknown(u32),
    /// A node is named twice.
    #[error("node {0} is named twice")]
    Twice(u32),
    /// The page of a node is not read here.
    #[error("node {0} is held by another server")]
    NotHere(u32),
}

/// The part of a state that only expansions use.
#[derive(Debug, Default)]
pub(super) struct Expanding {
    pub(super) on: bool,
    pub(super) most: usize,
    pub(super) early_stop: bool,
    pub(super) read: Vec<Expanded>,
    /// Neighbours that were met, as far as they may be told.
    pub(super) met: Vec<(f32, NodeId)>,
}

/// Neighbours that are kept however few are told, so that those too far are seldom sorted out.
const MET_AT_LEAST: usize = 1024;

impl Expanding {
    /// Begins another one.
    pub(super) fn begin(&mut self, most: usize, early_stop: bool) {
        (self.on, self.most, self.early_stop) = (true, most, early_stop);
        self.read.clear();
        self.met.clear();
    }

    /// A neighbour was scored. Twice as many are kept as may be told.
    pub(super) fn meet(&mut self, distance: f32, node: NodeId) {
        self.met.push((distance, node));
        if self.met.len() >= 2 * self.most.max(MET_AT_LEAST) {
            self.met.select_nth_unstable_by(self.most, nearer);
            self.met.truncate(self.most);
        }
    }

    /// What it gave.
    pub(super) fn end(&self) -> Expansion {
        let (mut expanded, mut neighbours) = (self.read.clone(), self.met.clone());
        expanded.sort_unstable_by(|a, b| nearer(&(a.distance, a.node), &(b.distance, b.node)));
        neighbours.sort_unstable_by(nearer);
        neighbours.truncate(self.most);
        Expansion { expanded, neighbours, early_stop: self.early_stop }
    }
}

fn nearer(a: &(f32, NodeId), b: &(f32, NodeId)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl Frontier {
    /// Whether it can be expanded by what `view` shows.
    ///
    /// # Errors
    /// [`FrontierError`] that names the first node that cannot.
    pub fn check(&self, view: &GraphView<'_>) -> Result<(), FrontierError> {
        let bounded = |what, value, most| match value > most {
            true => Err(FrontierError::TooMany { what, value, most }),
            false => Ok(()),
        };
        bounded("nodes to expand", self.nodes.len(), usize::from(SearchParams::WIDTH_MAX))?;
        bounded("neighbours to tell", self.most, SearchParams::LIST_MAX)?;
        if self.bound.is_nan() {
            return Err(FrontierError::Bound);
        }
        let mut seen = HashSet::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            if node.0 >= view.node_slots {
                return Err(FrontierError::Unknown(node.0));
            }
            if !view.reads_here(node) {
                return Err(FrontierError::NotHere(node.0));
            }
            if !seen.insert(node) {
                return Err(FrontierError::Twice(node.0));
            }
        }
        Ok(())
    }
}
