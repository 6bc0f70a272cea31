//! What the door asks of the other servers, answered by this server's replica and its members.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pipeann_db::catalog::CollectionId;
use pipeann_members::{BootClock as _, Boottime, ServerInfo};
use pipeann_milvus::{
    CatchUp, LeaderAt, MetricFamily, PeerKey, PeerTls, Peers, PeersError, ReadTime, ServerAt,
    SharedLogEnd, peers_waiting,
};
use pipeann_replica::{
    ClusterMembership, Elected, Election, ReadFreshness as Wanted, Replica, ReplicaError,
};
use pipeann_store::Position;
use tokio::sync::Semaphore;

use super::figures::{self, FiguredServer};

/// See the module's description.
pub(crate) struct ClusterPeers {
    replica: Arc<Replica>,
    /// Without it this server is the only one.
    members: Option<Arc<ClusterMembership>>,
    /// By what other servers are known, where connections are encrypted.
    tls: Option<Arc<PeerTls>>,
    /// When this server began to answer.
    began: Instant,
    /// The newest timestamp of a change that was sent on from here; 0 before the first.
    written: AtomicU64,
    /// For those that wait for the replica, each on a thread.
    waiting: Arc<Semaphore>,
    /// Whether others that ask this server how far it is are answered by itself.
    is_asked: AtomicBool,
    /// The newest of this server's leases under which it has looked at the log; 0 before the first.
    looked_under: AtomicU64,
}

impl fmt::Debug for ClusterPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPeers").field("replica", &self.replica).finish_non_exhaustive()
    }
}

impl ClusterPeers {
    /// What is asked of a server that nobody asks yet how far it is.
    pub(super) fn new(
        replica: Arc<Replica>,
        members: Option<Arc<ClusterMembership>>,
        tls: Option<Arc<PeerTls>>,
    ) -> Self {
        Self {
            replica,
            members,
            tls,
            began: Instant::now(),
            written: AtomicU64::new(0),
            waiting: Arc::new(Semaphore::new(peers_waiting())),
            is_asked: AtomicBool::new(false),
            looked_under: AtomicU64::new(0),
        }
    }

    /// From now on others learn from this server how far it is, and wait for it. It looks at the log at once,
    /// since until now they did not.
    pub(crate) fn begin(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        self.replica.nudge();
    }

    /// The lease under which others wait for this server now, before they answer what takes something away.
    fn waited_for(&self) -> Option<u64> {
        if self.is_asked.load(Ordering::SeqCst) { self.members.as_ref()?.lease() } else { None }
    }

    /// Whether something may be gone of which this server has not heard, since nobody has waited for it: it
    /// has not looked at the log under the lease by which it is waited for now, if there is one.
    fn may_be_passed_by(&self, lease: Option<u64>) -> bool {
        let looked = || self.looked_under.load(Ordering::SeqCst);
        self.members.is_some() && lease.is_none_or(|lease| looked() < lease)
    }

    fn at(&self, address: &str) -> ServerAt {
        server_at(address, self.tls.as_ref())
    }

    /// Waits for the replica on a thread that may wait, when one is free for that: while the store does not
    /// answer there may be more who wait than threads, on which calls are answered too.
    fn waits(
        &self,
        deadline: Instant,
        wait: impl FnOnce(&Replica) -> Result<(), ReplicaError> + Send + 'static,
    ) -> CatchUp<'_> {
        let (replica, waiting) = (Arc::clone(&self.replica), Arc::clone(&self.waiting));
        Box::pin(async move {
            let behind = |why: String| PeersError::Behind(why);
            let free = tokio::time::timeout_at(deadline.into(), waiting.acquire_owned());
            let many = || behind("too many calls wait for the shared log".to_owned());
            let free = free.await.map_err(|_| many())?;
            // The thread goes on when nobody waits for it any more.
            let waited = tokio::task::spawn_blocking(move || {
                let _free = free;
                wait(&replica)
            });
            let waited = waited.await.map_err(|error| behind(error.to_string()))?;
            waited.map_err(|error| match error {
                ReplicaError::Log(error) => PeersError::NoLeader(error.to_string()),
                error => behind(error.to_string()),
            })
        })
    }

    fn figured(&self) -> FiguredServer<'_> {
        let (replica, members) = (&*self.replica, self.members.as_deref());
        FiguredServer { replica, members, began: self.began }
    }
}

