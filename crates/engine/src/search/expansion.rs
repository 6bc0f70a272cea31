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

use super::allowed::AllowedNodes;
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::frontier::{Expanded, Expansion, Frontier};
use super::params::SearchParams;
use super::policy::Policy;
use super::portable_state::InFlight;
use super::state::{SearchState, Step};
use super::view::{CodesUnavailable, GraphView};

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
        self.portable.query.clear();
        self.portable.query.extend_from_slice(&frontier.query);
        let policy = Policy::beam(SearchParams::WIDTH_MAX);
        self.portable.params =
            SearchParams { k: nodes.max(1), list: nodes.max(1), policy, ..Default::default() };
        self.derived.allow = None;
        self.portable.filter.clear();
        self.portable.among = AllowedNodes::all();
        // Never full, so that the bound stays the asker's and no node is pushed out.
        self.reset_lean(view, nodes + 1);
        self.portable.list.set_bound(frontier.bound);
        self.portable.hits.set_capacity(nodes);
        self.derived.expanding.on = true;
        self.derived.expanding.most = frontier.most;
        self.derived.expanding.met.clear();
        self.derived.table.fill(view.codebook, &self.portable.query, view.layout.vector_type());
        if nodes == 0 {
            return self.seed_from_head(view);
        }
        for &node in &frontier.nodes {
            // Exact once it is read.
            let (distance, progress) = (0.0, CandidateProgress::Issued);
            self.portable.list.insert(Candidate {
                distance,
                node,
                stash: NO_STASH,
                progress,
                allowed: true,
            });
            self.mark_visited(node.0);
            let page = view.layout.page_of(node);
            if !self.portable.in_flight.iter().any(|read| read.page == page) {
                self.portable.in_flight.push(InFlight { page, node });
            }
        }
        self.derived.reissue = self.portable.in_flight.len();
        Ok(())
    }

    /// Explores what is at hand while the other pages are on their way.
    pub(super) fn step_expansion(
        &mut self,
        view: &GraphView<'_>,
    ) -> Result<Step, CodesUnavailable> {
        if let Some(at) = self.portable.list.first_at_hand(usize::MAX) {
            self.explore(view, at)?;
            return Ok(Step::Explored);
        }
        Ok(if self.portable.in_flight.is_empty() { Step::Done } else { Step::Wait })
    }

    /// What an expansion that is done gave; none where this is a search.
    pub fn expansion(&self) -> Option<Expansion> {
        if !self.derived.expanding.on {
            return None;
        }
        let hits = self.portable.hits.as_slice();
        let row = |node| hits.iter().find(|hit| hit.node == node).map(|hit| hit.row);
        let expanded = self.portable.list.entries().iter().map(|entry| Expanded {
            node: entry.node,
            distance: entry.distance,
            row: row(entry.node),
        });
        let mut neighbours = self.derived.expanding.met.clone();
        neighbours.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        neighbours.truncate(self.derived.expanding.most);
        Some(Expansion { expanded: expanded.collect(), neighbours })
    }
}
