//! Several servers in one process, over one store.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeann_db::catalog::{NewCollection, UnixMs};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
use pipeann_store::ClusterStore;
use uuid::Uuid;

use super::*;

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

    fn certain_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// A cluster whose servers live in directories that stay.
struct Cluster {
    root: tempfile::TempDir,
    elected: Arc<Mutex<Option<usize>>>,
}

impl Cluster {
    fn new(elected: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root, elected: Arc::new(Mutex::new(Some(elected))) }
    }

    fn store(&self) -> ClusterStore {
        let url = format!("file://{}", self.root.path().join("store").display());
        ClusterStore::open(&url, "test").unwrap()
    }

    fn dir(&self, server: usize) -> std::path::PathBuf {
        self.root.path().join(format!("server-{server}"))
    }

    fn start(&self, server: usize) -> Replica {
        let election = Arc::new(Vote { me: server, elected: Arc::clone(&self.elected) });
        let options = ReplicaOptions::new(self.store(), format!("server {server}"), election);
        open(&self.dir(server), options)
    }

    fn elect(&self, server: Option<usize>, all: &[&Replica]) {
        *self.elected.lock().unwrap() = server;
        all.iter().for_each(|replica| replica.nudge());
    }
}

fn open(dir: &Path, options: ReplicaOptions) -> Replica {
    let started = Instant::now();
    let now = move || UnixMs(1_700_000_000_000 + started.elapsed().as_millis() as u64);
    Replica::open(dir, DatabaseOptions::new(now), options, Uuid::new_v4()).unwrap()
}

/// Long enough for any machine.
fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn until_leads(replica: &Replica) {
    assert!(replica.wait_until(deadline(), |it| it.status().leads.is_some()), "it does not lead");
}

fn catch_up(replica: &Replica) {
    replica.catch_up(ReadFreshness::Latest, deadline()).unwrap();
}

fn create(database: &Database, name: &str) -> Arc<Collection> {
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .build()
        .unwrap();
    database.create_collection("default", name, NewCollection::new(schema)).unwrap()
}

fn batch(keys: std::ops::Range<i64>) -> Batch {
    let bytes = keys.clone().flat_map(|key| [key as f32, 1.0]).flat_map(f32::to_le_bytes).collect();
    let vectors = DenseVectors::new(VectorKind::Float, 2, bytes).unwrap();
    let rows = (keys.end - keys.start) as usize;
    let columns = vec![
        Column::new("id", ColumnValues::Int64(keys.collect())),
        Column::new("v", ColumnValues::Dense(vectors)),
    ];
    Batch { rows, columns }
}

fn count(replica: &Replica) -> u64 {
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

#[test]
fn a_server_that_was_away_reads_on_where_it_was() {
    let cluster = Cluster::new(0);
    let (a, b) = (cluster.start(0), cluster.start(1));
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    assert_eq!(count(&b), 10);
    drop(b);
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
    // It votes for itself, in an election that the first one does not hear of.
    let deaf = Arc::new(Mutex::new(Some(1)));
    let election = Arc::new(Vote { me: 1, elected: Arc::clone(&deaf) });
    let options = ReplicaOptions::new(cluster.store(), "the other".into(), election);
    let b = open(&cluster.dir(1), options);
    until_leads(&b);
    *cluster.elected.lock().unwrap() = None;
    let read = a.catch_up(ReadFreshness::Latest, deadline());
    let wrote = c.insert(batch(20..21), None);
    assert!(wrote.is_err(), "the log has another term");
    assert!(read.is_err() || a.status().leads.is_none(), "the latest may be elsewhere");
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(30..32), None).unwrap();
    assert_eq!((count(&b), count(&a)), (12, 12));
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
