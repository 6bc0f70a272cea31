//! Settings of a server of a cluster.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use pipeann_store::ClusterStore;

use crate::election::Election;
use crate::time::ServerTime;

/// So much of the log is read in about the time that a generation's changes take to be fetched.
const GENERATION_BYTES: u64 = 256 << 20;
const OBJECT_CHANGES: usize = 64 << 10;
const GC_GRACE: Duration = Duration::from_secs(3600);

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
    /// The most changes of one object; those of a call that has more are put as several.
    pub object_changes: usize,
    /// What was applied is noted on disk so often, so that a start reads no more of the log again.
    pub note: Duration,
    /// The leader publishes a generation after so many bytes of the log.
    pub generation_bytes: u64,
    /// The log is kept for so long, and a generation before it, so that any moment since can be restored.
    pub keep_log: Duration,
    /// What is younger stays in the store, though nobody wants it.
    pub gc_grace: Duration,
    /// Is told when this server has to be opened anew: the log does not go on from what it has, so that a
    /// generation is to take its place, or a collection takes no changes any more since the disk has failed.
    pub cut_off: Option<SyncSender<()>>,
    /// Whoever has to be opened anew since the disk has failed says so no sooner after it was opened: the
    /// disk may fail again.
    pub reopen_after: Duration,
    /// How often its clock is compared with the store's, whose time it goes by where its own is far from that.
    pub compare_clock: Option<Duration>,
    /// The time it goes by.
    pub time: ServerTime,
    /// What a simulation breaks.
    #[cfg(test)]
    pub(crate) planted: Option<crate::planted::ServerFault>,
}

impl ReplicaOptions {
    /// Publishes after 256 MiB. Looks at the log fifty times a second in a directory; once in a bucket, and
    /// at rest every 2.5 s, since each look is paid for, and puts at most twenty objects a second there.
    /// Notes every five seconds. Goes by the clock that it is given.
    pub fn new(store: ClusterStore, name: String, election: Arc<dyn Election>) -> Self {
        let times = if store.is_local() { [20, 20, 0] } else { [1_000, 2_500, 50] };
        let [poll, idle_poll, put_gap] = times.map(Duration::from_millis);
        Self {
            store,
            name,
            election,
            poll,
            idle_poll,
            put_gap,
            object_changes: OBJECT_CHANGES,
            note: Duration::from_secs(5),
            generation_bytes: GENERATION_BYTES,
            keep_log: Duration::ZERO,
            gc_grace: GC_GRACE,
            cut_off: None,
            reopen_after: Duration::from_secs(10),
            compare_clock: None,
            time: ServerTime::Machine,
            #[cfg(test)]
            planted: None,
        }
    }
}
