//! States that were sent on, for when the connection that took them ends: whether they arrived is not
//! known then, and whoever asked would learn of it by waiting.

use std::collections::{HashMap, VecDeque};

use crate::wire::QueryId;

/// States that are kept of those last sent to one server. The asker of an older one waits.
const MOST: usize = 1024;

/// A state that was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentState {
    pub(super) query: QueryId,
    pub(super) attempt: u16,
    pub(super) partition: u32,
    /// Afterwards nobody waits for it.
    pub(super) deadline: u64,
}

/// Those that were last sent to each server, in order.
#[derive(Debug, Default)]
pub(super) struct SentStates {
    to: HashMap<u32, VecDeque<SentState>>,
}

impl SentStates {
    /// Notes that a state was sent.
    pub(super) fn note(&mut self, now: u64, server: u32, sent: SentState) {
        let states = self.to.entry(server).or_default();
        while states.len() >= MOST || states.front().is_some_and(|first| first.deadline <= now) {
            states.pop_front();
        }
        states.push_back(sent);
    }

    /// Those that may be lost with the connection to a server, which are kept no longer.
    pub(super) fn take(
        &mut self,
        now: u64,
        server: u32,
    ) -> impl Iterator<Item = SentState> + use<> {
        let states = self.to.remove(&server).unwrap_or_default();
        states.into_iter().filter(move |sent| sent.deadline > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerId;

    fn sent(number: u64, deadline: u64) -> SentState {
        let query = QueryId { asker: PeerId::Client(1), number };
        SentState { query, attempt: 0, partition: 0, deadline }
    }

    #[test]
    fn what_is_kept_is_bounded_by_number_and_time() {
        let mut states = SentStates::default();
        for number in 0..MOST as u64 + 2 {
            states.note(0, 1, sent(number, 10));
        }
        states.note(0, 2, sent(0, 20));
        let numbers: Vec<_> = states.take(9, 1).map(|sent| sent.query.number).collect();
        assert_eq!(numbers, (2..MOST as u64 + 2).collect::<Vec<_>>());
        assert_eq!(states.take(9, 1).count(), 0, "told once");
        assert_eq!(states.take(20, 2).count(), 0, "nobody waits for it");
        states.note(0, 3, sent(0, 10));
        states.note(10, 3, sent(1, 30));
        assert_eq!(states.to[&3].len(), 1, "what is over goes when more comes");
    }
}
