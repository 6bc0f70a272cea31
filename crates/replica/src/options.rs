//! Settings of a server of a cluster.

use std::sync::Arc;
use std::time::Duration;

use pipeann_store::ClusterStore;

use crate::election::Election;

/// How a server takes part.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Where the log is.
    pub store: ClusterStore,
    /// By which the log names it to people.
    pub name: String,
    /// Who should lead.
    pub election: Arc<dyn Election>,
    /// A server that follows looks at the log so often, where no read asks for it.
    pub poll: Duration,
    /// What was applied is noted on disk so often, so that a start reads no more of the log again.
    pub note: Duration,
}

impl ReplicaOptions {
    /// Looks at the log fifty times a second in a directory, and once in a bucket; notes every five
    /// seconds.
    pub fn new(store: ClusterStore, name: String, election: Arc<dyn Election>) -> Self {
        let poll = Duration::from_millis(if store.is_local() { 20 } else { 1_000 });
        Self { store, name, election, poll, note: Duration::from_secs(5) }
    }
}
