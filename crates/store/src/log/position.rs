//! Which log, and where in it.

use std::fmt;

/// A log of its own. 0 is the catalogue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u64);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an object stands in its shard's log. Of positions in one log, the later is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The term that wrote it; counted from 1.
    pub term: u64,
    /// Its number; counted from 1, with none left out.
    pub number: u64,
}
