//! Several servers in one process, over one store.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeann_db::catalog::{NewCollection, UnixMs};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::replication::requests::{
    self, BegunRequest, CurrentRequest, RequestAnswer, RequestId,
};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
use pipeann_members::{ServerInfo, ServerKey, SharedFormats};
use pipeann_store::ClusterStore;
use uuid::Uuid;

use super::*;

mod faults;
mod restored;

/// Whom everybody takes for elected: the number of a server.
#[derive(Debug)]
struct Vote {
    me: usize,
    elected: Arc<Mutex<Option<usize>>>,
}

impl Election for Vote {
    fn elected(&self) -> Elected {
        match *self.elected.lock().unwrap() {
            Some(server) if server == self.me => Elected::Me,
            Some(server) => Elected::Other { address: server.to_string() },
            None => Elected::Nobody { why: "nobody votes".into() },
        }
    }

    fn stand(&self, _newest_term: u64) {}

    fn give_up(&self) {}

    fn elected_as(&self) -> Option<u64> {
        (self.elected() == Elected::Me).then_some(0)
    }

    fn certain_for(&self, _: u64) -> Duration {
        Duration::ZERO
    }
}

/// A cluster whose servers live in directories that stay.
pub(crate) struct Cluster {
    pub(crate) root: tempfile::TempDir,
    elected: Arc<Mutex<Option<usize>>>,
}

impl Cluster {
    pub(crate) fn new(elected: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root, elected: Arc::new(Mutex::new(Some(elected))) }
    }

    pub(crate) fn store(&self) -> ClusterStore {
        let url = format!("file://{}", self.root.path().join("store").display());
        ClusterStore::open(&url, "test").unwrap()
    }

    pub(crate) fn dir(&self, server: usize) -> std::path::PathBuf {
        self.root.path().join(format!("server-{server}"))
    }

    pub(crate) fn start(&self, server: usize) -> Replica {
        let election = Arc::new(Vote { me: server, elected: Arc::clone(&self.elected) });
        let options = ReplicaOptions::new(self.store(), format!("server {server}"), election);
        open(&self.dir(server), options)
    }

    /// One that votes for itself, in an election that the others do not hear of; it leads.
    fn lead_unheard(&self, server: usize) -> Replica {
        let elected = Arc::new(Mutex::new(Some(server)));
        let election = Arc::new(Vote { me: server, elected });
        let options = ReplicaOptions::new(self.store(), "the other".into(), election);
        let replica = open(&self.dir(server), options);
        until_leads(&replica);
        replica
    }

    /// One that publishes after so many bytes, and tells whether it is cut off.
    pub(crate) fn start_publishing(&self, server: usize, bytes: u64) -> (Replica, Receiver<()>) {
        let election = Arc::new(Vote { me: server, elected: Arc::clone(&self.elected) });
        let (cut_off, told) = sync_channel(1);
        let name = format!("server {server}");
        let options = ReplicaOptions {
            generation_bytes: bytes,
            cut_off: Some(cut_off),
            ..ReplicaOptions::new(self.store(), name, election)
        };
        (open(&self.dir(server), options), told)
    }

    pub(crate) fn elect(&self, server: Option<usize>, all: &[&Replica]) {
        *self.elected.lock().unwrap() = server;
        all.iter().for_each(|replica| replica.nudge());
    }
}

pub(crate) fn open(dir: &Path, options: ReplicaOptions) -> Replica {
    let started = Instant::now();
    let now = move || UnixMs(1_700_000_000_000 + started.elapsed().as_millis() as u64);
    Replica::open(dir, DatabaseOptions::new(now), options, Uuid::new_v4()).unwrap()
}

/// A server of etcd's list.
pub(crate) fn server_info(id: u128, started_ms: u64) -> ServerInfo {
    ServerInfo {
        id: Uuid::from_u128(id),
        name: format!("server {id}"),
        address: format!("10.0.0.{id}:1"),
        peer_address: format!("10.0.0.{id}:1"),
        version: "0.1.0".into(),
        formats: SharedFormats::FIRST,
        regions: Vec::new(),
        key: ServerKey::default(),
        guards: None,
        started_ms,
    }
}

/// Long enough for any machine.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(crate) fn until_leads(replica: &Replica) {
    assert!(replica.wait_until(deadline(), |it| it.status().leads.is_some()), "it does not lead");
}

pub(crate) fn catch_up(replica: &Replica) {
    replica.catch_up(ReadFreshness::Latest, deadline()).unwrap();
}

