//! Which of a shard's generations one is.

/// Which of a shard's generations. The later is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId {
    /// The term of the leader that published it.
    pub term: u64,
    /// Counted from 1 in each term.
    pub number: u64,
}
