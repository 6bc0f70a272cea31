//! What a search asks for while codes still stream in.
//!
//! Each time that it asks costs it the time of a read, so it asks for the codes of all that it is
//! going to explore, and not node by node.

use super::candidates::{Candidate, CandidateProgress};
use super::deferred::NO_STASH;
use super::derived_state::DerivedState;
use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};

impl SearchState {
    /// Gets the codes of `fresh`, and with them those of the neighbours of all that is at hand.
    #[cold]
    pub(super) fn await_codes(&mut self, view: &GraphView<'_>) -> Result<(), CodesUnavailable> {
        let DerivedState { stash, fresh, neighbours, .. } = &mut self.derived;
        neighbours.clear();
        neighbours.extend_from_slice(fresh);
        let at_hand =
            |c: &&Candidate| c.progress == CandidateProgress::AtHand && c.stash != NO_STASH;
        for candidate in self.portable.list.entries().iter().filter(at_hand) {
            let ids = stash.get(candidate.stash).iter().copied();
            neighbours.extend(ids.filter(|&id| id < view.node_slots));
        }
        view.codes.ensure(neighbours)
    }
}
