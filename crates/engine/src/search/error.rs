//! Why a search has no answer.

use super::portable_error::PortableError;
use super::read_failure::ReadFailure;
use super::view::CodesUnavailable;
use crate::io::{IoError, ReadFault};
use crate::types::{ErrorClass, PageId};

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// A page or code could not be read, or is corrupt. Other queries are not affected.
    #[error("search failed: {0}")]
    Unreadable(ReadFailure),
    /// Only a part of the graph can be read here, and the search needs the rest.
    #[error("search failed: page {} is held by another server", .0.0)]
    NotHere(PageId),
    /// A state that came from elsewhere is none for this index.
    #[error(transparent)]
    State(#[from] PortableError),
    /// The I/O queue of the thread broke.
    #[error("search failed: the I/O queue broke: {0}")]
    Queue(IoError),
    /// Nobody waits for the answer any more.
    #[error("search failed: it was given up, since nobody waits for it")]
    Stopped,
    /// A defect: the thread panicked, and its output says where.
    #[error("search failed: its thread panicked")]
    Panicked,
}

impl SearchError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreadable(failure) => failure.fault.class(),
            Self::Queue(error) => error.class(),
            Self::Stopped => ErrorClass::Retry,
            Self::NotHere(_) | Self::State(_) | Self::Panicked => ErrorClass::Stop,
        }
    }

    /// Whether something that was to be read is not there as it was written, or cannot be read at
    /// all: not for want of memory or descriptors, which passes.
    pub fn is_lasting_damage(&self) -> bool {
        matches!(self, Self::Unreadable(failure) if failure.fault != ReadFault::Shortage)
    }
}

impl From<CodesUnavailable> for SearchError {
    fn from(error: CodesUnavailable) -> Self {
        let why = error.to_string();
        Self::Unreadable(ReadFailure { why, fault: error.0.fault })
    }
}