/// Why a server answers nothing itself.
const NO_DATA: &str = "this server has not all data yet";

/// The others, as a server knows them that has not all data yet.
pub(super) struct DistantPeers {
    pub(super) members: Arc<ClusterMembership>,
    pub(super) tls: Option<Arc<PeerTls>>,
}

impl fmt::Debug for DistantPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistantPeers").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Peers for DistantPeers {
    fn leader(&self) -> LeaderAt {
        match self.members.elected() {
            Elected::Other { address } => LeaderAt::There(server_at(&address, self.tls.as_ref())),
            Elected::Me => LeaderAt::Unknown(NO_DATA.into()),
            Elected::Nobody { why } => LeaderAt::Unknown(why),
        }
    }

    fn confirm_lead(&self, _deadline: Instant) -> CatchUp<'_> {
        Box::pin(std::future::ready(Err(PeersError::Behind(NO_DATA.into()))))
    }

    fn catch_up(
        &self,
        _collection: Option<CollectionId>,
        _read: ReadTime,
        _deadline: Instant,
    ) -> CatchUp<'_> {
        Box::pin(std::future::ready(Err(PeersError::Behind(NO_DATA.into()))))
    }

    fn timestamp(&self) -> u64 {
        0
    }

    fn wrote(&self, _timestamp: u64) {}

    fn others(&self) -> Vec<ServerAt> {
        let at = |server: &ServerInfo| server_at(&server.address, self.tls.as_ref());
        self.members.others().iter().map(at).collect()
    }

    fn look(&self) {}

    fn key(&self) -> Option<PeerKey> {
        peer_key(self.members.info())
    }

    fn key_of(&self, server: &ServerAt) -> Option<PeerKey> {
        key_of(&self.members, self.tls.as_ref(), server)
    }

    fn are_all_keyed(&self) -> bool {
        are_all_keyed(&self.members)
    }

    fn leads_up_to(&self) -> Option<SharedLogEnd> {
        None
    }

    fn moment(&self) -> Duration {
        Boottime.now()
    }

    fn heard(&self, _: SharedLogEnd, _: Duration) {}

    fn number(&self) -> u8 {
        self.members.number()
    }

    fn server(&self, number: u8) -> Option<ServerAt> {
        Some(server_at(&self.members.server(number)?.address, self.tls.as_ref()))
    }
}

/// What a server is shown by others, where it has told it.
fn peer_key(server: &ServerInfo) -> Option<PeerKey> {
    let text = server.key.text();
    (!text.is_empty()).then(|| PeerKey::new(text))
}

/// What the server at a place wants to be shown, where it is there and has told that.
fn key_of(
    members: &ClusterMembership,
    tls: Option<&Arc<PeerTls>>,
    at: &ServerAt,
) -> Option<PeerKey> {
    let others = members.others();
    let there = others.iter().filter(|server| server_at(&server.address, tls).uri == at.uri);
    // The lease of one that was there before may still run.
    peer_key(there.max_by_key(|server| server.started_ms)?)
}

/// Whether all servers have told what they want to be shown. Those of a version before have nothing to tell.
fn are_all_keyed(members: &ClusterMembership) -> bool {
    let others = members.others();
    others.iter().chain([members.info()]).all(|server| peer_key(server).is_some())
}

fn server_at(address: &str, tls: Option<&Arc<PeerTls>>) -> ServerAt {
    let scheme = if tls.is_some() { "https" } else { "http" };
    ServerAt { uri: format!("{scheme}://{address}"), tls: tls.cloned() }
}

/// What a read asks for, at a server that has sent on changes up to a timestamp.
fn wanted(read: ReadTime, written: u64) -> Wanted {
    match read {
        ReadTime::Latest => Wanted::Latest,
        ReadTime::AtLeast(timestamp) => Wanted::AtLeast(timestamp),
        ReadTime::Bounded { staleness_ms, at_least } => {
            let staleness = Duration::from_millis(staleness_ms);
            Wanted::Bounded { staleness, at_least: at_least.max(written) }
        }
        ReadTime::Any => Wanted::Any,
    }
}

