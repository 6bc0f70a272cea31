//! What a server does that cannot lead, or goes on, though it was elected: its disk or its history is not
//! what the log says, or another one led in between.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use pipeann_members::HandClock;
use pipeann_members::memory::SharedMemory;
use pipeann_store::Position;

use super::*;
use crate::work::SHARD;

/// Whom everybody takes for elected, and by which election; that is certain for long.
#[derive(Debug)]
struct NamedVote {
    me: usize,
    elected: Arc<Mutex<(usize, u64)>>,
}

impl Election for NamedVote {
    fn elected(&self) -> Elected {
        let other = || Elected::Other { address: "another".into() };
        self.elected_as().map_or_else(other, |_| Elected::Me)
    }

    fn stand(&self, _newest_term: u64) {}

    fn give_up(&self) {}

    fn elected_as(&self) -> Option<u64> {
        let (server, election) = *self.elected.lock().unwrap();
        (server == self.me).then_some(election)
    }

    fn certain_for(&self, election: u64) -> Duration {
        let is_so = self.elected_as() == Some(election);
        if is_so { Duration::from_secs(600) } else { Duration::ZERO }
    }
}

#[test]
fn a_server_that_is_elected_again_before_it_has_looked_has_what_another_wrote_between() {
    let cluster = Cluster::new(0);
    let elected = Arc::new(Mutex::new((0, 1)));
    let start = |me: usize, poll| {
        let election = Arc::new(NamedVote { me, elected: Arc::clone(&elected) });
        let options = ReplicaOptions::new(cluster.store(), format!("server {me}"), election);
        open(&cluster.dir(me), ReplicaOptions { poll, idle_poll: poll, ..options })
    };
    // The first one looks only when it is told to.
    let (a, b) = (start(0, Duration::from_secs(3600)), start(1, Duration::from_millis(20)));
    until_leads(&a);
    create(a.database(), "c").insert(batch(0..10), None).unwrap();
    assert!(a.leads_up_to().is_some() && a.has(ReadFreshness::Latest));
    let term = a.status().leads;
    *elected.lock().unwrap() = (1, 2);
    until_leads(&b);
    let d = b.database().collection("default", "c").unwrap();
    d.insert(batch(10..12), None).unwrap();
    *elected.lock().unwrap() = (0, 3);
    assert_eq!(a.status().leads, term, "it has looked");
    assert_eq!(a.leads_up_to(), None);
    assert!(!a.has(ReadFreshness::Latest));
    assert_eq!(count(&a), 12);
    until_leads(&a);
    assert!(a.status().leads > term);
    // A look is enough to end the term.
    let term = a.status().leads;
    *elected.lock().unwrap() = (0, 5);
    a.nudge();
    let leads_anew = |it: &Replica| it.status().leads > term;
    assert!(a.wait_until(deadline(), leads_anew), "it goes on by the election of before");
}

/// Servers that elect as those of etcd do, by a clock that stands still.
struct Members {
    cluster: Cluster,
    memory: Arc<SharedMemory>,
}

/// One of them.
struct Member {
    replica: Replica,
    members: Arc<ClusterMembership>,
    /// That it has to be opened anew.
    told: Receiver<()>,
}

impl Members {
    fn new() -> Self {
        let (cluster, clock) = (Cluster::new(0), Arc::new(HandClock::default()));
        let (id, lease) = (cluster.store().cluster_id(), Duration::from_secs(1));
        let memory = SharedMemory::new(id, lease, Arc::clone(&clock) as _);
        clock.advance(lease);
        Self { cluster, memory }
    }

    fn start(&self, server: usize) -> Member {
        let store = self.cluster.store();
        let end = self.memory.connect(store.cluster_id()).unwrap();
        let members = ClusterMembership::join(end, server_info(server as u128 + 1, 0)).unwrap();
        let members = Arc::new(members);
        let election = Arc::clone(&members) as Arc<dyn Election>;
        let (cut_off, told) = sync_channel(1);
        let options = ReplicaOptions {
            cut_off: Some(cut_off),
            reopen_after: Duration::ZERO,
            ..ReplicaOptions::new(store, format!("server {server}"), election)
        };
        let mut database = DatabaseOptions::new(|| UnixMs(1_700_000_000_000));
        // Each put into the own log is a file of its own.
        database.collection.log.segment_bytes = 1;
        let replica = Replica::open(&self.cluster.dir(server), database, options, Uuid::new_v4());
        Member { replica: replica.unwrap(), members, told }
    }

