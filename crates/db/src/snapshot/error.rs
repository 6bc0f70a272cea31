//! What can go wrong with snapshots and backups.

use std::io;
use std::path::{Path, PathBuf};

use pipeann_engine::format::FormatError;

use crate::catalog::CatalogError;
use crate::disk::DiskError;
use crate::docstore::StoreError;
use crate::flat::FlatError;
use crate::ids::ErrorClass;
use crate::scalar::ScalarError;
use crate::wal::WalError;

/// Why a snapshot, backup or restore was not made. There is none then: what was begun has another
/// name, and is removed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The directory holds something else, or nothing.
    #[error("{} is no database: it has no {file}", dir.display())]
    NotADatabase {
        /// The directory.
        dir: PathBuf,
        /// The file that every database has.
        file: &'static str,
    },
    /// The directory holds something else, or an unfinished backup.
    #[error("{} is no backup: it has no {file}", dir.display())]
    NotABackup {
        /// The directory.
        dir: PathBuf,
        /// The file that every backup has.
        file: &'static str,
    },
    /// There is something in the way.
    #[error("{} exists and is not an empty directory; name another one", dir.display())]
    Occupied {
        /// The directory that was to be made.
        dir: PathBuf,
    },
    /// The rows of the database are in memory only.
    #[error("a simulated database has no files to be taken")]
    InMemory,
    /// There is no place for the files' second names.
    #[error("{source}; name another directory for the pin, best on the same file system")]
    NoPlaceForPin {
        /// What the system said.
        source: DiskError,
    },
    /// Again and again, something was replaced while it was read.
    #[error("{} changes faster than it can be read; try again", path.display())]
    Busy {
        /// What changed last.
        path: PathBuf,
    },
    /// A file is not what the backup says.
    #[error("{} is damaged: {what}; use another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Written by a newer program.
    #[error("{} has version {found}; this program reads {supported}, use a newer one", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Version known here.
        supported: u32,
        /// Version found.
        found: u32,
    },
    /// The manifest of an index is damaged or newer.
    #[error("{}: {source}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] WalError),
    /// The row store cannot be read.
    #[error(transparent)]
    Rows(#[from] StoreError),
    /// Scalar indexes cannot be read.
    #[error(transparent)]
    Scalars(#[from] ScalarError),
    /// Vectors cannot be read.
    #[error(transparent)]
    Vectors(#[from] FlatError),
    /// The catalogue cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A directory cannot be read or made.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl SnapshotError {
    /// Whether to retry, to fix the input or the machine, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy { .. } => ErrorClass::Retry,
            Self::NotADatabase { .. }
            | Self::NotABackup { .. }
            | Self::Occupied { .. }
            | Self::InMemory
            | Self::NoPlaceForPin { .. }
            | Self::Version { .. } => ErrorClass::FixInput,
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem => ErrorClass::FixInput,
                _ => ErrorClass::Stop,
            },
            Self::Damaged { .. } | Self::Index { .. } => ErrorClass::Stop,
            Self::Log(error) => error.class(),
            Self::Rows(error) => error.class(),
            Self::Scalars(error) => error.class(),
            Self::Vectors(error) => error.class(),
            Self::Catalog(error) => error.class(),
            Self::Disk(error) => error.class(),
        }
    }

    /// For `map_err`: names the action and the file.
    pub(super) fn file<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

/// How an attempt to take a moment ended, where it did not succeed.
#[derive(Debug)]
pub(super) enum Missed {
    /// Something may have been replaced while it was read; the error if that goes on.
    Moved(SnapshotError),
    /// Another attempt would end the same.
    Failed(SnapshotError),
}

impl Missed {
    /// For `map_err`, where the source was read.
    pub(super) fn moved(error: impl Into<SnapshotError>) -> Self {
        Self::Moved(error.into())
    }
}

impl From<SnapshotError> for Missed {
    fn from(error: SnapshotError) -> Self {
        Self::Failed(error)
    }
}

/// Attempts to take one moment. A collection is replaced piece by piece some times a second at
/// most, and an attempt takes milliseconds.
const ATTEMPTS: usize = 50;

/// Repeats what `attempt` tries until nothing moves meanwhile.
pub(super) fn until_still<T>(
    mut attempt: impl FnMut() -> Result<T, Missed>,
) -> Result<T, SnapshotError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Missed::Failed(error)) => return Err(error),
            Err(Missed::Moved(error)) => tracing::debug!("trying again: {error}"),
        }
    }
    attempt().map_err(|(Missed::Moved(error) | Missed::Failed(error))| error)
}
