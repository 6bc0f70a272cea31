//! What a database gives to a log that several servers share, and what it takes from it.
//!
//! One server leads: each of its changes stands in the shared log before it is written to the
//! database's own files, so that those never have what the shared log lacks. The others follow: they
//! apply the changes in their order and make none. Which server leads is not decided here; an old
//! leader is refused by the shared log.
//!
//! Links of graphs are no changes: each server has a graph of its own, and the log of none has them.
//! How the leader has linked a row is told to whoever asks. So a record has the same number in the log of a collection on every server.
//!
//! Applying is idempotent: changes of the catalogue have revisions, records have numbers, and users
//! and roles come as a whole. Bytes to this room; what they mean is known where they are made.

mod leadership;
mod memory;
pub mod requests;
mod stops;
mod under_way;

pub use leadership::{Leadership, LogStanding};
pub use memory::MemoryLog;
pub use requests::{AppliedRequest, KnownRequests};
pub(crate) use stops::CollectionStops;
pub use under_way::{BegunChanges, ChangeUnderWay, ChangesUnderWay};

use std::fmt;

use crate::ids::{ErrorClass, Seq};

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedChange<'a> {
    /// Of the catalogue.
    Catalog {
        /// The revision that it leads to.
        revision: u64,
        /// What is otherwise then, as in the catalogue's file.
        delta: &'a [u8],
    },
    /// Users and roles, all of them.
    Access {
        /// Their file.
        file: &'a [u8],
    },
    /// A record of a collection's log.
    Record {
        /// Id of the collection.
        collection: u64,
        /// Number of the record; those of a collection have no gaps.
        seq: Seq,
        /// Number of its kind.
        kind: u16,
        /// What it holds.
        payload: &'a [u8],
    },
    /// The request that the change before this one was made for. Both are there, or neither.
    Request(AppliedRequest),
}

/// Why a change is not known to be in the shared log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedLogError {
    /// This server follows, or another one has begun to lead. The change is not there.
    #[error("this server does not lead, so it takes no writes: {why}; ask the one that leads")]
    NotLeading {
        /// What is known of it.
        why: String,
    },
    /// It could not be found out whether the change is there.
    #[error("the log that the servers share cannot be written: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// A change that does not follow the ones before it.
    #[error(
        "change {found} of {of} came, and {expected} was to come; take the shared log from its begin"
    )]
    Gap {
        /// Of what.
        of: String,
        /// The number that is next.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// Bytes that are no such change.
    #[error("a change of {of} in the shared log is damaged: {why}")]
    Damaged {
        /// Of what.
        of: String,
        /// What is wrong.
        why: String,
    },
}

impl SharedLogError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotLeading { .. } | Self::Unknown { .. } => ErrorClass::Retry,
            Self::Gap { .. } | Self::Damaged { .. } => ErrorClass::Stop,
        }
    }
}

/// A log that several servers share, for the one that leads. Called by many threads at once.
pub trait SharedLog: fmt::Debug + Send + Sync {
    /// Appends changes in their order, and returns when they are certain to be there. Those of one
    /// collection, and those of the catalogue, come one call after the other.
    ///
    /// # Errors
    /// [`SharedLogError::NotLeading`], [`SharedLogError::Unknown`]: the first of the changes may be
    /// there, up to any. After either it takes no more, and the server has to lead anew or to follow.
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError>;

    /// Whether it takes no more, so that another log is to be led or followed.
    fn is_over(&self) -> bool {
        false
    }
}