impl Peers for ClusterPeers {
    fn leader(&self) -> LeaderAt {
        match self.replica.elected() {
            Elected::Me => LeaderAt::Here,
            Elected::Other { address } => LeaderAt::There(self.at(&address)),
            Elected::Nobody { why } => LeaderAt::Unknown(why),
        }
    }

    fn confirm_lead(&self, deadline: Instant) -> CatchUp<'_> {
        // The only one leads as long as it writes.
        if self.members.is_none() || self.replica.leads_up_to().is_some() {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.waits(deadline, move |replica| replica.confirm_lead(deadline))
    }

    fn catch_up(
        &self,
        _collection: Option<CollectionId>,
        read: ReadTime,
        deadline: Instant,
    ) -> CatchUp<'_> {
        let lease = self.waited_for();
        let wanted = if self.may_be_passed_by(lease) {
            Wanted::Latest
        } else {
            wanted(read, self.written.load(Ordering::Relaxed))
        };
        let looked = move || {
            if let (Wanted::Latest, Some(lease)) = (wanted, lease) {
                self.looked_under.fetch_max(lease, Ordering::SeqCst);
            }
        };
        if self.replica.has(wanted) {
            looked();
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move {
            self.waits(deadline, move |replica| replica.catch_up(wanted, deadline)).await?;
            looked();
            Ok(())
        })
    }

    fn timestamp(&self) -> u64 {
        self.replica.timestamp()
    }

    fn wrote(&self, timestamp: u64) {
        self.written.fetch_max(timestamp, Ordering::Relaxed);
    }

    fn others(&self) -> Vec<ServerAt> {
        let others = self.members.as_ref().map_or_else(Vec::new, |members| members.others());
        others.iter().map(|server| self.at(&server.address)).collect()
    }

    fn look(&self) {
        self.replica.nudge();
    }

    fn leads_up_to(&self) -> Option<SharedLogEnd> {
        let Position { term, number } = self.replica.leads_up_to()?;
        Some(SharedLogEnd { term, number })
    }

    fn moment(&self) -> Duration {
        self.replica.moment()
    }

    fn heard(&self, SharedLogEnd { term, number }: SharedLogEnd, asked: Duration) {
        self.replica.heard(Position { term, number }, asked);
    }

    fn number(&self) -> u8 {
        self.members.as_ref().map_or(0, |members| members.number())
    }

    fn key(&self) -> Option<PeerKey> {
        peer_key(self.members.as_ref()?.info())
    }

    fn key_of(&self, server: &ServerAt) -> Option<PeerKey> {
        key_of(self.members.as_ref()?, self.tls.as_ref(), server)
    }

    fn are_all_keyed(&self) -> bool {
        // The only one is sent nothing by others.
        self.members.as_ref().is_none_or(|members| are_all_keyed(members))
    }

    fn leading_peer(&self) -> Option<(ServerAt, PeerKey)> {
        let Elected::Other { address } = self.replica.elected() else { return None };
        let others = self.members.as_ref()?.others();
        let leader = others.iter().find(|server| server.address == address)?;
        Some((self.at(&address), peer_key(leader)?))
    }

    fn server(&self, number: u8) -> Option<ServerAt> {
        let server = self.members.as_ref()?.server(number)?;
        Some(self.at(&server.address))
    }

    fn families(&self) -> Vec<MetricFamily> {
        figures::families(&self.figured())
    }

    fn figures(&self) -> serde_json::Value {
        figures::figures(&self.figured())
    }

    fn is_ending(&self) -> bool {
        self.replica.is_closing()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pipeann_members::memory::SharedMemory;
    use pipeann_members::{HandClock, ServerKey, SharedFormats};
    use pipeann_replica::ReplicaOptions;
    use pipeann_store::ClusterStore;
    use uuid::Uuid;

    use super::*;
    use crate::opening::database_options;

    const TTL: Duration = Duration::from_secs(60);

    fn info(id: u128, key: ServerKey) -> ServerInfo {
        let at = format!("10.0.0.{id}:1");
        ServerInfo {
            id: Uuid::from_u128(id),
            name: format!("server {id}"),
            address: at.clone(),
            peer_address: at,
            version: "0.1.0".into(),
            formats: SharedFormats::FIRST,
            regions: Vec::new(),
            key,
            guards: None,
            started_ms: 1,
        }
    }

    /// A server that follows a log that nobody writes.
    fn following(root: &Path, memory: &Arc<SharedMemory>, cluster: Uuid) -> ClusterPeers {
        let server = info(1, ServerKey::default());
        let id = server.id;
        let members = ClusterMembership::join(memory.connect(cluster).unwrap(), server).unwrap();
        // It never leads.
        members.hand_over().unwrap();
        let members = Arc::new(members);
        let url = format!("file://{}", root.join("store").display());
        let store = ClusterStore::open(&url, "test").unwrap();
        let election = Arc::clone(&members) as Arc<dyn Election>;
        let options = ReplicaOptions::new(store, "server 1".into(), election);
        let replica = Replica::open(&root.join("data"), database_options(None), options, id);
        ClusterPeers::new(Arc::new(replica.unwrap()), Some(members), None)
    }

    #[test]
    fn a_server_that_nobody_waits_for_looks_at_the_log_before_it_answers_anything() {
        let (root, cluster) = (tempfile::tempdir().unwrap(), Uuid::from_u128(9));
        let clock = Arc::new(HandClock::default());
        let memory = SharedMemory::new(cluster, TTL, Arc::clone(&clock) as _);
        let peers = following(root.path(), &memory, cluster);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let reads = |for_ms: u64| {
            let deadline = Instant::now() + Duration::from_millis(for_ms);
            runtime.block_on(async { peers.catch_up(None, ReadTime::Any, deadline).await.is_ok() })
        };
        let with_store = || reads(60_000);
        let without_store = || {
            let names = [root.path().join("store"), root.path().join("away")];
            std::fs::rename(&names[0], &names[1]).unwrap();
            let answered = reads(300);
            std::fs::rename(&names[1], &names[0]).unwrap();
            answered
        };
        // It does not say yet how far it is.
        assert!(!without_store() && with_store() && !without_store());
        peers.begin();
        assert!(!without_store() && with_store());
        assert!(without_store(), "others wait for it");
        // Out of reach of etcd: reads go on, by the log.
        memory.cut_off(Uuid::from_u128(1), true);
        clock.advance(TTL);
        assert!(!without_store() && with_store() && !without_store());
        memory.cut_off(Uuid::from_u128(1), false);
        // It was passed by meanwhile.
        assert!(!without_store() && with_store());
        assert!(without_store(), "others wait for it again");
    }

    #[test]
    fn keys_of_others_are_known_and_one_without_a_key_is_noticed() {
        let cluster = Uuid::from_u128(9);
        let memory = SharedMemory::new(cluster, TTL, Arc::new(Boottime));
        let join = |id: u128, key: ServerKey| {
            let end = memory.connect(cluster).unwrap();
            let members = ClusterMembership::join(end, info(id, key));
            DistantPeers { members: Arc::new(members.unwrap()), tls: None }
        };
        let (one, two) = (join(1, ServerKey::draw()), join(2, ServerKey::draw()));
        let key = |peers: &DistantPeers| peers.key().unwrap().text().to_owned();
        assert_ne!(key(&one), key(&two));
        let of_two = one.key_of(&server_at("10.0.0.2:1", None)).unwrap();
        assert_eq!(of_two.text(), key(&two));
        assert!(one.key_of(&server_at("10.0.0.3:1", None)).is_none());
        assert!(one.are_all_keyed() && two.are_all_keyed());
        let before = join(3, ServerKey::default());
        assert!(!one.are_all_keyed() && !before.are_all_keyed() && before.key().is_none());
        assert!(one.key_of(&server_at("10.0.0.3:1", None)).is_none());
        drop(before);
        assert!(one.are_all_keyed());
    }

    #[test]
    fn bounded_reads_see_what_was_sent_on_before_and_others_what_they_ask_for() {
        let bounded = |at_least| ReadTime::Bounded { staleness_ms: 5_000, at_least };
        let staleness = Duration::from_secs(5);
        for (asked, sent_on, at_least) in [(0, 0, 0), (0, 9, 9), (7, 9, 9), (11, 9, 11)] {
            assert_eq!(wanted(bounded(asked), sent_on), Wanted::Bounded { staleness, at_least });
        }
        assert_eq!(wanted(ReadTime::AtLeast(7), 9), Wanted::AtLeast(7));
        assert_eq!(wanted(ReadTime::Any, 9), Wanted::Any);
    }
}
