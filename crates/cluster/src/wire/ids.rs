//! Who takes part and which query is meant, in the form in which messages say it.

use std::fmt;

/// A server of the topology, or a client that dialled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerId {
    /// A server, by its number in the topology.
    Server(u32),
    /// A client, by a number that it drew when it began.
    Client(u64),
}

impl PeerId {
    /// The number where this is a server.
    pub fn server(self) -> Option<u32> {
        match self {
            Self::Server(number) => Some(number),
            Self::Client(_) => None,
        }
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(number) => write!(f, "server {number}"),
            Self::Client(id) => write!(f, "client {id:016x}"),
        }
    }
}

/// A query: who asked, and the how-many-th of its queries it is. Never used twice by an asker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId {
    /// Where the answer goes.
    pub asker: PeerId,
    /// Counted by the asker.
    pub number: u64,
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query {} of {}", self.number, self.asker)
    }
}