pub(crate) fn create(database: &Database, name: &str) -> Arc<Collection> {
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .build()
        .unwrap();
    database.create_collection("default", name, NewCollection::new(schema)).unwrap()
}

pub(crate) fn batch(keys: std::ops::Range<i64>) -> Batch {
    let bytes = keys.clone().flat_map(|key| [key as f32, 1.0]).flat_map(f32::to_le_bytes).collect();
    let vectors = DenseVectors::new(VectorKind::Float, 2, bytes).unwrap();
    let rows = (keys.end - keys.start) as usize;
    let columns = vec![
        Column::new("id", ColumnValues::Int64(keys.collect())),
        Column::new("v", ColumnValues::Dense(vectors)),
    ];
    Batch { rows, columns }
}

pub(crate) fn count(replica: &Replica) -> u64 {
    catch_up(replica);
    replica.database().collection("default", "c").unwrap().count(None).unwrap()
}

#[test]
fn what_is_acknowledged_is_on_every_server_and_comes_back_without_any_disk() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = create(a.database(), "c");
    for i in 0..20 {
        c.insert(batch(i * 10..i * 10 + 10), None).unwrap();
    }
    c.delete(&[PrimaryKey::Int64(3)]).unwrap();
    assert_eq!((count(&a), count(&b)), (199, 199));
    let refused = b.database().collection("default", "c").unwrap().insert(batch(0..1), None);
    assert!(matches!(refused.unwrap_err(), CollectionError::Shared(_)));
    assert_eq!(b.elected(), Elected::Other { address: "0".into() });
    drop((a, b, c));
    for server in [0, 1] {
        std::fs::remove_dir_all(cluster.dir(server)).unwrap();
    }
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    assert_eq!((count(&a), count(&b)), (199, 199));
    assert_eq!(a.status().leads, Some(2), "another term");
}

/// Starts the server 0, which leads and has ten rows; the server 1 had them too, and has ended.
pub(crate) fn led_while_another_was_there(cluster: &Cluster) -> (Replica, Arc<Collection>) {
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    assert_eq!(count(&b), 10);
    (a, c)
}

#[test]
fn a_server_that_was_away_reads_on_where_it_was() {
    let cluster = Cluster::new(0);
    let (a, c) = led_while_another_was_there(&cluster);
    c.insert(batch(10..30), None).unwrap();
    let left = ReplicaFile::open(&cluster.dir(1), cluster.store().cluster_id(), Uuid::nil());
    assert!(left.unwrap().position().is_some(), "noted at the end");
    let b = cluster.start(1);
    assert_eq!(count(&b), 30);
    // The one that led, too.
    drop((a, c));
    let a = cluster.start(0);
    until_leads(&a);
    assert_eq!(count(&a), 30);
}

#[test]
fn the_lead_goes_from_server_to_server_and_no_acknowledged_row_is_lost() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    create(a.database(), "c");
    catch_up(&b);
    let mut acknowledged = 0;
    let mut next = 0;
    for round in 0..8 {
        let (leader, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        until_leads(leader);
        let c = leader.database().collection("default", "c").unwrap();
        for i in 0..20 {
            if i == 10 {
                cluster.elect(Some((round + 1) % 2), &[&a, &b]);
            }
            if c.insert(batch(next..next + 1), None).is_ok() {
                acknowledged += 1;
            }
            next += 1;
        }
        until_leads(other);
        assert!(leader.wait_until(deadline(), |it| it.status().leads.is_none()), "it still leads");
    }
    let (in_a, in_b) = (count(&a), count(&b));
    assert_eq!(in_a, in_b);
    assert!(in_a >= acknowledged, "{acknowledged} were acknowledged, {in_a} are there");
    assert!(acknowledged >= 80, "{acknowledged}");
}

#[test]
fn a_server_that_leads_and_is_not_told_of_another_is_refused_by_the_log() {
    let cluster = Cluster::new(0);
    let a = cluster.start(0);
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    let b = cluster.lead_unheard(1);
    *cluster.elected.lock().unwrap() = None;
    let read = a.catch_up(ReadFreshness::Latest, deadline());
    let wrote = c.insert(batch(20..21), None);
    assert!(wrote.is_err(), "the log has another term");
    assert!(read.is_err() || a.status().leads.is_none(), "the latest may be elsewhere");
    assert!(a.wait_until(deadline(), |it| it.status().leads.is_none()), "it still leads");
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(30..32), None).unwrap();
    assert_eq!((count(&b), count(&a)), (12, 12));
}

