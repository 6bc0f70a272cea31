//! What a server of a test knows of the others, and two such servers.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeann_db::catalog::CollectionId;
use pipeann_milvus::{
    AccessLog, CallEnded, CatchUp, LeaderAt, PeerKey, Peers, PeersError, ReadTime, ServeOptions,
    ServerAt, SharedLogEnd,
};

use crate::served::Served;

/// Done when the catalogue is asked for.
type Arrival = Box<dyn FnOnce() + Send>;

/// What a server knows of the others, as the test says it.
pub(super) struct Others {
    number: u8,
    leader: Mutex<LeaderAt>,
    /// What is said before that, once each.
    before: Mutex<Vec<LeaderAt>>,
    servers: Mutex<HashMap<u8, ServerAt>>,
    time: Arc<AtomicU64>,
    asked: Mutex<Vec<(Option<CollectionId>, ReadTime)>>,
    arrives: Mutex<Option<Arrival>>,
    /// What is said to be applied, where that is not all.
    applied: Mutex<Option<u64>>,
    looked: AtomicU64,
    written: AtomicU64,
    end: Mutex<Option<SharedLogEnd>>,
    heard: Mutex<Vec<SharedLogEnd>>,
    fails: Mutex<Option<PeersError>>,
    /// How long whoever reads rows waits for them.
    holds: Mutex<Option<Duration>>,
    key: Mutex<Option<PeerKey>>,
    /// What others want to be shown, by where they are, and whether all have told that.
    keys: Mutex<HashMap<String, PeerKey>>,
    all_keyed: AtomicBool,
    /// Who leads, as it finds out when it is to be certain.
    unsure: Mutex<Option<LeaderAt>>,
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Others").field(&self.number).finish()
    }
}

impl Others {
    pub(super) fn new(number: u8, leader: LeaderAt) -> Arc<Self> {
        Self::at(number, leader, Arc::new(AtomicU64::new(1_700_000_000_000 << 18)))
    }

    fn at(number: u8, leader: LeaderAt, time: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            number,
            leader: Mutex::new(leader),
            before: Mutex::default(),
            servers: Mutex::default(),
            time,
            asked: Mutex::default(),
            arrives: Mutex::default(),
            applied: Mutex::default(),
            looked: AtomicU64::new(0),
            written: AtomicU64::new(0),
            end: Mutex::default(),
            heard: Mutex::default(),
            fails: Mutex::default(),
            holds: Mutex::default(),
            key: Mutex::default(),
            keys: Mutex::default(),
            all_keyed: AtomicBool::new(false),
            unsure: Mutex::default(),
        })
    }

    /// What others have to show it from now on.
    pub(super) fn set_key(&self, key: Option<PeerKey>) {
        *self.key.lock().unwrap() = key;
    }

    /// Knows what another server wants to be shown.
    pub(super) fn learns_key(&self, server: &ServerAt, key: PeerKey) {
        self.keys.lock().unwrap().insert(server.uri.clone(), key);
    }

    /// Whether all servers have told what they want to be shown.
    pub(super) fn all_keyed(&self, are: bool) {
        self.all_keyed.store(are, Ordering::Relaxed);
    }

    pub(super) fn lead(&self, leader: LeaderAt) {
        *self.leader.lock().unwrap() = leader;
    }

    /// Says this once before it says who leads.
    pub(super) fn leads_once(&self, leader: LeaderAt) {
        self.before.lock().unwrap().push(leader);
    }

    pub(super) fn set_server(&self, number: u8, server: Option<ServerAt>) {
        let mut servers = self.servers.lock().unwrap();
        match server {
            Some(server) => drop(servers.insert(number, server)),
            None => drop(servers.remove(&number)),
        }
    }

    /// What was asked for since the last time.
    pub(super) fn asked(&self) -> Vec<(Option<CollectionId>, ReadTime)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// What comes when the catalogue is asked for next.
    pub(super) fn arrives(&self, arrival: impl FnOnce() + Send + 'static) {
        *self.arrives.lock().unwrap() = Some(Box::new(arrival));
    }

    /// Says that this is applied, and no more; or all.
    pub(super) fn has_applied(&self, timestamp: Option<u64>) {
        *self.applied.lock().unwrap() = timestamp;
    }

    /// The timestamp of the last change that was sent on.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How often it was asked to look for what is to be applied.
    pub(super) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    /// Is not certain, when it is asked next, that it leads; and finds this out then.
    pub(super) fn is_unsure(&self, then: LeaderAt) {
        *self.unsure.lock().unwrap() = Some(then);
    }

    /// Says how far the log goes, as a leader.
    pub(super) fn leads_up_to(&self, end: SharedLogEnd) {
        *self.end.lock().unwrap() = Some(end);
    }

    /// What the leader was heard to say.
    pub(super) fn heard(&self) -> Vec<SharedLogEnd> {
        self.heard.lock().unwrap().clone()
    }

    /// Says that data is not new enough from now on.
    pub(super) fn fails(&self, error: Option<PeersError>) {
        *self.fails.lock().unwrap() = error;
    }

    /// Has reads of rows wait for so long from now on.
    pub(super) fn holds(&self, time: Option<Duration>) {
        *self.holds.lock().unwrap() = time;
    }
}

impl Peers for Others {
    fn leader(&self) -> LeaderAt {
        let before = self.before.lock().unwrap().pop();
        before.unwrap_or_else(|| self.leader.lock().unwrap().clone())
    }

