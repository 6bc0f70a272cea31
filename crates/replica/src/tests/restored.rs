//! What a database was at a moment.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::held::PinnedGeneration;
use crate::joining::ServerDirectory;
use crate::position::ReplicaFile;

/// Beyond all that happens in a test, by the clock of its servers.
const NOW: UnixMs = UnixMs(1_700_000_600_000);

/// One clock for all servers: a moment is one of whoever leads.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now() -> UnixMs {
    UnixMs(1_700_000_000_000 + BEGAN.elapsed().as_millis() as u64)
}

fn start(cluster: &Cluster, server: usize) -> Replica {
    start_publishing(cluster, server, u64::MAX)
}

fn start_publishing(cluster: &Cluster, server: usize, bytes: u64) -> Replica {
    let election = Arc::new(Vote { me: server, elected: Arc::clone(&cluster.elected) });
    let name = format!("server {server}");
    let options = ReplicaOptions {
        generation_bytes: bytes,
        ..ReplicaOptions::new(cluster.store(), name, election)
    };
    let database = DatabaseOptions::new(now);
    Replica::open(&cluster.dir(server), database, options, Uuid::new_v4()).unwrap()
}

/// The moment of what was applied last, when no later change can have it.
fn moment(replica: &Replica) -> UnixMs {
    let at = replica.timestamp() >> 18;
    assert!(replica.wait_until(deadline(), |_| now().0 > at + 1), "the time stands still");
    UnixMs(at)
}

fn options() -> DatabaseOptions {
    DatabaseOptions::new(|| NOW)
}

fn rows(dir: &Path) -> u64 {
    let database = Database::open(dir, options()).unwrap();
    database.collection("default", "c").unwrap().count(None).unwrap()
}

#[test]
fn moments_come_back_as_they_were_over_changes_of_the_leader() {
    let cluster = Cluster::new(0);
    let (a, b) = (start(&cluster, 0), start(&cluster, 1));
    until_leads(&a);
    let before = moment(&a);
    let c = create(a.database(), "c");
    let mut moments = vec![(moment(&a), 0)];
    c.insert(batch(0..10), None).unwrap();
    moments.push((moment(&a), 10));
    c.delete(&[PrimaryKey::Int64(3)]).unwrap();
    moments.push((moment(&a), 9));
    cluster.elect(Some(1), &[&a, &b]);
    until_leads(&b);
    catch_up(&b);
    let c = b.database().collection("default", "c").unwrap();
    c.insert(batch(20..25), None).unwrap();
    moments.push((moment(&b), 14));
    b.database().drop_collection("default", "c").unwrap();
    let dropped = moment(&b);
    let reading = cluster.store();
    for (number, (at, wanted)) in moments.iter().enumerate() {
        let dir = cluster.dir(100 + number);
        let restored = restore_to_directory(&reading, (*at, NOW), &dir, options()).unwrap();
        assert!(restored.written <= *at, "{restored:?}");
        assert_eq!(rows(&dir), *wanted, "moment {number}");
        // It is a database of its own, which takes changes.
        let database = Database::open(&dir, options()).unwrap();
        let c = database.collection("default", "c").unwrap();
        c.insert(batch(50..52), None).unwrap();
        assert_eq!(c.count(None).unwrap(), wanted + 2);
    }
    let dir = cluster.dir(200);
    restore_to_directory(&reading, (dropped, NOW), &dir, options()).unwrap();
    let database = Database::open(&dir, options()).unwrap();
    assert!(database.collection("default", "c").is_err());
    assert!(before < moments[0].0);
    let full = restore_to_directory(&reading, (dropped, NOW), &dir, options()).unwrap_err();
    assert!(matches!(full, RestoreError::NotEmpty { .. }), "{full}");
}

