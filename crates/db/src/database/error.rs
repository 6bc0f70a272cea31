//! What can go wrong with a database, beside its collections.

use std::io::ErrorKind;
use std::path::PathBuf;

use pipeann_engine::memory::OverLimit;

use crate::access::AccessError;
use crate::catalog::CatalogError;
use crate::collection::CollectionError;
use crate::disk::{DiskError, LockError};
use crate::ids::ErrorClass;
use crate::replication::SharedLogError;
use crate::snapshot::SnapshotError;

/// Why a database is not opened, or a change of it not made.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The directory cannot be made or reached.
    #[error("cannot use {} for a database: {}", dir.display(), directory_fault(source))]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory holds something else.
    #[error("{} is no database: it has no {file}, and there is `{found}`", dir.display())]
    NotADatabase {
        /// The directory.
        dir: PathBuf,
        /// The file that every database has.
        file: &'static str,
        /// What was found instead.
        found: String,
    },
    /// It is one of several servers'.
    #[error(
        "{} belongs to a server of a cluster, and is served with its flags only: --cluster, --store",
        dir.display()
    )]
    OfSeveral {
        /// The directory.
        dir: PathBuf,
    },
    /// It is not one of several servers'.
    #[error(
        "{} holds a database that belongs to no cluster; give the cluster a directory of its own, \
         and write the rows there",
        dir.display()
    )]
    OfOne {
        /// The directory.
        dir: PathBuf,
    },
    /// Somebody has it open.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It was opened for reading only.
    #[error("{} is open for reading only; change it where it is open for writing", dir.display())]
    ReadOnly {
        /// The directory of the database.
        dir: PathBuf,
    },
    /// A snapshot, a backup or a pin cannot be made.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The catalogue refuses the change or cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The catalogue's file is refused when the database is opened.
    #[error("{}: {source}", path.display())]
    CatalogFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CatalogError,
    },
    /// Users and roles cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A directory cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The memory limit leaves no room for what all collections share.
    #[error("memory for rows that are read and written: {0}")]
    Memory(#[from] OverLimit),
    /// What the log that servers share says does not fit, or this server does not lead.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
    /// A collection cannot be made, opened or changed.
    #[error("collection `{name}`: {source}")]
    Collection {
        /// Its name.
        name: String,
        /// What is wrong.
        source: Box<CollectionError>,
    },
}

fn directory_fault(source: &std::io::Error) -> String {
    match source.kind() {
        // What making a directory says where a file is.
        ErrorKind::AlreadyExists => "it is a file; a database is a directory".to_owned(),
        _ => source.to_string(),
    }
}

impl DatabaseError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Directory { .. }
            | Self::NotADatabase { .. }
            | Self::OfSeveral { .. }
            | Self::OfOne { .. }
            | Self::ReadOnly { .. }
            | Self::Memory(_) => ErrorClass::FixInput,
            Self::Snapshot(error) => error.class(),
            Self::Lock(error) => error.class(),
            Self::Catalog(source) | Self::CatalogFile { source, .. } => source.class(),
            Self::Access(error) => error.class(),
            Self::Disk(error) => error.class(),
            Self::Shared(error) => error.class(),
            Self::Collection { source, .. } => source.class(),
        }
    }

    /// For `map_err`: names the collection.
    pub(super) fn of<'a>(name: &'a str) -> impl Fn(CollectionError) -> Self + use<'a> {
        move |source| Self::Collection { name: name.to_owned(), source: Box::new(source) }
    }
}
