//! The candidate list: the nearest nodes known, sorted, with what has happened to each.
//!
//! A sorted array is the right structure here: lists are short (tens to hundreds), most
//! insertions fail the bound, and the scan for the next unread node starts where the last one
//! ended.
//!
//! Invariants:
//! - entries are sorted by (distance, node), at most `capacity` of them, no node twice;
//! - `bound` never grows once the list has been full: what was turned away stays turned away,
//!   so that a search resumed without its visited set takes the same decisions;
//! - no entry before `first_unread` is [`CandidateProgress::Unread`], and none before `first_wanted` is so
//!   and allowed; none before `first_at_hand` is [`CandidateProgress::AtHand`].

use crate::types::NodeId;

/// What has happened to a candidate so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CandidateProgress {
    /// Known by its code only; its page has not been asked for.
    Unread = 0,
    /// Its page is on the way.
    Issued = 1,
    /// Its page was read and its neighbours are at hand, not scored yet.
    AtHand = 2,
    /// Its neighbours have been scored.
    Explored = 3,
}

impl CandidateProgress {
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Unread),
            1 => Some(Self::Issued),
            2 => Some(Self::AtHand),
            3 => Some(Self::Explored),
            _ => None,
        }
    }
}

/// A node in the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Coded distance until the node's page was read, exact from then on.
    pub distance: f32,
    /// The node.
    pub node: NodeId,
    /// Where its neighbours are kept while it is [`CandidateProgress::AtHand`].
    pub(super) stash: u32,
    /// What has happened to it.
    pub progress: CandidateProgress,
    /// Whether the node may be answered; all may where there is no allow-set.
    pub allowed: bool,
}

/// See the module's description.
#[derive(Debug)]
pub struct CandidateList {
    entries: Vec<Candidate>,
    capacity: usize,
    bound: f32,
    first_unread: usize,
    first_wanted: usize,
    first_at_hand: usize,
}

fn before(a: &Candidate, distance: f32, node: NodeId) -> bool {
    a.distance < distance || (a.distance == distance && a.node < node)
}

