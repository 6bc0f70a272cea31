//! The other servers, as far as this one sees them: connected, back in a moment perhaps, or gone and why.

use std::collections::HashMap;

use crate::transport::Why;

/// How long a state waits for a server whose connection has just ended. One that held is dialled anew
/// at once, and answers within a millisecond or two where the server still stands.
pub(super) const BACK_US: u64 = 5_000;

/// Those of which something was seen.
#[derive(Debug, Default)]
pub(super) struct OtherServers {
    seen: HashMap<u32, ServerStanding>,
}

/// What was seen last of a server.
#[derive(Debug)]
enum ServerStanding {
    Connected,
    /// Its connection has ended; it is waited for until then.
    Lost {
        why: String,
        back_by: u64,
    },
    Gone {
        why: String,
    },
}

impl OtherServers {
    /// A server is connected.
    pub(super) fn connected(&mut self, server: u32) {
        self.seen.insert(server, ServerStanding::Connected);
    }

    /// A connection has ended. Whoever said goodbye is not waited for.
    pub(super) fn lost(&mut self, now: u64, server: u32, why: &Why) {
        if matches!(why, Why::Goodbye { .. }) {
            return self.gone(server, why);
        }
        let back_by = now.saturating_add(BACK_US);
        self.seen.insert(server, ServerStanding::Lost { why: why.to_string(), back_by });
    }

    /// A server could not be reached: it is waited for no longer.
    pub(super) fn gone(&mut self, server: u32, why: &Why) {
        self.seen.insert(server, ServerStanding::Gone { why: why.to_string() });
    }

    /// Why a server is not connected, where that is known.
    pub(super) fn why(&self, server: u32) -> Option<&str> {
        match self.seen.get(&server)? {
            ServerStanding::Connected => None,
            ServerStanding::Lost { why, .. } | ServerStanding::Gone { why } => Some(why),
        }
    }

    /// Whether something will be seen of a server in a moment. That holds for one that is connected and
    /// takes nothing too: that its connection has ended is about to be told.
    pub(super) fn is_awaited(&self, server: u32) -> bool {
        matches!(
            self.seen.get(&server),
            Some(ServerStanding::Connected | ServerStanding::Lost { .. })
        )
    }

    /// Those that are waited for no longer.
    pub(super) fn give_up(&mut self, now: u64) -> Vec<u32> {
        let mut given_up = Vec::new();
        for (&server, seen) in &mut self.seen {
            if let ServerStanding::Lost { why, back_by } = seen
                && *back_by <= now
            {
                *seen = ServerStanding::Gone { why: std::mem::take(why) };
                given_up.push(server);
            }
        }
        // In an order that no hash decides.
        given_up.sort_unstable();
        given_up
    }

    /// When the next is waited for no longer.
    pub(super) fn next_due(&self) -> Option<u64> {
        let back_by = |seen: &ServerStanding| match seen {
            ServerStanding::Lost { back_by, .. } => Some(*back_by),
            ServerStanding::Connected | ServerStanding::Gone { .. } => None,
        };
        self.seen.values().filter_map(back_by).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_until_it_is_back_or_refuses_or_its_moment_is_over() {
        let mut others = OtherServers::default();
        assert!(!others.is_awaited(0), "nothing was seen of it");
        for server in 0..4 {
            others.lost(100, server, &Why::Closed);
        }
        assert_eq!(others.next_due(), Some(100 + BACK_US));
        others.connected(0);
        others.gone(1, &Why::Silent);
        assert_eq!([0, 1, 2].map(|server| others.is_awaited(server)), [true, false, true]);
        assert!(others.give_up(99 + BACK_US).is_empty());
        assert_eq!(others.give_up(100 + BACK_US), [2, 3]);
        assert!(!others.is_awaited(2) && others.next_due().is_none());
        assert_eq!(others.why(0), None);
        assert_eq!(others.why(1).unwrap(), Why::Silent.to_string());
        assert_eq!(others.why(3).unwrap(), Why::Closed.to_string());
    }

    #[test]
    fn whoever_says_goodbye_is_not_waited_for() {
        let mut others = OtherServers::default();
        let why = crate::wire::Leave::Stopping;
        others.lost(100, 1, &Why::Goodbye { why, words: "it stops".to_owned() });
        assert!(!others.is_awaited(1) && others.next_due().is_none());
    }
}
