//! Who should lead.

use std::fmt;
use std::time::Duration;

/// Who was elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elected {
    /// This server.
    Me,
    /// Another one, where its clients reach it.
    Other {
        /// Its address for clients, host and port.
        address: String,
    },
    /// Nobody that is known, and why.
    Nobody {
        /// For people.
        why: String,
    },
}

/// Tells who should lead. It may be wrong: the log lets only one write.
pub trait Election: fmt::Debug + Send + Sync {
    /// Who was elected, as far as is known now. Cheap; asked often.
    fn elected(&self) -> Elected;

    /// This server has read the log to its end, whose newest term is given, and can lead. Called often.
    fn stand(&self, newest_term: u64);

    /// This server could not begin to lead, or can no longer: another one should.
    fn give_up(&self);

    /// The name of the election that this server has won, while it should lead by it. This server wins none
    /// that has the name of one before.
    fn elected_as(&self) -> Option<u64>;

    /// For how long, from now on, nobody else can have been elected since this server won the election of
    /// this name; zero where that is not known, or another election has been held since.
    fn certain_for(&self, election: u64) -> Duration;
}

/// The election of a cluster of one server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Election for Alone {
    fn elected(&self) -> Elected {
        Elected::Me
    }

    fn stand(&self, _newest_term: u64) {}

    fn give_up(&self) {}

    fn elected_as(&self) -> Option<u64> {
        Some(0)
    }

    fn certain_for(&self, _election: u64) -> Duration {
        Duration::ZERO
    }
}
