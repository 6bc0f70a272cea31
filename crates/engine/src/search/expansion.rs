//! One expansion for a search whose list is kept elsewhere: given nodes are read, and their
//! neighbours scored.
//!
//! Whoever orchestrates a search (DistributedANN; BatANN, section 3.2) sends a server the nodes that it
//! would read next and the distance beyond which it wants to hear of nothing. The machine is that of
//! every search: a page is received, a record explored and codes are scored as anywhere; only the list
//! holds what is read alone, and what it would take in is collected for whoever asked. Without nodes
//! it answers with the entries of the head index.
//!
//! In the paper one record of each page is used. A packed frontier uses them all, as a search of one
//! server does: each is told with its exact distance, and those nearer than the bound are explored.
//!
//! Deliberately absent: which of the neighbours were met before. Whoever keeps the list knows.

use super::allowed::AllowedNodes;
use super::begin::stops_early;
use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::frontier::{Expansion, Frontier};
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
        let policy = Policy { packed: frontier.packed, ..Policy::beam(SearchParams::WIDTH_MAX) };
        self.portable.params =
            SearchParams { k: nodes.max(1), list: nodes.max(1), policy, ..Default::default() };
        self.derived.allow = None;
        self.portable.filter.clear();
        self.portable.among = AllowedNodes::all();
        // Never full, so that the bound stays the asker's and no node is pushed out.
        let of_each = if frontier.packed { view.layout.records_per_page() } else { 1 };
        self.reset_lean(view, nodes * of_each + 1);
        self.portable.list.set_bound(frontier.bound);
        let early_stop = frontier.packed && stops_early(view, &self.portable.query);
        self.derived.expanding.begin(frontier.most, early_stop);
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
                // What is about to be read needs no score by its code.
                let others = if frontier.packed { of_each } else { 0 };
                (0..others).for_each(|slot| self.mark_visited(view.layout.node(page, slot).0));
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
        self.derived.expanding.on.then(|| self.derived.expanding.end())
    }
}
