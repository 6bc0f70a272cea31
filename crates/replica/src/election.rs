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

    /// Until when nobody else can have been elected, from now on; zero where that is not known.
    fn certain_for(&self) -> Duration;
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

    fn certain_for(&self) -> Duration {
        Duration::ZERO
    }
}
