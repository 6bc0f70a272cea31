//! The state of a search, in two halves.
//!
//! [`PortableState`] is what a search is: its query, its list, what it has found and what it has
//! learnt. It can be [exported](SearchState::export) between any two steps. [`DerivedState`] is made of
//! that, where the search is: the look-up table, the visited set, neighbours that wait, scratch. An
//! [import](SearchState::import) and a few page reads make it anew.
//!
//! What is done with both has files of its own: `begin`, `step`, `receive`, and those that they name.

use super::allowed::AllowPlan;
use super::derived_state::DerivedState;
use super::hits::Hit;
use super::params::SearchParams;
use super::portable_state::PortableState;
use super::stats::SearchStats;
use super::view::GraphView;
use crate::types::PageId;

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this page and hand it to [`SearchState::receive`].
    Read(PageId),
    /// A node was explored; call again.
    Explored,
    /// Nothing to do until a page arrives.
    Wait,
    /// What it wants next is this page, which cannot be read here, and nothing is under way:
    /// [`export`](SearchState::export) it, and [`import`](SearchState::import) it where it can be.
    Elsewhere(PageId),
    /// The answer stands in [`SearchState::hits`].
    Done,
}

/// See the module's description. One state serves one query at a time and is reused.
pub struct SearchState {
    pub(super) portable: PortableState,
    pub(super) derived: DerivedState,
}

impl SearchState {
    /// A state for searches over indexes with this codebook; scratch grows with the first
    /// searches and is kept.
    pub fn new(view: &GraphView<'_>) -> Self {
        Self { portable: PortableState::new(), derived: DerivedState::new(view) }
    }

    /// Bytes of memory held by this state.
    pub fn bytes(&self) -> usize {
        self.portable.bytes() + self.derived.bytes()
    }

    /// The filter that the allow-set of this search was made of, as bytes that say it to whoever goes
    /// on with it.
    pub fn set_filter(&mut self, filter: &[u8]) {
        self.portable.filter.clear();
        self.portable.filter.extend_from_slice(filter);
    }

    /// Whether an imported or extended state still waits for pages that it reads once more.
    #[cfg(test)]
    pub(super) fn is_rebuilding(&self) -> bool {
        !self.derived.rebuild_pages.is_empty()
    }

    /// Empties everything that belongs to a query, and makes room for a list of `capacity`.
    pub(super) fn reset(&mut self, view: &GraphView<'_>, capacity: usize) {
        let SearchParams { k, list, reserve, .. } = self.portable.params;
        self.portable.hits.reset((list + reserve).max(k));
        // A ranking meets no neighbours.
        let scans = self.portable.among.plan == AllowPlan::Scan;
        self.forget_met(view, if scans { 0 } else { capacity });
        self.reset_rest(view, capacity);
    }

    /// The same for a search that came from elsewhere: makes room for as many candidates as came,
    /// whatever the parameters promise. What they meet is remembered as far as the index is large.
    pub(super) fn reset_lean(&mut self, view: &GraphView<'_>, candidates: usize) {
        self.portable.hits.reset(0);
        // Most searches are half done, and meet fewer than a whole one does.
        let few = (candidates * view.list_bound() / 4).max(1024);
        self.forget_met_elsewhere(view, few);
        self.reset_rest(view, candidates);
    }

    fn reset_rest(&mut self, view: &GraphView<'_>, capacity: usize) {
        self.portable.reset(capacity);
        self.derived.reset(view, &self.portable.params, capacity);
    }

    /// The hits so far, nearest first; at least `k` where so many exist once the search is done.
    pub fn hits(&self) -> &[Hit] {
        self.portable.hits.as_slice()
    }

    /// Takes up to `n` nearest hits that were not taken before.
    pub fn take_hits(&mut self, n: usize, out: &mut Vec<Hit>) {
        for hit in self.portable.hits.as_mut_slice().iter_mut().filter(|h| !h.returned).take(n) {
            hit.returned = true;
            out.push(*hit);
        }
    }

    pub(super) fn stats_mut(&mut self) -> &mut SearchStats {
        &mut self.portable.stats
    }

    /// The parameters in force.
    pub fn params(&self) -> &SearchParams {
        &self.portable.params
    }

    pub(super) fn mark_visited(&mut self, node: u32) {
        self.derived.visited.insert(node);
    }
}
