//! The memory of searches in flight: how much it may be, and giving it back.
//!
//! A search takes memory with the length of its list, which its caller chooses. What common ones
//! take is kept for the next without further ado; of the longest a single one takes tens
//! of megabytes, so fewer of them are in flight together, their memory is reserved while they are,
//! and none of it is kept.

use std::sync::Arc;

use super::candidates::{Candidate, CandidateList};
use super::deferred::DeferredNeighbours;
use super::hits::{Hit, HitList};
use super::params::SearchParams;
use super::state::SearchState;
use super::view::GraphView;
use super::visited::VisitedSet;
use crate::memory::{Accountant, OverLimit, Pool, Reservation};

/// What a thread may take without a reservation: about what lists of 500 take, eight at once.
const COMMON_BYTES: u64 = 8 << 20;
/// Most that searches in flight on one thread take together, where each does with less.
const TOGETHER_BYTES: u64 = 32 << 20;
/// Most that a state keeps for the next search.
const KEPT_BYTES: usize = 4 << 20;
/// Nodes that a search remembers at first.
const MET_AT_FIRST: usize = 1 << 18;
/// The most nodes that it ever remembers: in 32 MiB.
const MET_AT_MOST: usize = 1 << 22;
/// Lists from this length on of a search that came from elsewhere meet more nodes than it
/// remembers for others.
const LONG_LIST: usize = 1024;
/// Nodes that a search which came from elsewhere remembers.
const MET_ELSEWHERE: usize = 4096;

/// Nodes that a search with a list of `capacity` meets at most, as far as it remembers them.
fn most_met(view: &GraphView<'_>, capacity: usize) -> usize {
    let met = capacity.saturating_mul(view.list_bound()) / 4 * 3;
    met.min((view.node_slots as usize).max(MET_AT_FIRST)).min(MET_AT_MOST)
}

impl SearchState {
    /// Forgets all nodes, and makes room for those that a list of `capacity` meets: for as many as most
    /// searches do at once, for the others when it meets them.
    pub(super) fn forget_met(&mut self, view: &GraphView<'_>, capacity: usize) {
        let met = most_met(view, capacity).max(2048);
        self.derived.visited.reset_growing(met.min(MET_AT_FIRST), met);
    }

    /// The same for a search that came from elsewhere, with `few` nodes at first.
    pub(super) fn forget_met_elsewhere(&mut self, view: &GraphView<'_>, few: usize) {
        let list = self.portable.params.list;
        let most = if list < LONG_LIST { 0 } else { most_met(view, list) };
        let most = (view.node_slots as usize).clamp(64, most.max(MET_ELSEWHERE));
        self.derived.visited.reset_growing(few, most);
    }

    /// Bytes that a search by these parameters takes at most, about.
    fn bytes_for(view: &GraphView<'_>, params: &SearchParams) -> usize {
        let capacity = params.window_in_memory().max(params.widest()) + params.reserve;
        let each = size_of::<Candidate>() + size_of::<Hit>() + 4 * size_of::<u32>();
        // In memory none waits.
        let waiting = params.widest() + params.reserve;
        let its_neighbours = view.list_bound() * size_of::<u32>() + 2 * size_of::<u32>();
        let met = VisitedSet::bytes_for(most_met(view, capacity));
        capacity * each + waiting * its_neighbours + met
    }

    /// Gives memory back where it is more than searches commonly take; what was found is gone then.
    pub(crate) fn slim(&mut self) {
        if self.bytes() > KEPT_BYTES {
            self.portable.list = CandidateList::new(0);
            self.portable.hits = HitList::default();
            self.portable.read_for = Vec::new();
            self.derived.stash = DeferredNeighbours::default();
            self.derived.visited = VisitedSet::new(0);
        }
    }
}

/// Searches that may be in flight on one thread, and their memory while they are.
#[derive(Debug)]
pub(crate) struct ReservedScratch {
    pub(crate) searches: usize,
    _held: Option<Reservation>,
}

impl ReservedScratch {
    /// Up to `wanted` of them, by any of these parameters. Waits for memory that gives way, so
    /// not to be called under a lease.
    ///
    /// # Errors
    /// [`OverLimit`] where there is no memory for a single one.
    pub(crate) fn reserve<'p>(
        accountant: &Arc<Accountant>,
        view: &GraphView<'_>,
        params: impl Iterator<Item = &'p SearchParams>,
        wanted: usize,
    ) -> Result<Self, OverLimit> {
        // What is out of range is refused before it takes any.
        let possible = params.filter(|p| p.list.max(p.reserve) <= SearchParams::LIST_MAX);
        let each = possible.map(|params| SearchState::bytes_for(view, params)).max();
        let each = each.unwrap_or(0).max(1) as u64;
        let searches = (TOGETHER_BYTES / each).clamp(1, wanted.max(1) as u64);
        let held = |searches: u64| match searches * each {
            0..=COMMON_BYTES => Ok(None),
            bytes => accountant.reserve(Pool::QueryScratch, bytes).map(Some),
        };
        match held(searches) {
            Ok(held) => Ok(Self { searches: searches as usize, _held: held }),
            Err(refused) if searches == 1 => Err(refused),
            Err(_) => Ok(Self { searches: 1, _held: held(1)? }),
        }
    }
}