#[test]
fn that_nothing_is_to_be_deleted_is_answered_by_whoever_leads_for_certain() {
    let cluster = Cluster::new(0);
    let a = cluster.start(0);
    until_leads(&a);
    let c = create(a.database(), "c");
    a.confirm_lead(deadline()).unwrap();
    assert_eq!(c.delete(&[PrimaryKey::Int64(20)]).unwrap().rows, 0);
    let b = cluster.lead_unheard(1);
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(20..21), None).unwrap();
    // The first one has not heard of it, and has no such row.
    *cluster.elected.lock().unwrap() = None;
    a.confirm_lead(deadline()).unwrap_err();
    c.delete(&[PrimaryKey::Int64(99)]).unwrap_err();
    b.confirm_lead(deadline()).unwrap();
    assert_eq!(d.delete(&[PrimaryKey::Int64(20), PrimaryKey::Int64(99)]).unwrap().rows, 1);
}

/// A request of this number.
pub(crate) fn request(n: u8) -> CurrentRequest {
    CurrentRequest { id: RequestId([n; 16]), at_ms: 1_700_000_000_000 }
}

/// What is known of a request on a server.
pub(crate) fn known(replica: &Replica, n: u8) -> Option<RequestAnswer> {
    match replica.database().requests().begin(request(n).id) {
        BegunRequest::Applied(answer) => Some(answer),
        BegunRequest::New(_) => None,
    }
}

#[test]
fn requests_are_known_to_whoever_leads_next_and_after_a_restart() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = requests::within(Some(request(1)), || create(a.database(), "c"));
    requests::within(Some(request(2)), || c.insert(batch(0..10), None)).unwrap();
    c.insert(batch(10..12), None).unwrap();
    requests::within(Some(request(3)), || c.delete(&[PrimaryKey::Int64(3)])).unwrap();
    let access = a.database().access();
    requests::within(Some(request(4)), || access.create_user("ada", "secret-1")).unwrap();
    catch_up(&b);
    for server in [&a, &b] {
        assert_eq!(known(server, 1), Some(RequestAnswer::default()));
        let written = RequestAnswer { first_row: 0, rows: 10, removed: 0 };
        assert_eq!(known(server, 2), Some(written));
        let removed = known(server, 3).map(|answer| answer.removed);
        assert_eq!((removed, known(server, 5)), (Some(1), None));
        assert!(known(server, 4).is_some());
    }
    // One that has noted how far it is reads no more of the log than from there.
    drop((b, c));
    let b = cluster.start(1);
    catch_up(&b);
    assert!((1..=4).all(|n| known(&b, n).is_some()));
    // And one without a disk reads all of it.
    drop((a, b));
    std::fs::remove_dir_all(cluster.dir(1)).unwrap();
    cluster.elect(Some(1), &[]);
    let b = cluster.start(1);
    until_leads(&b);
    assert!((1..=4).all(|n| known(&b, n).is_some()));
}

#[test]
fn what_the_leader_says_of_the_log_counts_as_a_look_at_it() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    create(a.database(), "c");
    catch_up(&b);
    // Nobody knows for certain here who leads.
    assert_eq!(a.leads_up_to(), None);
    let state = crate::state::SharedState::new(b.status().position, ServerTime::Machine);
    let bounded = ReadFreshness::Bounded { staleness: Duration::from_secs(600), at_least: 0 };
    assert!(!state.has(bounded), "it has never read to an end");
    let here = b.status().position.unwrap();
    let next = pipeann_store::Position { number: here.number + 1, ..here };
    state.heard(next, ServerTime::Machine.moment());
    assert!(!state.has(bounded), "there is more than it has");
    state.applied(next, 2);
    assert!(state.has(bounded));
}

#[test]
fn a_server_that_begins_anew_knows_how_far_it_is_though_nothing_is_written() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    assert_eq!(count(&b), 10);
    let there = b.status().position;
    drop(b);
    let b = cluster.start(1);
    catch_up(&b);
    let here = b.status();
    assert_eq!((here.position, here.timestamp), (there, a.timestamp()));
    assert!(b.has(ReadFreshness::AtLeast(a.timestamp())), "it has all that there is");
}

/// An election that was won once, and then by another server, as after a long sleep.
#[derive(Debug, Default)]
struct WonBefore {
    asked: std::sync::atomic::AtomicUsize,
    given_up: std::sync::atomic::AtomicUsize,
}

impl Election for WonBefore {
    fn elected(&self) -> Elected {
        let elected = self.elected_as().map(|_| Elected::Me);
        elected.unwrap_or_else(|| Elected::Other { address: "0".into() })
    }

