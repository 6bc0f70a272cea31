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
    /// From the begin of one put to that of the next, where changes wait: puts are paid for. One that comes
    /// after a rest is put at once.
    pub put_gap: Duration,
    /// What was applied is noted on disk so often, so that a start reads no more of the log again.
    pub note: Duration,
}

impl ReplicaOptions {
    /// Looks at the log fifty times a second in a directory; once in a bucket, and at rest every 2.5 s,
    /// since each look is paid for, and puts at most twenty objects a second there. Notes every five
    /// seconds.
    pub fn new(store: ClusterStore, name: String, election: Arc<dyn Election>) -> Self {
        let times = if store.is_local() { [20, 20, 0] } else { [1_000, 2_500, 50] };
        let [poll, idle_poll, put_gap] = times.map(Duration::from_millis);
        Self { store, name, election, poll, idle_poll, put_gap, note: Duration::from_secs(5) }
    }
}
