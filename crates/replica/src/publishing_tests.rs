//! Generations of servers in one process, over one store.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use pipeann_db::catalog::UnixMs;
use pipeann_db::replication::requests;
use pipeann_db::schema::PrimaryKey;
use pipeann_store::{LogError, Position, ShardGeneration, ShardGenerations, ShardReader};
use uuid::Uuid;

use crate::tests::{Cluster, batch, count, create, deadline, known, open, request, until_leads};
use crate::work::SHARD;
use crate::{
    Alone, GenerationHeader, JoinedGeneration, Replica, ReplicaFile, ReplicaOptions,
    ServerDirectory,
};

/// A generation is due after each insert.
const SOON: u64 = 100;

fn generations(cluster: &Cluster) -> ShardGenerations {
    ShardGenerations::new(&cluster.store(), SHARD)
}

/// A cluster whose leader publishes soon and has a collection, and the next key in it.
fn publishing() -> (Cluster, Replica, i64) {
    let cluster = Cluster::new(0);
    let (a, _) = cluster.start_publishing(0, SOON);
    until_leads(&a);
    create(a.database(), "c");
    (cluster, a, 0)
}

/// Inserts until there is one generation more, and the next keys.
fn publish(cluster: &Cluster, leader: &Replica, next: &mut i64) {
    let of = generations(cluster);
    let newest = || of.ids().unwrap().last().copied();
    let before = newest();
    let c = leader.database().collection("default", "c").unwrap();
    c.insert(batch(*next..*next + 50), None).unwrap();
    *next += 50;
    assert!(leader.wait_until(deadline(), |_| newest() > before), "no generation came");
}

fn join(cluster: &Cluster, server: usize) -> Option<JoinedGeneration> {
    let (dir, store) = (cluster.dir(server), cluster.store());
    let file = ReplicaFile::open(&dir, store.cluster_id(), Uuid::new_v4()).unwrap();
    let joining = ServerDirectory::new(&dir, &store, file);
    let wants = joining.wants_generation().unwrap();
    wants.then(|| joining.take_generation("a test", UnixMs(5_000)).unwrap())
}

