//! What can go wrong with a row store.

use std::io;
use std::path::{Path, PathBuf};

use pipeann_engine::memory::OverLimit;

use crate::files::{class_of, is_no_room};
use crate::ids::ErrorClass;

/// Why the row store refuses or fails.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another part of this one, has the store open.
    #[error("the row store {} is open elsewhere; close it there first", dir.display())]
    Locked {
        /// Directory of the store.
        dir: PathBuf,
    },
    /// The directory holds files, but no row store.
    #[error("{} is not empty and holds no row store (no {file})", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
        /// The file that every store has.
        file: &'static str,
    },
    /// The row store belongs to another collection.
    #[error("the row store {} belongs to collection {found}, not to {expected}", dir.display())]
    Foreign {
        /// Directory of the store.
        dir: PathBuf,
        /// Identity of the collection that opens it, in hexadecimal.
        expected: String,
        /// Identity found.
        found: String,
    },
    /// Written by a newer version.
    #[error(
        "{} has format version {found}; this build reads up to {supported}, use a newer one",
        path.display()
    )]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version that this build reads.
        supported: u32,
    },
    /// A file is missing, cut off or has other bytes than were written.
    #[error(
        "the row store {} is damaged: {what}; restore it from a backup, or rebuild it from a \
         complete log",
        dir.display()
    )]
    Damaged {
        /// Directory of the store.
        dir: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file system refused.
    #[error("cannot {action} the row store {}: {source}", dir.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Directory of the store.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A primary key that cannot be stored.
    #[error("the primary key of row {row} has {bytes} bytes; the limit is {limit}")]
    KeyTooLong {
        /// The row.
        row: u64,
        /// Length of its key.
        bytes: usize,
        /// The longest that can be stored.
        limit: usize,
    },
    /// A row that cannot be stored.
    #[error("row {row} has {bytes} bytes; the limit is {limit}")]
    BlobTooLong {
        /// The row.
        row: u64,
        /// Length of its blob.
        bytes: usize,
        /// The longest that can be stored.
        limit: usize,
    },
    /// The write buffer is full.
    #[error("{buffered} bytes of rows wait to be flushed, the limit is {limit}; flush first")]
    BufferFull {
        /// Bytes waiting.
        buffered: u64,
        /// The limit.
        limit: u64,
    },
    /// Cache and write buffer do not fit the memory limit.
    #[error(transparent)]
    Memory(#[from] OverLimit),
}

impl StoreError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Locked { .. } | Self::BufferFull { .. } => ErrorClass::Retry,
            Self::Io { source, .. } => class_of(source),
            Self::NoStore { .. }
            | Self::Foreign { .. }
            | Self::Version { .. }
            | Self::KeyTooLong { .. }
            | Self::BlobTooLong { .. }
            | Self::Memory(_) => ErrorClass::FixInput,
            Self::Damaged { .. } => ErrorClass::Stop,
        }
    }

    /// Whether the disk, or a quota, has no room.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_no_room(source))
    }

    /// For `map_err`: names the action and the store.
    pub(super) fn io<'a>(
        action: &'static str,
        dir: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, dir: dir.to_owned(), source }
    }

    /// A finding about the store's bytes.
    pub(super) fn damaged(dir: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { dir: dir.to_owned(), what: what.into() }
    }
}