#[test]
fn moments_that_the_log_does_not_tell_are_refused_and_leave_nothing() {
    let cluster = Cluster::new(0);
    let a = start(&cluster, 0);
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    let (reading, dir) = (cluster.store(), cluster.dir(100));
    let refused = |at: u64, now: UnixMs| {
        let refused = restore_to_directory(&reading, (UnixMs(at), now), &dir, options());
        assert!(!dir.exists());
        match refused.unwrap_err() {
            RestoreError::NotCovered { moment, from, why } => {
                assert_eq!(moment, UnixMs(at));
                (from, why)
            }
            other => panic!("{other}"),
        }
    };
    let (from, _) = refused(1_600_000_000_000, NOW);
    assert!(from.is_some_and(|from| from.0 >= 1_700_000_000_000), "{from:?}");
    let (_, why) = refused(NOW.0 + 1, NOW);
    assert!(why.contains("yet to come"), "{why}");
    // A log that was cut.
    drop(a);
    let name = pipeann_store::LeaderName::new("x").unwrap();
    let shard = pipeann_store::ShardId(0);
    let leader =
        pipeann_store::ShardLeader::open(&reading, shard, None, &name, &mut |_| Ok(())).unwrap();
    leader.truncate_before(leader.position()).unwrap();
    let (_, why) = refused(NOW.0, NOW);
    assert!(why.contains("was cut"), "{why}");
}

#[test]
fn a_moment_becomes_another_cluster() {
    let cluster = Cluster::new(0);
    let a = start(&cluster, 0);
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    let at = moment(&a);
    c.insert(batch(10..20), None).unwrap();
    let url = format!("file://{}", cluster.root.path().join("other").display());
    let other = ClusterStore::open(&url, "other").unwrap();
    let restored = restore_into_store(&cluster.store(), (at, NOW), &other, None).unwrap();
    assert!(restored.changes >= 2, "{restored:?}");
    let election = Arc::new(Vote { me: 0, elected: Arc::clone(&cluster.elected) });
    let options = ReplicaOptions::new(other.clone(), "restored".into(), election);
    let b = open(&cluster.dir(9), options);
    until_leads(&b);
    assert_eq!((count(&b), count(&a)), (10, 20));
    b.database().collection("default", "c").unwrap().insert(batch(30..31), None).unwrap();
    assert_eq!((count(&b), count(&a)), (11, 20));
    let full = restore_into_store(&cluster.store(), (at, NOW), &other, None).unwrap_err();
    assert!(matches!(full, RestoreError::NotEmpty { .. }), "{full}");
}

