//! What can go wrong with a server of a cluster.

use pipeann_db::database::DatabaseError;
use pipeann_store::{LogError, ObjectsError};

use crate::position::ReplicaFileError;

/// Why a server does not start, or a read is not answered.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The store.
    #[error(transparent)]
    Store(#[from] ObjectsError),
    /// The log in it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The database of this server.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The file that says how far it is.
    #[error(transparent)]
    File(#[from] ReplicaFileError),
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
