//! Searches that wait: a queue for each collection, and which of them is next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::group::Group;
use super::pace::Paces;
use super::waiting::{Use, WaitingSearch};
use super::{ScheduleError, SchedulerOptions};

/// The searches of one collection, the oldest first.
struct CollectionQueue {
    collection: usize,
    waiting: VecDeque<WaitingSearch>,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct SearchQueues {
    /// The first is next; none is empty.
    turns: VecDeque<CollectionQueue>,
    searches: usize,
    bytes: usize,
    /// What all that waits is expected to take of one thread.
    expected: Duration,
    pub(super) paces: Paces,
}

/// What a thread is given to do.
#[derive(Default)]
pub(super) struct TakenSearches {
    pub(super) group: Vec<WaitingSearch>,
    /// Searches whose time has passed.
    pub(super) late: Vec<WaitingSearch>,
}

impl SearchQueues {
    pub(super) fn searches(&self) -> usize {
        self.searches
    }

    /// Puts a search at the end of its line. Returns it, and why, where there is no room, or where what
    /// waits takes most of its time.
    pub(super) fn push(
        &mut self,
        mut waiting: WaitingSearch,
        options: &SchedulerOptions,
    ) -> Option<(WaitingSearch, ScheduleError)> {
        let collection = waiting.of_collection();
        let line = self.turns.iter().position(|line| line.collection == collection);
        let of_line = line.map_or(0, |line| self.turns[line].waiting.len());
        let bytes = waiting.request.vectors.bytes();
        let is_full = of_line >= options.line
            || self.searches >= options.lines
            || (self.searches > 0 && self.bytes + bytes > options.bytes);
        if is_full {
            let waits = if of_line >= options.line { of_line } else { self.searches };
            return Some((waiting, ScheduleError::Full { waiting: waits }));
        }
        let threads = u32::try_from(options.at_once).unwrap_or(u32::MAX).max(1);
        if waiting.is_hopeless(self.expected / threads) {
            return Some((waiting, ScheduleError::Late));
        }
        waiting.expected = self.paces.expected(collection, waiting.queries);
        self.searches += 1;
        self.bytes += bytes;
        self.expected += waiting.expected;
        match line {
            Some(line) => self.turns[line].waiting.push_back(waiting),
            None => self.turns.push_back(CollectionQueue { collection, waiting: [waiting].into() }),
        }
        None
    }

    /// The oldest search of the line whose turn it is, with those that join it; `None` where nothing
    /// waits. Searches that nobody waits for are left out.
    pub(super) fn take(&mut self, now: Instant, merge: bool) -> Option<TakenSearches> {
        let mut line = self.turns.pop_front()?;
        let mut taken = TakenSearches::default();
        let mut group: Option<Group> = None;
        let before = line.waiting.len();
        let mut left = Vec::new();
        while let Some(waiting) = line.waiting.pop_front() {
            let needed = self.paces.needed(line.collection, waiting.queries);
            match waiting.usefulness(now, needed) {
                Use::Gone => {
                    self.bytes -= waiting.request.vectors.bytes();
                    self.expected -= waiting.expected;
                }
                Use::Late => taken.late.push(waiting),
                Use::Wanted => {
                    let joins = match &mut group {
                        Some(group) => group.takes(&taken.group[0], &waiting),
                        none => {
                            *none = Some(Group::of(&waiting));
                            true
                        }
                    };
                    let place = if joins { &mut taken.group } else { &mut left };
                    place.push(waiting);
                }
            }
            if group.as_ref().is_some_and(|group| !merge || group.is_full()) {
                left.extend(line.waiting.drain(..));
            }
        }
        self.searches -= before - left.len();
        for gone in taken.group.iter().chain(&taken.late) {
            self.bytes -= gone.request.vectors.bytes();
            self.expected -= gone.expected;
        }
        if !left.is_empty() {
            self.turns.push_back(CollectionQueue { waiting: left.into(), ..line });
        }
        Some(taken)
    }

    /// All that wait, which do not any more.
    pub(super) fn take_all(&mut self) -> Vec<WaitingSearch> {
        (self.searches, self.bytes, self.expected) = (0, 0, Duration::ZERO);
        let all = std::mem::take(&mut self.turns).into_iter();
        all.flat_map(|line| line.waiting).collect()
    }
}
