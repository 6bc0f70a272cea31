//! What can go wrong with an index: opening it, and asking it.

use std::path::{Path, PathBuf};

use crate::format::FormatError;
use crate::io::{IoError, ReadFault};
use crate::memory::OverLimit;
use crate::search::{ParamError, ReadFailure, SearchError};
use crate::types::{ErrorClass, VectorType};

/// Why an index cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory holds no index: nothing was built there, or a build was interrupted.
    #[error("{} holds no index (no MANIFEST); build one with `pipeann build`", .0.display())]
    NoIndex(PathBuf),
    /// A file is missing or cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A page failed its check while all pages were read into memory.
    #[error("{0}")]
    Damaged(String),
    /// Codes or a row map could not be read. They may be sound.
    #[error("{0}")]
    Unread(ReadFailure),
    /// A file's bytes are not what they should be.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// A partition was asked for that the index does not have.
    #[error("the index has no partition {number}: it has {partitions}, counted from 0")]
    Partition {
        /// The number asked for.
        number: u32,
        /// Partitions of the index.
        partitions: usize,
    },
    /// The memory limit is below what the index needs at least.
    #[error(transparent)]
    Memory(#[from] OverLimit),
    /// Direct reading is refused, or no queue can be made.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl OpenError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoIndex(_) | Self::Partition { .. } | Self::Memory(_) => ErrorClass::FixInput,
            Self::Format { source, .. } => source.class(),
            Self::Io(e) => e.class(),
            Self::Unread(failure) => failure.fault.class(),
            Self::File { source, .. } => ReadFault::of(source).class(),
            Self::Damaged(_) => ErrorClass::Stop,
        }
    }

    /// Why what was to be in memory at opening is not there: told apart are files that are damaged
    /// and those that could not be read just then.
    pub(crate) fn of_read(path: &Path, error: QueryError) -> Self {
        match error {
            QueryError::Search(SearchError::Unreadable(failure)) => match failure.fault {
                ReadFault::Damaged => Self::Damaged(failure.why),
                ReadFault::Failed | ReadFault::Shortage => Self::Unread(failure),
            },
            QueryError::Search(SearchError::Queue(error)) | QueryError::Io(error) => {
                Self::Io(error)
            }
            other => {
                let source = std::io::Error::other(other);
                Self::File { path: path.to_owned(), source }
            }
        }
    }
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Another dimension than the index's.
    #[error("query has {found} dimensions, the index has {expected}")]
    Dimension {
        /// Dimension of the index.
        expected: usize,
        /// Dimension of the query.
        found: usize,
    },
    /// Another component type than the index's.
    #[error("query is of type {found}, the index holds {expected}")]
    Type {
        /// Type of the index.
        expected: VectorType,
        /// Type of the query.
        found: VectorType,
    },
    /// NaN or infinity.
    #[error("query {row} holds NaN or infinity")]
    NotFinite {
        /// Row of the batch.
        row: usize,
    },
    /// A vector too long for distances in f32.
    #[error(
        "query {row} has a squared norm of {squared_norm:e}; distances are computed in f32, which holds {:e} at most",
        f32::MAX
    )]
    Norm {
        /// Row of the batch.
        row: usize,
        /// Sum of the squares of its components.
        squared_norm: f64,
    },
    /// A parameter out of range.
    #[error(transparent)]
    Params(#[from] ParamError),
    /// An allow-set names a row that the index does not hold.
    #[error("row {0} does not exist in this index")]
    UnknownRow(u64),
    /// The rows to search among were named by nodes that have other ids since a rewrite.
    #[error("the index was rewritten since the rows to search among were looked up: look again")]
    Renumbered,
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The thread's I/O queue cannot be made.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The memory limit leaves no room for lists as long as the search asks for.
    #[error(transparent)]
    Memory(#[from] OverLimit),
    /// The process was forked after the index was opened.
    #[error(
        "this index was opened by process {opened_by}, and this is its forked child {here}; open the index again in the child"
    )]
    Forked {
        /// Process that opened the index.
        opened_by: u32,
        /// This process.
        here: u32,
    },
}

impl QueryError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Search(e) => e.class(),
            Self::Io(e) => e.class(),
            Self::Memory(_) => ErrorClass::Retry,
            _ => ErrorClass::FixInput,
        }
    }
}
