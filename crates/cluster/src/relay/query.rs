//! What is asked of a cluster, and how that ends.

use crate::wire::{FailureCode, Mode, PeerId};

/// How queries are asked.
#[derive(Debug, Clone, Copy)]
pub struct AskerSettings {
    /// Who this is.
    pub me: PeerId,
    /// After so long without an answer a query is begun again.
    pub attempt_us: u64,
    /// Attempts at a query.
    pub attempts: u16,
    /// Queries that wait for room at the servers.
    pub waiting: usize,
}

impl AskerSettings {
    /// How long an attempt at a query has. One that may do without servers has time left to be begun
    /// again.
    pub(super) fn attempt_us_of(&self, query: &Query) -> u64 {
        let share = query.left_us / u64::from(self.attempts.max(1));
        if query.partial { self.attempt_us.min(share) } else { self.attempt_us }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// How servers work together on it.
    pub mode: Mode,
    /// What the search is asked for.
    pub parameters: Vec<u8>,
    /// The vector.
    pub vector: Vec<u8>,
    /// How long an answer is of use.
    pub left_us: u64,
    /// How often its state may be sent on.
    pub hops: u16,
    /// The only server to ask; `None` for the next in turn.
    pub at: Option<u32>,
    /// Whether an answer may lack partitions whose servers are missing.
    pub partial: bool,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The rows found, as [`Hits`](crate::wire::Hits) reads them.
    pub hits: Vec<u8>,
    /// The servers that its state was at, in order.
    pub trace: Vec<u32>,
    /// What it cost.
    pub stats: Vec<u8>,
    /// Attempts that it took.
    pub attempts: u16,
    /// Partitions that it lacks, ascending.
    pub missing: Vec<u32>,
    /// Times that its asker waited for servers.
    pub rounds: u32,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// A server said so.
    #[error("{words}")]
    Failed {
        /// In a word.
        code: FailureCode,
        /// The partition that is missing, where one is.
        partition: Option<u32>,
        /// In a sentence.
        words: String,
    },
    /// Its time was over.
    #[error("no answer within the deadline, after {attempts} attempts{silent}")]
    Deadline {
        /// Attempts made.
        attempts: u16,
        /// Servers that were not heard of meanwhile, for a person.
        silent: String,
    },
    /// More queries wait than may.
    #[error("too many queries wait for room at the servers")]
    Crowded,
}

impl NoAnswer {
    /// Whether servers that are missing are the reason.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Failed { code, .. } => {
                matches!(code, FailureCode::PartitionGone | FailureCode::Leaving)
            }
            Self::Deadline { .. } => true,
            Self::Crowded => false,
        }
    }
}

/// The end of a query.
pub type Ended = Result<Found, NoAnswer>;