/// Whether the log reaches back to a position, or to its begin.
fn reaches(cluster: &Cluster, position: Option<Position>) -> bool {
    match ShardReader::open(&cluster.store(), SHARD, position) {
        Ok(_) => true,
        Err(LogError::Cut { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_empty_server_takes_a_generation_and_reads_on_where_the_log_was_cut() {
    let cluster = Cluster::new(0);
    let (a, _) = cluster.start_publishing(0, SOON);
    until_leads(&a);
    assert!(join(&cluster, 1).is_none(), "nothing is there to be taken");
    let c = create(a.database(), "c");
    a.database().access().create_user("somebody", "Password1").unwrap();
    let mut next = 0;
    publish(&cluster, &a, &mut next);
    // A slow machine may have published one more meanwhile.
    let reached = reaches(&cluster, None);
    let there = generations(&cluster).ids().unwrap().len();
    assert!(reached || there > 1, "the first one is a margin to none");
    c.delete(&[PrimaryKey::Int64(3)]).unwrap();
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    assert!(a.wait_until(deadline(), |_| !reaches(&cluster, None)), "the log is not cut");
    c.insert(batch(next..next + 7), None).unwrap();
    let joined = join(&cluster, 2).unwrap();
    assert!(joined.fetched.files > 0);
    let newest = generations(&cluster).newest().unwrap().unwrap();
    let header = GenerationHeader::decode(&newest.header).unwrap();
    assert!(header.through().unwrap().0 >= newest.position);
    let b = cluster.start(2);
    assert_eq!(count(&b), count(&a));
    assert_eq!(count(&b), next as u64 + 7 - 1);
    assert!(b.database().access().users().contains(&"somebody".to_owned()));
    // It can lead, and its writes come to the one that led.
    cluster.elect(Some(2), &[&a, &b]);
    until_leads(&b);
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(next + 7..next + 9), None).unwrap();
    assert_eq!(count(&a), next as u64 + 9 - 1);
    // What was applied is noted, so that it needs no generation when it comes again.
    drop((b, d));
    assert!(join(&cluster, 2).is_none());
}

#[test]
fn a_server_that_takes_a_generation_knows_the_requests_before_it() {
    let (cluster, a, mut next) = publishing();
    let c = a.database().collection("default", "c").unwrap();
    requests::within(Some(request(1)), || c.insert(batch(1000..1010), None)).unwrap();
    let there = known(&a, 1);
    assert!(there.is_some());
    // Nobody reads of it in the log any more.
    while reaches(&cluster, None) {
        publish(&cluster, &a, &mut next);
    }
    join(&cluster, 1).unwrap();
    let b = cluster.start(1);
    assert_eq!((known(&b, 1), known(&b, 2)), (there, None));
}

#[test]
fn a_server_behind_the_cut_is_told_and_takes_what_it_lacks() {
    let (cluster, a, mut next) = publishing();
    publish(&cluster, &a, &mut next);
    let b = cluster.start(1);
    assert_eq!(count(&b), 50);
    drop(b);
    let file = ReplicaFile::open(&cluster.dir(1), cluster.store().cluster_id(), Uuid::nil());
    let position = file.unwrap().position();
    while reaches(&cluster, position) {
        publish(&cluster, &a, &mut next);
    }
    // One that was opened without a look at the log says so, and keeps what it has.
    let (b, told) = cluster.start_publishing(1, SOON);
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(b.status().cut_off);
    let stale = b.database().collection("default", "c").unwrap().count(None).unwrap();
    assert_eq!(stale, 50);
    drop(b);
    let joined = join(&cluster, 1).unwrap();
    assert!(joined.position > position.unwrap());
    let b = cluster.start(1);
    assert_eq!(count(&b), next as u64);
}

#[test]
fn a_server_that_lacks_what_it_noted_takes_a_generation() {
    let (cluster, a, mut next) = publishing();
    publish(&cluster, &a, &mut next);
    let b = cluster.start(1);
    assert_eq!(count(&b), 50);
    drop(b);
    while reaches(&cluster, None) {
        publish(&cluster, &a, &mut next);
    }
    // As a disk leaves it that said of rows that they were safe: the note is there, and they are not.
    let (dir, store) = (cluster.dir(1), cluster.store());
    let file = ReplicaFile::open(&dir, store.cluster_id(), Uuid::nil()).unwrap();
    file.at(a.status().position.unwrap()).save(&dir).unwrap();
    assert!(join(&cluster, 1).is_none(), "the log follows the note");
    let c = a.database().collection("default", "c").unwrap();
    c.insert(batch(next..next + 1), None).unwrap();
    let (b, told) = cluster.start_publishing(1, SOON);
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(b);
    join(&cluster, 1).expect("it does not begin at the note once more");
    assert_eq!(count(&cluster.start(1)), next as u64 + 1);
}

#[test]
fn the_log_stays_for_a_generation_that_somebody_has_pinned() {
    let (cluster, a, mut next) = publishing();
    publish(&cluster, &a, &mut next);
    let of = generations(&cluster);
    let id = of.ids().unwrap()[0];
    let pin = of.pin(id, "a backup", Duration::from_secs(600)).unwrap().unwrap();
    assert_eq!(of.pinned().unwrap(), [id]);
    let pinned = Some(pin.generation.position);
    for _ in 0..4 {
        publish(&cluster, &a, &mut next);
    }
    assert!(reaches(&cluster, pinned), "and its changes are there");
    of.release(pin).unwrap();
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    assert!(a.wait_until(deadline(), |_| !reaches(&cluster, pinned)), "the log is not cut");
}

#[test]
fn the_log_stays_for_a_server_that_has_taken_a_generation_and_not_read_on() {
    let (cluster, a, mut next) = publishing();
    publish(&cluster, &a, &mut next);
    let joined = join(&cluster, 1).unwrap();
    let position = Some(joined.position);
    for _ in 0..4 {
        publish(&cluster, &a, &mut next);
    }
    assert!(reaches(&cluster, position), "it could not read on");
    assert_eq!(count(&cluster.start(1)), next as u64);
    drop(joined);
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    assert!(a.wait_until(deadline(), |_| !reaches(&cluster, position)), "the log is not cut");
}

#[test]
fn a_manifest_that_cannot_be_read_keeps_nobody_from_joining_nor_the_log_from_being_cut() {
    let (cluster, a, mut next) = publishing();
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    let of = generations(&cluster);
    let damaged = of.newest().unwrap().unwrap().id;
    let path = cluster.root.path().join("store").join(ShardGeneration::object(SHARD, damaged));
    let mut bytes = fs::read(&path).unwrap();
    bytes[50] ^= 1;
    fs::write(&path, bytes).unwrap();
    let joined = join(&cluster, 1).unwrap();
    assert_ne!(joined.held.generation().id, damaged);
    let position = Some(joined.position);
    drop(joined);
    assert_eq!(of.pinned().unwrap(), []);
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    publish(&cluster, &a, &mut next);
    assert!(a.wait_until(deadline(), |_| !reaches(&cluster, position)), "the log is not cut");
    join(&cluster, 1).unwrap();
    assert_eq!(count(&cluster.start(1)), next as u64);
}

#[test]
fn the_end_of_a_lead_publishes_what_is_not_in_a_generation() {
    let cluster = Cluster::new(0);
    let bytes = 4 * 50 * 20;
    let (a, _) = cluster.start_publishing(0, bytes);
    let (b, _) = cluster.start_publishing(1, bytes);
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..50), None).unwrap();
    // Handed over.
    cluster.elect(Some(1), &[&a, &b]);
    until_leads(&b);
    let of = generations(&cluster);
    let there = |count| move |_: &Replica| of.ids().unwrap().len() >= count;
    assert!(a.wait_until(deadline(), there(1)), "nothing was published");
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(50..100), None).unwrap();
    // In order.
    drop((b, d));
    assert!(generations(&cluster).ids().unwrap().len() >= 2);
    // Too little for another one.
    cluster.elect(Some(0), &[&a]);
    until_leads(&a);
    let before = generations(&cluster).ids().unwrap();
    assert_eq!(count(&a), 100);
    drop((a, c));
    let joined = join(&cluster, 2).unwrap();
    assert!(generations(&cluster).ids().unwrap().len() >= before.len());
    assert!(joined.position.number > 1);
    let (c, _) = cluster.start_publishing(2, bytes);
    assert_eq!(count(&c), 100);
}

