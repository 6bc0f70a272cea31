//! Why a search has no answer.

use super::portable_error::PortableError;
use crate::types::PageId;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// A page or code could not be read, or is corrupt. Other queries are not affected.
    #[error("search failed: {0}")]
    Unreadable(String),
    /// Only a part of the graph can be read here, and the search needs the rest.
    #[error("search failed: page {} is held by another server", .0.0)]
    NotHere(PageId),
    /// A state that came from elsewhere is none for this index.
    #[error(transparent)]
    State(#[from] PortableError),
    /// The I/O queue of the thread broke.
    #[error("search failed: the I/O queue broke: {0}")]
    Queue(String),
}
