//! What can go wrong with a load.

use super::source::SourceError;
use crate::collection::CollectionError;
use crate::ids::ErrorClass;
use crate::schema::BatchError;

/// Why a load ended before its source. What was loaded before stays, and the load can be begun
/// again.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Rows that do not fit the schema; they are counted from the beginning of the source.
    #[error("{error}, in the source of the load (its rows are counted from 0)")]
    Batch {
        /// The batch's error, with the row of the source. It is told above, and no cause beside it.
        error: BatchError,
    },
    /// The collection refuses or fails.
    #[error(transparent)]
    Collection(#[from] CollectionError),
    /// The disk is too small.
    #[error("the load needs about {needed} bytes of disk, {available} are left")]
    Space {
        /// Bytes needed for the rows that are still to come, indexes not counted.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// The source ended before a row that was loaded earlier.
    #[error("the source has {found} rows, {loaded} of it were loaded before")]
    Shorter {
        /// Rows in the source.
        found: u64,
        /// Rows loaded before.
        loaded: u64,
    },
    /// Whoever watches it ended it.
    #[error(
        "the load was interrupted after {rows} rows of its source; begun again it goes on there"
    )]
    Interrupted {
        /// Rows of the source that are loaded.
        rows: u64,
    },
}

impl LoadError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Source(error) => error.class,
            Self::Batch { .. } | Self::Space { .. } | Self::Shorter { .. } => ErrorClass::FixInput,
            Self::Collection(error) => error.class(),
            Self::Interrupted { .. } => ErrorClass::Retry,
        }
    }

    /// An error of a batch whose first row is row `first` of the source.
    pub(super) fn of_batch(error: CollectionError, first: u64) -> Self {
        let CollectionError::Batch(mut batch) = error else { return Self::Collection(error) };
        if let BatchError::Null { row, .. }
        | BatchError::Value { row, .. }
        | BatchError::Row { row, .. } = &mut batch
        {
            *row += usize::try_from(first).expect("rows of a source are counted by usize");
        }
        Self::Batch { error: batch }
    }
}
