//! One expansion for a search whose list is kept elsewhere: given nodes are read, and their
//! neighbours scored.
//!
//! Whoever orchestrates a search (DistributedANN; BatANN, section 3.2) sends a server the nodes that it
//! would read next and the distance beyond which it wants to hear of nothing. The machine is that of
//! every search: a page is received, a record explored and codes are scored as anywhere; only the list
//! holds the given nodes alone, and what it would take in is collected for whoever asked. Without nodes
//! it answers with the entries of the head index.
//!
//! Deliberately absent: which of the neighbours were met before. Whoever keeps the list knows.

use std::collections::HashSet;

use super::allow_list::AllowedNodes;
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::params::{Policy, SearchParams};
use super::state::{InFlight, SearchState, Step};
use super::view::{CodesUnavailable, GraphView};
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
    most: usize,
    /// Neighbours in the order in which they were met.
    pub(super) met: Vec<(f32, NodeId)>,
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

impl SearchState {
    /// Starts an expansion. It passed [`Frontier::check`], and its query is a vector of the index.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes of entries cannot be read.
    pub fn begin_expansion(
        &mut self,
        view: &GraphView<'_>,
        frontier: &Frontier,
    ) -> Result<(), CodesUnavailable> {
        let nodes = frontier.nodes.len();
        self.query.clear();
        self.query.extend_from_slice(&frontier.query);
        let policy = Policy::beam(SearchParams::WIDTH_MAX);
        self.params =
            SearchParams { k: nodes.max(1), list: nodes.max(1), policy, ..Default::default() };
        self.allow = None;
        self.filter.clear();
        self.among = AllowedNodes::all();
        // Never full, so that the bound stays the asker's and no node is pushed out.
        self.reset_lean(view, nodes + 1);
        self.list.set_bound(frontier.bound);
        self.hits.set_capacity(nodes);
        self.expanding.on = true;
        self.expanding.most = frontier.most;
        self.expanding.met.clear();
        self.table.fill(view.codebook, &self.query, view.layout.vector_type());
        if nodes == 0 {
            return self.seed_from_head(view);
        }
        for &node in &frontier.nodes {
            // Exact once it is read.
            let (distance, progress) = (0.0, CandidateProgress::Issued);
            self.list.insert(Candidate {
                distance,
                node,
                stash: NO_STASH,
                progress,
                allowed: true,
            });
            self.mark_visited(node.0);
            let page = view.layout.page_of(node);
            if !self.in_flight.iter().any(|read| read.page == page) {
                self.in_flight.push(InFlight { page, node });
            }
        }
        self.reissue = self.in_flight.len();
        Ok(())
    }

    /// Explores what is at hand while the other pages are on their way.
    pub(super) fn step_expansion(
        &mut self,
        view: &GraphView<'_>,
    ) -> Result<Step, CodesUnavailable> {
        if let Some(at) = self.list.first_at_hand(usize::MAX) {
            self.explore(view, at)?;
            return Ok(Step::Explored);
        }
        Ok(if self.in_flight.is_empty() { Step::Done } else { Step::Wait })
    }

    /// What an expansion that is done gave; none where this is a search.
    pub fn expansion(&self) -> Option<Expansion> {
        if !self.expanding.on {
            return None;
        }
        let hits = self.hits.as_slice();
        let row = |node| hits.iter().find(|hit| hit.node == node).map(|hit| hit.row);
        let expanded = self.list.entries().iter().map(|entry| Expanded {
            node: entry.node,
            distance: entry.distance,
            row: row(entry.node),
        });
        let mut neighbours = self.expanding.met.clone();
        neighbours.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        neighbours.truncate(self.expanding.most);
        Some(Expansion { expanded: expanded.collect(), neighbours })
    }
}
