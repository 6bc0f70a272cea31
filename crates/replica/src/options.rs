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
    /// And so often where nothing has come for a while. Below the staleness of bounded reads, or they would
    /// ask the store each time.
    pub idle_poll: Duration,
    /// What was applied is noted on disk so often, so that a start reads no more of the log again.
    pub note: Duration,
}

impl ReplicaOptions {
    /// Looks at the log fifty times a second in a directory; once in a bucket, and at rest every 2.5 s,
    /// since each look is paid for. Notes every five seconds.
    pub fn new(store: ClusterStore, name: String, election: Arc<dyn Election>) -> Self {
        let (poll, idle_poll) = if store.is_local() { (20, 20) } else { (1_000, 2_500) };
        let [poll, idle_poll] = [poll, idle_poll].map(Duration::from_millis);
        Self { store, name, election, poll, idle_poll, note: Duration::from_secs(5) }
    }
}
