//! What may go wrong with a log, and what the reader of an error can do.

use super::position::{Position, ShardId};
use crate::objects::{Advice, ObjectsError};

/// Whatever a caller's own function fails with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failure of a shard's log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Another leader has opened a later term. This one writes no more.
    #[error("shard {shard}: term {term} ended, as {by:?} opened term {later} at object {number}")]
    Fenced {
        /// The shard.
        shard: ShardId,
        /// The caller's term.
        term: u64,
        /// The later one.
        later: u64,
        /// Where it was opened, or what of it was met first.
        number: u64,
        /// Who leads it.
        by: String,
    },
    /// Whether the object was put could not be found out in time. It may be in the log or appear
    /// there later, and this leader writes no more; opening a new term tells what came of it.
    #[error("shard {shard}: object {number} of the log: put, and not known whether it is there")]
    Unreachable {
        /// The shard.
        shard: ShardId,
        /// The object's number.
        number: u64,
        /// What the store said last.
        #[source]
        cause: ObjectsError,
    },
    /// This leader met `Fenced`, `Unreachable` or `Damaged` before, or was stopped in the midst of a
    /// put.
    #[error("shard {shard}: term {term} writes no more, as an earlier put came to no outcome")]
    Poisoned {
        /// The shard.
        shard: ShardId,
        /// The caller's term.
        term: u64,
    },
    /// The log was cut above what the caller has; a generation brings it beyond.
    #[error("shard {shard}: object {wanted} is wanted, and the log begins at {begin}")]
    Cut {
        /// The shard.
        shard: ShardId,
        /// The number wanted.
        wanted: u64,
        /// The lowest number that the log still has.
        begin: u64,
    },
    /// The log does not contain the position that the caller has applied. What the caller has is
    /// another history, to be thrown away.
    #[error("shard {shard}: the log has no object {number} of term {term}")]
    Diverged {
        /// The shard.
        shard: ShardId,
        /// Of the caller's position.
        number: u64,
        /// Of the caller's position.
        term: u64,
    },
    /// An object is not what the log's rules allow.
    #[error("{object}: {why}")]
    Damaged {
        /// Its name.
        object: String,
        /// What was expected.
        why: String,
    },
    /// More than an object holds; nothing was put.
    #[error("an object of the log may hold {most} {what}, not {given}")]
    TooLarge {
        /// Bytes or records.
        what: &'static str,
        /// What was given.
        given: u64,
        /// The most.
        most: u64,
    },
    /// A timestamp below one that the log has already; nothing was put.
    #[error("shard {shard}: timestamp {given} is below {last}, which the log has already")]
    Backwards {
        /// The shard.
        shard: ShardId,
        /// What was given.
        given: u64,
        /// The log's newest.
        last: u64,
    },
    /// The caller's own function failed.
    #[error("shard {shard}: the batch at {position:?} could not be applied")]
    Apply {
        /// The shard.
        shard: ShardId,
        /// Of the batch.
        position: Position,
        /// As the caller says it.
        #[source]
        cause: BoxError,
    },
    /// The store failed where nothing was put.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl LogError {
    /// What to do about it. After `Fenced`, `Unreachable`, `Poisoned`, `Cut` and `Diverged` the log is
    /// to be opened anew, from a generation where one is newer; the same call fails again.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Objects(error) => error.advice(),
            Self::TooLarge { .. } | Self::Backwards { .. } => Advice::FixInput,
            _ => Advice::Stop,
        }
    }

    pub(super) fn damaged(object: &str, why: impl Into<String>) -> Self {
        Self::Damaged { object: object.to_owned(), why: why.into() }
    }
}