    fn stand(&self, _newest_term: u64) {}

    fn give_up(&self) {
        self.given_up.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    fn elected_as(&self) -> Option<u64> {
        // When the log is read, and when its term is about to be opened.
        (self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2).then_some(0)
    }

    fn certain_for(&self, _: u64) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn a_server_that_is_not_elected_any_more_ends_no_term_of_another() {
    let cluster = Cluster::new(0);
    let a = cluster.start(0);
    until_leads(&a);
    let c = create(a.database(), "c");
    let election = Arc::new(WonBefore::default());
    let as_election = Arc::clone(&election) as Arc<dyn Election>;
    let options = ReplicaOptions::new(cluster.store(), "late".into(), as_election);
    let b = open(&cluster.dir(1), options);
    let gave_up = |_: &Replica| election.given_up.load(std::sync::atomic::Ordering::SeqCst) > 0;
    assert!(b.wait_until(deadline(), gave_up), "it leads");
    c.insert(batch(0..10), None).unwrap();
    assert_eq!((a.status().leads, count(&b)), (Some(1), 10));
}

/// Fails when it is asked to stand.
#[derive(Debug)]
struct Failing(Arc<std::sync::atomic::AtomicBool>);

impl Election for Failing {
    fn elected(&self) -> Elected {
        match self.0.load(std::sync::atomic::Ordering::Relaxed) {
            true => panic!("as the test wants it"),
            false => Elected::Other { address: "another".into() },
        }
    }

    fn stand(&self, _newest_term: u64) {}

    fn give_up(&self) {
        self.0.store(false, std::sync::atomic::Ordering::Relaxed);
    }

    fn elected_as(&self) -> Option<u64> {
        None
    }

    fn certain_for(&self, _: u64) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn a_server_whose_thread_has_failed_reads_nothing_and_says_why() {
    let cluster = Cluster::new(0);
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let election = Arc::new(Failing(Arc::clone(&fails)));
    let a = open(&cluster.dir(0), ReplicaOptions::new(cluster.store(), "a".into(), election));
    catch_up(&a);
    assert!(a.has(ReadFreshness::Any));
    fails.store(true, std::sync::atomic::Ordering::Relaxed);
    a.nudge();
    assert!(a.wait_until(deadline(), |it| !it.has(ReadFreshness::Any)), "it reads on");
    for wanted in [ReadFreshness::Any, ReadFreshness::Latest, ReadFreshness::AtLeast(0)] {
        let refused = a.catch_up(wanted, deadline()).unwrap_err().to_string();
        assert!(refused.contains("start this server again"), "{refused}");
    }
}

#[test]
fn reads_wait_for_what_they_ask_for() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = create(a.database(), "c");
    for i in 0..50 {
        c.insert(batch(i..i + 1), None).unwrap();
        let timestamp = 1_700_000_000_000 << 18;
        let wanted =
            [ReadFreshness::Latest, ReadFreshness::AtLeast(timestamp << 1)][i as usize % 2];
        b.catch_up(wanted, deadline()).unwrap();
        let d = b.database().collection("default", "c").unwrap();
        assert_eq!(d.count(None).unwrap(), i as u64 + 1);
    }
    b.catch_up(ReadFreshness::Any, Instant::now()).unwrap();
    let bounded =
        |at_least| ReadFreshness::Bounded { staleness: Duration::from_secs(600), at_least };
    b.catch_up(bounded(b.timestamp()), Instant::now()).unwrap();
    assert!(!b.has(bounded(b.timestamp() + 2)), "nothing is there that is so new");
}

#[test]
fn a_server_whose_clock_is_far_from_the_store_s_stamps_by_that() {
    let cluster = Cluster::new(0);
    let store = cluster.store();
    let election = Arc::new(Vote { me: 0, elected: Arc::clone(&cluster.elected) });
    let options = ReplicaOptions {
        compare_clock: Some(Duration::from_secs(60)),
        ..ReplicaOptions::new(store.clone(), "late".into(), election)
    };
    // Its clock is that of a machine which has just begun to count.
    let a = open(&cluster.dir(0), options);
    until_leads(&a);
    create(a.database(), "c").insert(batch(0..1), None).unwrap();
    let time = pipeann_store::ShardGenerations::new(&store, crate::work::SHARD).time().unwrap();
    let stamped = a.timestamp() >> 18;
    assert!(stamped.abs_diff(time) < 3_600_000, "{stamped} of {time}");
}