    fn confirm_lead(&self, deadline: Instant) -> CatchUp<'_> {
        assert!(deadline > Instant::now());
        let unsure = self.unsure.lock().unwrap().take();
        Box::pin(async move {
            let Some(then) = unsure else { return Ok(()) };
            *self.leader.lock().unwrap() = then;
            Err(PeersError::Behind("it is not certain that this server leads".into()))
        })
    }

    fn catch_up(
        &self,
        collection: Option<CollectionId>,
        wanted: ReadTime,
        deadline: Instant,
    ) -> CatchUp<'_> {
        Box::pin(async move {
            assert!(deadline > Instant::now());
            self.asked.lock().unwrap().push((collection, wanted));
            let held = *self.holds.lock().unwrap();
            if let Some(time) = held.filter(|_| collection.is_some()) {
                tokio::time::sleep(time).await;
            }
            if let Some(error) = self.fails.lock().unwrap().clone() {
                return Err(error);
            }
            let arrival = self.arrives.lock().unwrap().take_if(|_| collection.is_none());
            if let Some(arrival) = arrival {
                arrival();
            }
            Ok(())
        })
    }

    fn timestamp(&self) -> u64 {
        let applied = *self.applied.lock().unwrap();
        applied.unwrap_or_else(|| self.time.fetch_add(2, Ordering::Relaxed))
    }

    fn wrote(&self, timestamp: u64) {
        self.written.fetch_max(timestamp, Ordering::Relaxed);
    }

    fn others(&self) -> Vec<ServerAt> {
        self.servers.lock().unwrap().values().cloned().collect()
    }

    fn look(&self) {
        self.looked.fetch_add(1, Ordering::Relaxed);
    }

    fn leads_up_to(&self) -> Option<SharedLogEnd> {
        *self.end.lock().unwrap()
    }

    fn moment(&self) -> Duration {
        Duration::ZERO
    }

    fn heard(&self, end: SharedLogEnd, _asked: Duration) {
        self.heard.lock().unwrap().push(end);
    }

    fn key(&self) -> Option<PeerKey> {
        self.key.lock().unwrap().clone()
    }

    fn key_of(&self, server: &ServerAt) -> Option<PeerKey> {
        self.keys.lock().unwrap().get(&server.uri).cloned()
    }

    fn are_all_keyed(&self) -> bool {
        self.all_keyed.load(Ordering::Relaxed)
    }

    fn number(&self) -> u8 {
        self.number
    }

    fn server(&self, number: u8) -> Option<ServerAt> {
        self.servers.lock().unwrap().get(&number).cloned()
    }
}

/// Calls, and whether the server answered them itself.
#[derive(Default)]
pub(super) struct Answered(Mutex<Vec<(String, bool)>>);

impl AccessLog for Answered {
    fn ended(&self, call: &CallEnded<'_>) {
        self.0.lock().unwrap().push((call.call.to_owned(), call.code.is_some()));
    }
}

impl Answered {
    /// Those since the last time.
    pub(super) fn take(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A server that is one of several.
pub(super) struct Server {
    pub(super) served: Served,
    pub(super) others: Arc<Others>,
    pub(super) answered: Arc<Answered>,
}

impl Server {
    /// One with a database of its own.
    pub(super) fn new(number: u8, leader: LeaderAt) -> Self {
        Self::with(Others::new(number, leader), ServeOptions::default())
    }

    pub(super) fn with(others: Arc<Others>, options: ServeOptions) -> Self {
        Self::serving(others, options, Served::with)
    }

    fn serving(
        others: Arc<Others>,
        options: ServeOptions,
        serve: impl FnOnce(ServeOptions) -> Served,
    ) -> Self {
        let answered = Arc::new(Answered::default());
        let options = ServeOptions {
            peers: Some(Arc::clone(&others) as Arc<dyn Peers>),
            access_log: Some(Arc::clone(&answered) as Arc<dyn AccessLog>),
            ..options
        };
        Self { served: serve(options), others, answered }
    }

    pub(super) fn at(&self) -> ServerAt {
        at(self.served.listening.address())
    }

    /// Who leads after some time.
    pub(super) fn learns(&self, after_ms: u64, leader: LeaderAt) {
        let others = Arc::clone(&self.others);
        self.served.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            others.lead(leader);
        });
    }

    pub(super) fn pass(&self, ms: u64) {
        self.served.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    /// Two servers of one database: the one that leads, and one that does not.
    pub(super) fn pair(options: &ServeOptions) -> (Self, Self) {
        let leads = Others::new(1, LeaderAt::Here);
        let leader = Self::serving(Arc::clone(&leads), options.clone(), Served::standing);
        let follows = Others::at(2, LeaderAt::There(leader.at()), Arc::clone(&leads.time));
        let beside = |options| leader.served.beside(options);
        let follower = Self::serving(follows, options.clone(), beside);
        leader.others.set_server(2, Some(follower.at()));
        follower.others.set_server(1, Some(leader.at()));
        (leader, follower)
    }
}

/// A loopback address of its own. A port of it that is given up goes to no other test.
pub(super) fn own_address() -> Ipv4Addr {
    static TAKEN: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, 128 | process[1], process[0], TAKEN.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn at(address: std::net::SocketAddr) -> ServerAt {
    ServerAt { uri: format!("http://{address}"), tls: None }
}
