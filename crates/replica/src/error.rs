//! What can go wrong with a server of a cluster.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pipeann_db::database::DatabaseError;
use pipeann_db::disk::LockError;
use pipeann_store::{LogError, ObjectsError};

use crate::position::ReplicaFileError;

/// Why a server does not start, or a read is not answered.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The store.
    #[error(transparent)]
    Store(ObjectsError),
    /// The log in it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The database of this server.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The file that says how far it is.
    #[error(transparent)]
    File(#[from] ReplicaFileError),
    /// The directory cannot be had for a generation.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No room for a generation on the disk.
    #[error("the disk is full: {path} of a generation has no room; {source}")]
    DiskFull {
        /// The file.
        path: String,
        /// As the system says it.
        source: std::io::Error,
    },
    /// A generation is none of a database.
    #[error("generation {term}-{number} of the store is not one of a database: {why}")]
    Generation {
        /// The term that published it.
        term: u64,
        /// Its number in that term.
        number: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The log of the store has lost what this server has, and nothing is there in its place.
    #[error(
        "empty {}, and all that the store has comes from there: object {number} of term {term} is \
         applied there, and is in the log no more", dir.display()
    )]
    Diverged {
        /// The directory.
        dir: PathBuf,
        /// Number of the last object that is applied there.
        number: u64,
        /// The term of it.
        term: u64,
    },
    /// What the log holds cannot follow what this server has, also where it was read from its begin.
    #[error(
        "empty {}, and all comes from the store again: the log does not fit what is there, also \
         where it is read from its begin", dir.display()
    )]
    Misfit {
        /// The directory.
        dir: PathBuf,
    },
    /// A collection takes no changes any more until its database is opened anew.
    #[error("this server has to open its database anew: {why}")]
    Stopped {
        /// What has failed.
        why: String,
    },
    /// A file or a directory of this server.
    #[error("{}: {source}", path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// As the system says it.
        source: std::io::Error,
    },
    /// The file that has the requests that are applied.
    #[error("requests that are applied cannot be read: {0}")]
    Requests(std::io::Error),
    /// What the read asks for did not come in time.
    #[error("this server could not catch up with the log in time: {why}")]
    Behind {
        /// What it was doing.
        why: String,
    },
    /// No thread.
    #[error("no thread for the log: {0}")]
    Thread(std::io::Error),
}

impl From<ObjectsError> for ReplicaError {
    fn from(error: ObjectsError) -> Self {
        let full = |cause: &std::io::Error| {
            matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        };
        match error {
            ObjectsError::Local { path, cause } if full(&cause) => {
                Self::DiskFull { path, source: cause }
            }
            error => Self::Store(error),
        }
    }
}

impl ReplicaError {
    /// For what the system says of a path.
    pub(crate) fn files(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.display().to_string(), source }
            }
            _ => Self::Files { path: path.to_owned(), source },
        }
    }
}