    /// Has the log of a server's only collection be gone, or come back, so that its disk fails.
    fn hide_log(&self, server: usize, is_hidden: bool) {
        let inside = self.cluster.dir(server).join("collections");
        let entry = std::fs::read_dir(inside).unwrap().next().unwrap();
        let (there, away) = (entry.as_ref().unwrap().path().join("wal"), self.aside(server));
        let (from, to) = if is_hidden { (&there, &away) } else { (&away, &there) };
        std::fs::rename(from, to).unwrap();
    }

    fn aside(&self, server: usize) -> PathBuf {
        self.cluster.root.path().join(format!("aside-{server}"))
    }
}

impl Member {
    fn end(self) {
        drop(self.replica);
        self.members.leave().unwrap();
    }

    fn collection(&self) -> Arc<Collection> {
        self.replica.database().collection("default", "c").unwrap()
    }
}

#[test]
fn a_server_that_cannot_apply_the_log_does_not_lead_in_the_place_of_one_that_can() {
    let servers = Members::new();
    let a = servers.start(0);
    until_leads(&a.replica);
    let b = servers.start(1);
    catch_up(&b.replica);
    // It stands for the lead by now, and can make no collection.
    let (inside, aside) = (servers.cluster.dir(1).join("collections"), servers.aside(1));
    let was_there = std::fs::rename(&inside, &aside).is_ok();
    std::fs::write(&inside, "").unwrap();
    create(a.replica.database(), "c").insert(batch(0..3), None).unwrap();
    let fails = |it: &Replica| it.status().trouble.is_some();
    assert!(b.replica.wait_until(deadline(), fails), "it makes a collection in a file");
    a.end();
    let c = servers.start(2);
    until_leads(&c.replica);
    assert_eq!(count(&c.replica), 3);
    // When it can again, it stands again.
    std::fs::remove_file(&inside).unwrap();
    if was_there {
        std::fs::rename(&aside, &inside).unwrap();
    }
    assert_eq!(count(&b.replica), 3);
    c.end();
    until_leads(&b.replica);
}

#[test]
fn a_leader_whose_disk_has_failed_leads_no_more_and_asks_to_be_opened_anew() {
    let servers = Members::new();
    let a = servers.start(0);
    until_leads(&a.replica);
    let c = create(a.replica.database(), "c");
    c.insert(batch(0..10), None).unwrap();
    let b = servers.start(1);
    assert_eq!(count(&b.replica), 10);
    servers.hide_log(0, true);
    // It is in the log that servers share.
    let refused = c.insert(batch(10..20), None).unwrap_err();
    assert!(matches!(refused, CollectionError::Stopped { .. }), "{refused}");
    assert!(!a.replica.has(ReadFreshness::Latest) && a.replica.leads_up_to().is_none());
    let soon = Instant::now() + Duration::from_millis(500);
    a.replica.catch_up(ReadFreshness::Latest, soon).unwrap_err();
    until_leads(&b.replica);
    assert_eq!(count(&b.replica), 20);
    b.collection().insert(batch(20..21), None).unwrap();
    assert!(!a.replica.has(ReadFreshness::AtLeast(b.replica.timestamp())));
    a.told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(!a.replica.status().cut_off, "its files are as good as any");
    drop(c);
    a.end();
    servers.hide_log(0, false);
    let a = servers.start(0);
    assert_eq!(count(&a.replica), 21);
}

#[test]
fn a_server_that_follows_and_whose_disk_has_failed_asks_to_be_opened_anew() {
    let servers = Members::new();
    let a = servers.start(0);
    until_leads(&a.replica);
    let c = create(a.replica.database(), "c");
    let b = servers.start(1);
    c.insert(batch(0..10), None).unwrap();
    assert_eq!(count(&b.replica), 10);
    servers.hide_log(1, true);
    c.insert(batch(10..20), None).unwrap();
    b.told.recv_timeout(Duration::from_secs(60)).unwrap();
    b.end();
    servers.hide_log(1, false);
    assert_eq!(count(&servers.start(1).replica), 20);
}

