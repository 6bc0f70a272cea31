//! What can go wrong with vectors that are in no graph.

use std::io;
use std::path::{Path, PathBuf};

use pipeann_engine::memory::OverLimit;

use crate::asker::Gone;
use crate::files::{class_of, is_no_room};
use crate::ids::{ErrorClass, RowId, VectorType};

/// Why the vectors are refused, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FlatError {
    /// Another process, or another part of this one, has the vectors open.
    #[error("the vectors in {} are open elsewhere; close them there first", dir.display())]
    Locked {
        /// Their directory.
        dir: PathBuf,
    },
    /// The directory holds files, but no vectors.
    #[error("{} is not empty and holds no vectors (no {file})", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
        /// The file that every store has.
        file: &'static str,
    },
    /// The vectors belong to another field.
    #[error("{} belongs to field {found}, not to {expected}", path.display())]
    Foreign {
        /// The file that says so.
        path: PathBuf,
        /// Identity of the field that opens it, in hexadecimal.
        expected: String,
        /// Identity found.
        found: String,
    },
    /// Vectors of another dimension or type.
    #[error("vectors of {} {}, where {} {} are expected", found.0, found.1, expected.0, expected.1)]
    Shape {
        /// Dimension and type found.
        found: (usize, VectorType),
        /// Dimension and type of the field.
        expected: (usize, VectorType),
    },
    /// Written by another version.
    #[error(
        "{} has format version {found}; this build reads version {supported} only",
        path.display()
    )]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// A file is missing, cut off or has other bytes than were written.
    #[error("{} is damaged: {what}; restore it from a backup", path.display())]
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
    /// A row that has no vector here.
    #[error("row {} has no vector in {}; restore the collection from a backup", row.0, dir.display())]
    Missing {
        /// Directory of the vectors.
        dir: PathBuf,
        /// The row.
        row: RowId,
    },
    /// The tail is full.
    #[error("{held} bytes of vectors wait to be flushed, the limit is {limit}; flush first")]
    TailFull {
        /// Bytes waiting.
        held: u64,
        /// The limit.
        limit: u64,
    },
    /// The tail, or what finds blocks on disk, does not fit the memory limit.
    #[error(transparent)]
    Memory(#[from] OverLimit),
    /// Nobody waits for the answer any more.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl FlatError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Locked { .. } | Self::TailFull { .. } | Self::Gone(_) => ErrorClass::Retry,
            Self::Io { source, .. } => class_of(source),
            Self::NoStore { .. }
            | Self::Foreign { .. }
            | Self::Shape { .. }
            | Self::Version { .. }
            | Self::Memory(_) => ErrorClass::FixInput,
            Self::Damaged { .. } | Self::Missing { .. } => ErrorClass::Stop,
        }
    }

    /// Whether the disk, or a quota, has no room.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_no_room(source))
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