#[test]
fn a_moment_behind_a_cut_begins_with_a_generation() {
    let cluster = Cluster::new(0);
    let a = start_publishing(&cluster, 0, 100);
    until_leads(&a);
    let c = create(a.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    let early = moment(&a);
    let store = cluster.store();
    let begin = || store.log_begin(crate::work::SHARD).unwrap();
    let mut next = 10;
    let mut moments = Vec::new();
    for _ in 0..40 {
        c.insert(batch(next..next + 20), None).unwrap();
        next += 20;
        moments.push((moment(&a), next as u64));
        a.wait_until(Instant::now() + Duration::from_millis(200), |_| begin() > 1);
        if begin() > 1 {
            break;
        }
    }
    assert!(a.wait_until(deadline(), |_| begin() > 1), "the log is not cut");
    c.delete(&[PrimaryKey::Int64(3)]).unwrap();
    moments.push((moment(&a), next as u64 - 1));
    c.insert(batch(next..next + 5), None).unwrap();
    // Nobody cuts the log under who restores.
    drop((c, a));
    let mut restored = 0;
    for (number, (at, wanted)) in moments.into_iter().enumerate() {
        let dir = cluster.dir(100 + number);
        match restore_to_directory(&store, (at, NOW), &dir, options()) {
            Ok(_) => {
                assert_eq!(rows(&dir), wanted, "moment {number}");
                restored += 1;
            }
            // Before the oldest generation.
            Err(RestoreError::NotCovered { from: Some(from), .. }) => assert!(from > at),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(restored > 0, "nothing is covered");
    let refused = restore_to_directory(&store, (early, NOW), &cluster.dir(99), options());
    let RestoreError::NotCovered { from, why, .. } = refused.unwrap_err() else { panic!() };
    assert!(why.contains("was cut") && from.is_some_and(|from| from > early), "{why} {from:?}");
    let url = format!("file://{}", cluster.root.path().join("other").display());
    let other = ClusterStore::open(&url, "other").unwrap();
    let refused = restore_into_store(&store, (NOW, NOW), &other, None).unwrap_err();
    assert!(refused.to_string().contains("was cut"), "{refused}");
}

#[test]
fn a_moment_behind_a_cut_becomes_another_cluster() {
    let cluster = Cluster::new(0);
    let a = start_publishing(&cluster, 0, 100);
    until_leads(&a);
    let c = create(a.database(), "c");
    a.database().access().create_user("somebody", "Password1").unwrap();
    let store = cluster.store();
    let mut next = 0;
    while store.log_begin(crate::work::SHARD).unwrap() == 1 {
        c.insert(batch(next..next + 20), None).unwrap();
        next += 20;
        a.wait_until(Instant::now() + Duration::from_millis(200), |_| false);
    }
    let at = moment(&a);
    c.insert(batch(next..next + 5), None).unwrap();
    drop((c, a));
    let url = format!("file://{}", cluster.root.path().join("other").display());
    let other = ClusterStore::open(&url, "other").unwrap();
    let scratch = cluster.dir(50);
    let restore = || restore_into_store(&store, (at, NOW), &other, Some((&scratch, options())));
    restore().unwrap();
    assert_eq!(std::fs::read_dir(cluster.root.path()).unwrap().count(), 3, "nothing is left");
    assert!(matches!(restore().unwrap_err(), RestoreError::NotEmpty { .. }));
    // Nobody begins with a log that lacks what the files have.
    assert!(other.log_begin(crate::work::SHARD).unwrap() > 1);
    let dir = cluster.dir(9);
    let file = ReplicaFile::open(&dir, other.cluster_id(), Uuid::new_v4()).unwrap();
    let joining = ServerDirectory::new(&dir, &other, file);
    assert!(joining.wants_generation().unwrap());
    joining.take_generation("a test", UnixMs(1_000)).unwrap();
    let election = Arc::new(Vote { me: 0, elected: Arc::clone(&cluster.elected) });
    let b = open(&dir, ReplicaOptions::new(other, "restored".into(), election));
    until_leads(&b);
    assert_eq!(count(&b), next as u64);
    assert!(b.database().access().users().contains(&"somebody".to_owned()));
    b.database().collection("default", "c").unwrap().insert(batch(9000..9001), None).unwrap();
    assert_eq!(count(&b), next as u64 + 1);
}

#[test]
fn a_moment_behind_a_manifest_that_cannot_be_read_comes_back_all_the_same() {
    comes_back_without(|generations| {
        let newest = *generations.ids().unwrap().last().unwrap();
        pipeann_store::ShardGeneration::object(crate::work::SHARD, newest)
    });
}

#[test]
fn a_moment_behind_a_generation_that_is_not_whole_comes_back_all_the_same() {
    comes_back_without(|generations| {
        let ids = generations.ids().unwrap();
        let [.., older, newest] = ids[..] else { panic!("{ids:?}") };
        let objects_of = |id| {
            let held = PinnedGeneration::hold(generations, id, "test", Duration::from_secs(60));
            let held = held.unwrap().unwrap();
            held.generation().files.iter().map(|file| file.object()).collect::<Vec<_>>()
        };
        let older = objects_of(older);
        objects_of(newest).into_iter().find(|it| !older.contains(it)).expect("rows differ")
    });
}

/// Restores the moment of the newest generation when one bit of an object of it has turned.
fn comes_back_without(damaged: impl Fn(&pipeann_store::ShardGenerations) -> String) {
    let cluster = Cluster::new(0);
    let a = start_publishing(&cluster, 0, 100);
    until_leads(&a);
    let c = create(a.database(), "c");
    let store = cluster.store();
    let generations = pipeann_store::ShardGenerations::new(&store, crate::work::SHARD);
    let mut next = 0;
    while generations.ids().unwrap().len() < 3 {
        c.insert(batch(next..next + 20), None).unwrap();
        next += 20;
        let there = generations.ids().unwrap().len();
        a.wait_until(Instant::now() + Duration::from_millis(200), |_| {
            generations.ids().unwrap().len() > there
        });
    }
    let at = moment(&a);
    // Nobody cuts the log under who restores.
    drop((c, a));
    let object = damaged(&generations);
    let path = cluster.root.path().join("store").join(object);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let dir = cluster.dir(100);
    restore_to_directory(&store, (at, NOW), &dir, options()).unwrap();
    assert_eq!(rows(&dir), next as u64);
    assert_eq!(generations.pinned().unwrap(), []);
}

#[test]
fn every_moment_comes_back_for_as_long_as_the_log_is_kept() {
    const KEPT: Duration = Duration::from_secs(3600);
    let cluster = Cluster::new(0);
    let passed = Arc::new(AtomicU64::new(0));
    let clock = {
        let passed = Arc::clone(&passed);
        move || UnixMs(now().0 + passed.load(Ordering::SeqCst))
    };
    let election = Arc::new(Vote { me: 0, elected: Arc::clone(&cluster.elected) });
    let settings = ReplicaOptions {
        generation_bytes: 100,
        keep_log: KEPT,
        ..ReplicaOptions::new(cluster.store(), "server 0".to_owned(), election)
    };
    let database = DatabaseOptions::new(clock.clone());
    let a = Replica::open(&cluster.dir(0), database, settings, Uuid::new_v4()).unwrap();
    until_leads(&a);
    let c = create(a.database(), "c");
    let store = cluster.store();
    let begin = || store.log_begin(crate::work::SHARD).unwrap();
    let generations = pipeann_store::ShardGenerations::new(&store, crate::work::SHARD);
    let mut next = 0;
    // Inserts some rows, and waits for a generation of them; the moment, and the rows at it.
    let mut insert = || {
        let newest = || generations.ids().unwrap().last().copied();
        let before = newest();
        c.insert(batch(next..next + 20), None).unwrap();
        next += 20;
        let at = UnixMs(a.timestamp() >> 18);
        assert!(a.wait_until(deadline(), |_| clock().0 > at.0 + 1 && newest() > before));
        (at, next as u64)
    };
    let early: Vec<_> = (0..4).map(|_| insert()).collect();
    assert_eq!(begin(), 1, "nothing is cut that is young");
    passed.store(2 * KEPT.as_millis() as u64, Ordering::SeqCst);
    let mut late = Vec::new();
    while begin() == 1 {
        late.push(insert());
    }
    late.push(insert());
    // Nobody cuts the log under who restores.
    drop((c, a));
    let asked = clock();
    let restored = |number: usize, at: UnixMs| {
        let dir = cluster.dir(100 + number);
        restore_to_directory(&store, (at, asked), &dir, options()).map(|_| rows(&dir))
    };
    for (number, &(at, wanted)) in late.iter().enumerate() {
        assert_eq!(restored(number, at).unwrap(), wanted, "moment {number}");
    }
    // One just before the time that is kept, but behind the generation that is, comes back too.
    let (at, wanted) = early[early.len() - 1];
    match restored(50, at) {
        Ok(rows) => assert_eq!(rows, wanted),
        Err(RestoreError::NotCovered { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let gone = restored(51, early[0].0).unwrap_err();
    assert!(matches!(gone, RestoreError::NotCovered { .. }), "{gone}");
}