#[test]
fn what_a_kill_leaves_of_a_publication_is_no_generation() {
    let (cluster, a, mut next) = publishing();
    for _ in 0..3 {
        publish(&cluster, &a, &mut next);
    }
    let rows = count(&a);
    drop(a);
    // Files without a manifest, and half a file that nobody names.
    let store = cluster.root.path().join("store");
    let newest = generations(&cluster).ids().unwrap().pop().unwrap();
    let name = format!("manifest/0/{:020}-{:020}", newest.term, newest.number);
    fs::remove_file(store.join(name)).unwrap();
    fs::write(store.join("file").join(format!("{:032x}-999", 7)), b"half").unwrap();
    // The links of the moment.
    let left = cluster.dir(0).join("generations/taken-1");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("CATALOG"), b"left").unwrap();
    join(&cluster, 1).unwrap();
    let b = cluster.start(1);
    assert_eq!(count(&b), rows);
    drop(b);
    assert!(join(&cluster, 0).is_none(), "it has all");
    assert!(!left.exists());
    let (a, _) = cluster.start_publishing(0, SOON);
    until_leads(&a);
    publish(&cluster, &a, &mut next);
}

/// Lets two hours pass for all generations and pins that are in the store.
fn age(cluster: &Cluster) {
    let store = cluster.root.path().join("store");
    for folder in ["manifest/0", "file", "pin"] {
        for entry in fs::read_dir(store.join(folder)).unwrap() {
            // A pin may be given up meanwhile.
            let Ok(file) = fs::File::options().write(true).open(entry.unwrap().path()) else {
                continue;
            };
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - Duration::from_secs(2 * 3600)).unwrap();
        }
    }
}

#[test]
fn what_nobody_wants_any_more_stays_for_the_grace_that_is_set() {
    for (hours, stays) in [(1, false), (3, true)] {
        let cluster = Cluster::new(0);
        let options = ReplicaOptions {
            generation_bytes: SOON,
            gc_grace: Duration::from_secs(hours * 3600),
            ..ReplicaOptions::new(cluster.store(), "the only one".into(), Arc::new(Alone))
        };
        let a = open(&cluster.dir(0), options);
        until_leads(&a);
        create(a.database(), "c");
        let mut next = 0;
        publish(&cluster, &a, &mut next);
        let of = generations(&cluster);
        let first = of.ids().unwrap()[0];
        publish(&cluster, &a, &mut next);
        age(&cluster);
        // What one of them leaves to be collected is, before the next one comes.
        for _ in 0..3 {
            publish(&cluster, &a, &mut next);
        }
        assert_eq!(of.ids().unwrap().contains(&first), stays, "{hours} h");
    }
}
