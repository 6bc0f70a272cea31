//! A server of a cluster: its database, and the log in an object store that all servers share.
//!
//! One server leads: its changes are objects of the log before they are written on its disk. The others
//! follow: they read the log and apply it. Any of them can lead next, since all that was acknowledged
//! is in the store. Who should lead is told by an [`Election`]; who may is decided by the log alone,
//! which refuses whoever led before. A disk that is lost costs time and no row.
//!
//! Deliberately absent: consensus, a clock that any promise of the log depends on, the network between servers.
//!
//! The whole database has one log, so that a reader asks the store one question whatever the number of
//! collections, and a row never comes before its schema.

mod codec;
mod commits;
mod drain;
mod election;
mod error;
mod folder;
mod group;
mod header;
mod held;
mod joining;
mod membership;
mod numbers;
mod objects;
mod options;
mod position;
mod publishing;
mod replica;
mod requests_file;
mod restore;
mod state;
mod store_clock;
mod time;
mod work;

pub use codec::{
    EncodedChange, KIND_ACCESS, KIND_CATALOG, KIND_RECORD, KIND_REQUEST, decode, encode,
};
pub use commits::{CommitCounts, SizeCounts};
pub use drain::{EndWatch, ask_to_drain, forget_drain};
pub use election::{Alone, Elected, Election};
pub use error::ReplicaError;
pub use header::GenerationHeader;
pub use held::PinnedGeneration;
pub use joining::{JoinedGeneration, ServerDirectory};
pub use membership::{ClusterMembership, FORMATS};
pub use options::ReplicaOptions;
pub use position::{ReplicaFile, ReplicaFileError};
pub use replica::Replica;
pub use restore::{RestoreError, RestoredLog, restore_into_store, restore_to_directory};
pub use state::{ReadFreshness, ReplicaStatus};
pub use time::{ServerTime, SimulatedTime};

#[cfg(test)]
mod planted;
#[cfg(test)]
mod publishing_tests;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