/// The file of an object of the log.
fn object(cluster: &Cluster, number: u64) -> PathBuf {
    let mut left = vec![cluster.root.path().join("store")];
    while let Some(dir) = left.pop() {
        let object = dir.join(format!("log/{}/{number:020}", SHARD.0));
        if object.exists() {
            return object;
        }
        let inside = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        left.extend(inside.filter(|path| path.is_dir()));
    }
    panic!("object {number} is nowhere");
}

fn file_of(cluster: &Cluster, server: usize) -> ReplicaFile {
    let store = cluster.store();
    ReplicaFile::open(&cluster.dir(server), store.cluster_id(), Uuid::nil()).unwrap()
}

fn wants_generation(cluster: &Cluster, server: usize) -> Result<bool, ReplicaError> {
    let (dir, file) = (cluster.dir(server), file_of(cluster, server));
    ServerDirectory::new(&dir, &cluster.store(), file).wants_generation()
}

/// A cluster whose store has lost the last object that the first server had put, rows of its own.
fn lost_last_object() -> (Cluster, Position) {
    let cluster = Cluster::new(0);
    let a = cluster.start(0);
    until_leads(&a);
    let c = create(a.database(), "c");
    (0..5).for_each(|i| drop(c.insert(batch(i * 10..i * 10 + 10), None).unwrap()));
    drop((a, c));
    let last = file_of(&cluster, 0).position().unwrap();
    std::fs::remove_file(object(&cluster, last.number)).unwrap();
    (cluster, last)
}

#[test]
fn a_directory_that_is_ahead_of_the_store_is_not_mixed_with_what_the_log_has() {
    let (cluster, last) = lost_last_object();
    let refused = wants_generation(&cluster, 0).unwrap_err();
    assert!(matches!(refused, ReplicaError::Diverged { number, .. } if number == last.number));
    assert!(refused.to_string().contains("empty"), "{refused}");
    // One that was opened without a look asks for one, and does not lead.
    let (a, told) = cluster.start_publishing(0, u64::MAX);
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(a.status().cut_off && a.status().leads.is_none());
    drop(a);
    wants_generation(&cluster, 0).unwrap_err();
    std::fs::remove_dir_all(cluster.dir(0)).unwrap();
    assert!(!wants_generation(&cluster, 0).unwrap());
    let a = cluster.start(0);
    until_leads(&a);
    assert_eq!(count(&a), 40);
}

#[test]
fn a_log_that_does_not_fit_from_its_begin_on_is_not_read_again_and_again() {
    let (cluster, last) = lost_last_object();
    // Killed before it had noted the last object, it does not know that the log had more.
    let before = Position { number: last.number - 1, ..last };
    file_of(&cluster, 0).at(before).save(&cluster.dir(0)).unwrap();
    assert!(!wants_generation(&cluster, 0).unwrap());
    let a = cluster.start(0);
    until_leads(&a);
    let c = a.database().collection("default", "c").unwrap();
    c.insert(batch(100..101), None).unwrap();
    // What comes behind the rows that only that server has, follows nothing elsewhere.
    let (b, told) = cluster.start_publishing(1, u64::MAX);
    let refused = b.catch_up(ReadFreshness::Latest, deadline()).unwrap_err().to_string();
    assert!(refused.contains("empty"), "{refused}");
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(b.status().cut_off && !b.has(ReadFreshness::Any));
    drop(b);
    let refused = wants_generation(&cluster, 1).unwrap_err();
    assert!(matches!(refused, ReplicaError::Misfit { .. }), "{refused}");
}

#[test]
fn a_server_that_lacks_what_it_noted_reads_the_log_once_more() {
    let cluster = Cluster::new(0);
    let (a, c) = led_while_another_was_there(&cluster);
    c.insert(batch(10..20), None).unwrap();
    let number = a.store().log_end(SHARD, 0).unwrap().unwrap();
    let noted = Position { term: a.status().leads.unwrap(), number };
    file_of(&cluster, 1).at(noted).save(&cluster.dir(1)).unwrap();
    c.insert(batch(20..30), None).unwrap();
    let b = cluster.start(1);
    assert_eq!(count(&b), 30);
    assert!(!b.status().cut_off);
}
