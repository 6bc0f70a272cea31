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

use std::ops::{Bound, RangeBounds};

use super::allow_list::AllowPlan;
use super::candidates::{Candidate, CandidateProgress};
use super::coding_error::CodingError;
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

/// Distances between two ends; smaller is nearer, for every metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceRange {
    /// Where distances begin.
    pub from: Bound<f32>,
    /// Where distances end.
    pub to: Bound<f32>,
}

impl Default for DistanceRange {
    /// All.
    fn default() -> Self {
        Self::ALL
    }
}

impl DistanceRange {
    /// All.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    /// Whether every distance is in it.
    pub fn is_all(&self) -> bool {
        (Bound::Unbounded, Bound::Unbounded) == (self.from, self.to)
    }

    /// Whether a distance is in it.
    pub fn contains(&self, distance: f32) -> bool {
        (self.from, self.to).contains(&distance)
    }

    /// Whether its ends are numbers.
    pub(super) fn is_sound(&self) -> bool {
        let is_nan =
            |end| matches!(end, Bound::Included(at) | Bound::Excluded(at) if f32::is_nan(at));
        !is_nan(self.from) && !is_nan(self.to)
    }

    fn is_too_near(&self, distance: f32) -> bool {
        !(self.from, Bound::Unbounded).contains(&distance)
    }

    pub(super) fn far_end(&self) -> Option<f32> {
        match self.to {
            Bound::Included(to) | Bound::Excluded(to) => Some(to),
            Bound::Unbounded => None,
        }
    }
}

/// What a search within a range remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranged {
    /// Exact distance of the nearest row that may be answered. Portable.
    pub(super) nearest: f32,
    /// Rows seen that are nearer than the range. Portable.
    pub(super) too_near: u32,
    /// Coded distance beyond which only so many entries of the list are kept as lead on.
    pub(super) keeps_to: f32,
}

impl Default for Ranged {
    fn default() -> Self {
        Self { nearest: f32::INFINITY, too_near: 0, keeps_to: f32::INFINITY }
    }
}

impl SearchState {
    /// Notes a row that may be answered, and keeps it where it is within the range.
    pub(super) fn add_hit(&mut self, hit: Hit) {
        self.ranged.nearest = self.ranged.nearest.min(hit.distance);
        if self.params.within.contains(hit.distance) {
            self.hits.insert(hit);
        } else if self.params.within.is_too_near(hit.distance) {
            self.ranged.too_near = self.ranged.too_near.saturating_add(1);
        }
    }

    /// Sets how far the search reads and what its list keeps, from what it knows by now.
    pub(super) fn look_again(&mut self) {
        // What a scan knows does not depend on what it reads.
        let stops = self.params.policy.early_stop || self.among.plan == AllowPlan::Scan;
        self.reach = self.farthest_wanted().filter(|_| stops);
        let far = self.params.within.far_end();
        self.ranged.keeps_to = match far {
            None => f32::INFINITY,
            Some(far) if self.in_memory => CodingError::least_reach(far),
            Some(far) => self.coding_error.farthest(far),
        };
    }

    /// Rows met within the range or before it.
    fn met(&self) -> usize {
        self.hits.as_slice().len() + self.ranged.too_near as usize
    }

    /// Coded distance up to which candidates may change the answer; `None` while that is not known.
    fn farthest_wanted(&self) -> Option<f32> {
        let SearchParams { k, list, within, .. } = &self.params;
        let Ranged { nearest, too_near, .. } = self.ranged;
        match (self.hits.as_slice().get(k - 1), within.far_end()) {
            (Some(kth), _) => {
                let before = k + too_near as usize;
                self.coding_error.reach(kth.distance, before, before.max(*list))
            }
            (None, Some(far)) => {
                let met = LEAST_MET.max(self.met());
                let list = LEAST_LIST.max(2 * met);
                self.coding_error.reach(far.max(nearest.min(f32::MAX)), met, list)
            }
            (None, None) => None,
        }
    }

    /// Entries of the list that are read where a search does not stop early: all, once something lies
    /// within, since the way to the rest may lead through what is no nearer.
    pub(super) fn list_to_read(&self) -> usize {
        let SearchParams { list, within, .. } = &self.params;
        let is_empty = within.far_end().is_some() && self.met() == 0;
        if is_empty { LEAST_LIST.min(*list) } else { *list }
    }

    /// Whether as many rows were found as are wanted, or all within the range that can be.
    pub(super) fn has_enough(&self) -> bool {
        let ends = self.params.within.far_end().is_some() && self.ranged.nearest < f32::INFINITY;
        ends || self.hits.as_slice().len() >= self.params.k
    }

    /// After an entry came into the list: those that are too far give way. Not where the search does not
    /// stop early, as by inner product: the way to what lies within may lead through any of them.
    pub(super) fn keep_in_range(&mut self) {
        if !self.params.policy.early_stop {
            return;
        }
        while let Some(given_up) = self.list.give_up_beyond(KEPT, self.ranged.keeps_to) {
            self.stash.release(given_up.stash);
        }
    }

    /// Whether a search in memory has explored all that may lie within the range once it comes to
    /// this entry of the list.
    pub(super) fn leaves_range(&self, at: usize) -> bool {
        let stops = self.params.policy.early_stop && at >= LEAST_IN_MEMORY;
        stops && self.list.entries()[at].distance > self.ranged.keeps_to
    }

    /// Whether the list was too short for the range: there may be more rows in it, or nearer ones.
    pub(super) fn is_cut_short(&self) -> bool {
        let SearchParams { k, list, within, .. } = &self.params;
        if within.is_all() {
            return false;
        }
        let kth = self.hits.as_slice().get(k - 1).map_or(f32::INFINITY, |hit| hit.distance);
        let limit = self.reach.unwrap_or(self.ranged.keeps_to).min(kth);
        let unread = |c: &Candidate| c.progress == CandidateProgress::Unread && c.distance <= limit;
        let entries = self.list.entries();
        let is_full = entries.len() == self.list.capacity();
        is_full && entries.last().is_some_and(|last| last.distance < limit)
            || entries.iter().skip(*list).any(unread)
    }
}
