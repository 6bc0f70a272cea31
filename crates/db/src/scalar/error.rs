//! What can go wrong with the scalar indexes.

use std::io;
use std::path::{Path, PathBuf};

use pipeann_engine::memory::OverLimit;

use crate::files::class_of;
use crate::ids::ErrorClass;

/// Why the indexes are refused, or cannot be read. None of this loses a row: what is damaged is
/// made anew from the rows by the next opening.
#[derive(Debug, thiserror::Error)]
pub enum ScalarError {
    /// The indexes belong to another collection.
    #[error("{} belongs to collection {found}, not to {expected}", path.display())]
    Foreign {
        /// The file that says so.
        path: PathBuf,
        /// Identity of the collection that opens it, in hexadecimal.
        expected: String,
        /// Identity found.
        found: String,
    },
    /// Written by another version.
    #[error("{} has format version {found}; this build reads version {supported} only", path.display())]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// A file is missing, cut off or has other bytes than were written.
    #[error("{} is damaged: {what}; open the collection again, which makes the index anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, and where.
        what: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Too much waits to be flushed.
    #[error("{held} bytes of scalar indexes wait to be flushed, the limit is {limit}; flush first")]
    BufferFull {
        /// Bytes waiting.
        held: u64,
        /// The limit.
        limit: u64,
    },
    /// What waits to be flushed, or what finds entries on disk, does not fit the memory limit.
    #[error(transparent)]
    Memory(#[from] OverLimit),
}

impl ScalarError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { source, .. } => class_of(source),
            Self::BufferFull { .. } => ErrorClass::Retry,
            Self::Foreign { .. } | Self::Version { .. } | Self::Memory(_) => ErrorClass::FixInput,
            Self::Damaged { .. } => ErrorClass::Stop,
        }
    }

    /// Whether the files are of no use, and have to be made anew.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Foreign { .. } | Self::Version { .. } | Self::Damaged { .. })
    }

    /// For `map_err`: names the action and the file.
    pub(super) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// As [`io`](Self::io) for reading, where a file that ends too early or is gone is damage.
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged(path, "it ends too early"),
            io::ErrorKind::NotFound => Self::damaged(path, "it is missing"),
            _ => Self::Io { action: "read", path: path.to_owned(), source },
        }
    }

    /// A finding about a file's bytes.
    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