impl CandidateList {
    /// An empty list that holds up to `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity + 1),
            capacity,
            bound: f32::INFINITY,
            first_unread: 0,
            first_wanted: 0,
            first_at_hand: 0,
        }
    }

    /// Empties the list and sets its capacity; allocates only to grow.
    pub fn reset(&mut self, capacity: usize) {
        self.entries.clear();
        self.entries.reserve(capacity + 1);
        self.capacity = capacity;
        self.bound = f32::INFINITY;
        self.first_unread = 0;
        self.first_wanted = 0;
        self.first_at_hand = 0;
    }

    /// Says how many entries the list holds, without making room for them.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Lets the list hold more from now on, for a search that goes on to further results.
    pub fn grow(&mut self, capacity: usize) {
        if capacity > self.capacity {
            self.entries.reserve(capacity + 1 - self.entries.len());
            self.capacity = capacity;
            self.bound = f32::INFINITY;
        }
    }

    /// All entries, nearest first.
    pub fn entries(&self) -> &[Candidate] {
        &self.entries
    }

    /// Most entries the list holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Only a distance below this can enter.
    #[inline]
    pub fn bound(&self) -> f32 {
        self.bound
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Candidate>()
    }

    pub(super) fn set_bound(&mut self, bound: f32) {
        self.bound = bound;
    }

    /// Index of the nearest unread entry below `window`.
    #[inline]
    pub fn first_unread(&mut self, window: usize) -> Option<usize> {
        while self
            .entries
            .get(self.first_unread)
            .is_some_and(|c| c.progress != CandidateProgress::Unread)
        {
            self.first_unread += 1;
        }
        (self.first_unread < window.min(self.entries.len())).then_some(self.first_unread)
    }

    /// Index of the nearest unread entry that may be answered.
    #[inline]
    pub fn first_wanted(&mut self) -> Option<usize> {
        let wanted = |c: &Candidate| c.allowed && c.progress == CandidateProgress::Unread;
        while self.entries.get(self.first_wanted).is_some_and(|c| !wanted(c)) {
            self.first_wanted += 1;
        }
        (self.first_wanted < self.entries.len()).then_some(self.first_wanted)
    }

    /// Index of the nearest entry below `window` whose neighbours are at hand. The list of a walk
    /// among few nodes is long, and this is asked for at every step.
    #[inline]
    pub fn first_at_hand(&mut self, window: usize) -> Option<usize> {
        let left = self.entries.get(self.first_at_hand..).unwrap_or_default();
        let ahead = left.iter().take_while(|c| c.progress != CandidateProgress::AtHand).count();
        self.first_at_hand += ahead;
        (self.first_at_hand < window.min(self.entries.len())).then_some(self.first_at_hand)
    }

    /// Inserts a node that is not in the list. Returns the entry pushed off the far end, which
    /// may be the new one.
    #[inline]
    pub fn insert(&mut self, candidate: Candidate) -> Option<Candidate> {
        debug_assert!(!candidate.distance.is_nan(), "distances are numbers");
        let at = self.entries.partition_point(|c| before(c, candidate.distance, candidate.node));
        if at >= self.capacity {
            return Some(candidate);
        }
        let pushed = if self.entries.len() == self.capacity { self.entries.pop() } else { None };
        self.entries.insert(at, candidate);
        for first in [&mut self.first_unread, &mut self.first_wanted] {
            if candidate.progress == CandidateProgress::Unread || at <= *first {
                *first = at.min(*first);
            }
        }
        if candidate.progress == CandidateProgress::AtHand {
            self.first_at_hand = at.min(self.first_at_hand);
        } else {
            self.first_at_hand += usize::from(at <= self.first_at_hand);
        }
        if self.entries.len() == self.capacity {
            let last = self.entries[self.capacity - 1].distance;
            self.bound = self.bound.min(last);
        }
        pushed
    }

    /// Takes the last entry out where it stands behind the first `kept` and beyond a distance. What
    /// is as far is turned away from then on.
    pub(super) fn give_up_beyond(&mut self, kept: usize, distance: f32) -> Option<Candidate> {
        let last = self.entries.get(kept..)?.last()?;
        if last.distance <= distance {
            return None;
        }
        self.bound = self.bound.min(self.entries[kept - 1].distance.max(distance));
        let last = self.entries.len() - 1;
        Some(self.remove_at(last))
    }

    /// Takes the entry of `node` out, looking first where `distance` puts it.
    pub fn remove(&mut self, node: NodeId, distance: f32) -> Option<Candidate> {
        let at = self.entries.partition_point(|c| before(c, distance, node));
        (self.entries.get(at).is_some_and(|c| c.node == node)).then(|| self.remove_at(at))
    }

    /// Takes the entry at an index out.
    pub fn remove_at(&mut self, at: usize) -> Candidate {
        self.first_unread -= usize::from(at < self.first_unread);
        self.first_wanted -= usize::from(at < self.first_wanted);
        self.first_at_hand -= usize::from(at < self.first_at_hand);
        self.entries.remove(at)
    }

    /// Whether `node` stands in the list with just this distance.
    pub fn contains(&self, node: NodeId, distance: f32) -> bool {
        let at = self.entries.partition_point(|c| before(c, distance, node));
        self.entries.get(at).is_some_and(|c| c.node == node)
    }

    /// Records progress of the entry at `index`.
    #[inline]
    pub fn set_progress(&mut self, index: usize, progress: CandidateProgress) {
        self.entries[index].progress = progress;
        if progress == CandidateProgress::Unread {
            self.first_unread = self.first_unread.min(index);
            self.first_wanted = self.first_wanted.min(index);
        }
        if progress == CandidateProgress::AtHand {
            self.first_at_hand = self.first_at_hand.min(index);
        }
    }

    pub(super) fn set_stash(&mut self, index: usize, stash: u32) {
        self.entries[index].stash = stash;
    }
}

#[cfg(test)]
#[path = "candidates_tests.rs"]
mod tests;
