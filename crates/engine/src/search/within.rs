//! Range search: the rows within a range of distances, up to `k` of them.
//!
//! It asks two things, one after the other. Is anything there? Until a row no farther than the far
//! end was seen, it is a search for the nearest one, and ends as soon as that is known to be too
//! far. What else is there? From then on every candidate is read that, by its code and by how exact
//! the codes of this query have proved, may be near enough, and no other, however long the list
//! is. The list keeps the candidates that stand a chance, and a number of others that lead on.
//!
//! Where a search does not stop early, as by inner product, all of its list is read once something
//! lies within.
//!
//! Rows nearer than the near end are passed over, but lie on the way.

use super::allowed::AllowPlan;
use super::candidates::{Candidate, CandidateProgress};
use super::coding_error::CodingError;
use super::distance_range::Ranged;
use super::hits::Hit;
use super::params::SearchParams;
use super::state::SearchState;

/// The list that an ordinary search for few rows has, and a range search as long as it has met none.
const LEAST_LIST: usize = 64;
/// Entries that the list keeps even though they are too far: they lead on.
const KEPT: usize = 192;
/// Candidates explored at least where every page is in memory.
const LEAST_IN_MEMORY: usize = 96;
/// Codes are given the slack of an ordinary search for as many rows as were met, and for so many at
/// least, with the list that such a search has: twice as many, and the least list at least.
const LEAST_MET: usize = 10;

impl SearchState {
    /// Notes a row that may be answered, and keeps it where it is within the range.
    pub(super) fn add_hit(&mut self, hit: Hit) {
        self.portable.ranged.nearest = self.portable.ranged.nearest.min(hit.distance);
        if self.portable.params.within.contains(hit.distance) {
            self.portable.hits.insert(hit);
        } else if self.portable.params.within.is_too_near(hit.distance) {
            self.portable.ranged.too_near = self.portable.ranged.too_near.saturating_add(1);
        }
    }

    /// Sets how far the search reads and what its list keeps, from what it knows by now.
    pub(super) fn look_again(&mut self) {
        // What a scan knows does not depend on what it reads.
        let stops =
            self.portable.params.policy.early_stop || self.portable.among.plan == AllowPlan::Scan;
        self.derived.reach = self.farthest_wanted().filter(|_| stops);
        let far = self.portable.params.within.far_end();
        self.derived.keeps_to = match far {
            None => f32::INFINITY,
            Some(far) if self.derived.in_memory => CodingError::least_reach(far),
            Some(far) => self.portable.coding_error.farthest(far),
        };
    }

    /// Rows met within the range or before it.
    fn met(&self) -> usize {
        self.portable.hits.as_slice().len() + self.portable.ranged.too_near as usize
    }

    /// Coded distance up to which candidates may change the answer; `None` while that is not known.
    fn farthest_wanted(&self) -> Option<f32> {
        let SearchParams { k, list, within, .. } = &self.portable.params;
        let Ranged { nearest, too_near } = self.portable.ranged;
        match (self.portable.hits.as_slice().get(k - 1), within.far_end()) {
            (Some(kth), _) => {
                let before = k + too_near as usize;
                self.portable.coding_error.reach(kth.distance, before, before.max(*list))
            }
            (None, Some(far)) => {
                let met = LEAST_MET.max(self.met());
                let list = LEAST_LIST.max(2 * met);
                self.portable.coding_error.reach(far.max(nearest.min(f32::MAX)), met, list)
            }
            (None, None) => None,
        }
    }

    /// Entries of the list that are read where a search does not stop early: all, once something lies
    /// within, since the way to the rest may lead through what is no nearer.
    pub(super) fn list_to_read(&self) -> usize {
        let SearchParams { list, within, .. } = &self.portable.params;
        let is_empty = within.far_end().is_some() && self.met() == 0;
        if is_empty { LEAST_LIST.min(*list) } else { *list }
    }

    /// Whether as many rows were found as are wanted, or all within the range that can be.
    pub(super) fn has_enough(&self) -> bool {
        let ends = self.portable.params.within.far_end().is_some()
            && self.portable.ranged.nearest < f32::INFINITY;
        ends || self.portable.hits.as_slice().len() >= self.portable.params.k
    }

    /// After an entry came into the list: those that are too far give way. Not where the search does not
    /// stop early, as by inner product: the way to what lies within may lead through any of them.
    pub(super) fn keep_in_range(&mut self) {
        if !self.portable.params.policy.early_stop {
            return;
        }
        while let Some(given_up) = self.portable.list.give_up_beyond(KEPT, self.derived.keeps_to) {
            self.derived.stash.release(given_up.stash);
        }
    }

    /// Whether a search in memory has explored all that may lie within the range once it comes to
    /// this entry of the list.
    pub(super) fn leaves_range(&self, at: usize) -> bool {
        let stops = self.portable.params.policy.early_stop && at >= LEAST_IN_MEMORY;
        stops && self.portable.list.entries()[at].distance > self.derived.keeps_to
    }

    /// Whether the list was too short for the range: there may be more rows in it, or nearer ones.
    pub(super) fn is_cut_short(&self) -> bool {
        let SearchParams { k, list, within, .. } = &self.portable.params;
        if within.is_all() {
            return false;
        }
        let kth =
            self.portable.hits.as_slice().get(k - 1).map_or(f32::INFINITY, |hit| hit.distance);
        let limit = self.derived.reach.unwrap_or(self.derived.keeps_to).min(kth);
        let unread = |c: &Candidate| c.progress == CandidateProgress::Unread && c.distance <= limit;
        let entries = self.portable.list.entries();
        let is_full = entries.len() == self.portable.list.capacity();
        is_full && entries.last().is_some_and(|last| last.distance < limit)
            || entries.iter().skip(*list).any(unread)
    }
}
