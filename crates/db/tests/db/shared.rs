//! Databases that several servers have: what one writes all have, in the order of the log that they
//! share; who leads no more changes nothing; what nobody knows the end of comes from the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pipeann_db::access::Proof;
use pipeann_db::catalog::{
    CatalogError, CollectionPath, EntryChange, IndexState, NewCollection, NewIndex, Properties,
    UnixMs,
};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::{Database, DatabaseError, DatabaseOptions, REPLICA_FILE};
use pipeann_db::ids::Metric;
use pipeann_db::replication::{
    ChangesUnderWay, MemoryLog, SharedChange, SharedLog, SharedLogError,
};

use crate::data::{batch, collection, create, keys, load, options, place, rows, schema, search_by};

/// One server: its directory, and how much of the log it has applied.
pub(crate) struct Server {
    pub(crate) database: Database,
    pub(crate) log: MemoryLog,
    pub(crate) applied: usize,
}

pub(crate) fn shared() -> DatabaseOptions {
    DatabaseOptions { shared: true, ..options() }
}

impl Server {
    pub(crate) fn open(dir: &Path, log: &MemoryLog, applied: usize) -> Self {
        std::fs::write(dir.join(REPLICA_FILE), "").unwrap();
        let database = Database::open(dir, shared()).unwrap();
        Self { database, log: log.clone(), applied }
    }

    pub(crate) fn catch_up(&mut self) {
        let apply = |change: &SharedChange<'_>| self.database.apply_shared(change, UnixMs(5));
        self.applied = self.log.read(self.applied, apply).unwrap();
    }

    /// Leads from now on; the switch loses the answer to the next append.
    pub(crate) fn lead(&mut self) -> Arc<AtomicBool> {
        let (term, lose_next) = self.log.lead();
        self.catch_up();
        self.database.lead(term).unwrap();
        lose_next
    }

    /// Follows, and has what the log has.
    fn follow(&mut self) {
        self.database.follow().unwrap();
        self.catch_up();
    }

    pub(crate) fn collection(&self) -> Arc<Collection> {
        collection(&self.database)
    }
}

pub(crate) fn insert(c: &Collection, keys: std::ops::Range<i64>) {
    for some in keys.collect::<Vec<_>>().chunks(100) {
        let rows: Vec<_> = some.iter().map(|&key| (key, key as u32)).collect();
        c.insert(batch(&rows), None).unwrap();
    }
}

pub(crate) fn graph() -> EntryChange {
    let (field, name) = ("v".to_owned(), Some("graph".to_owned()));
    let (kind, metric) = ("DISKANN".to_owned(), Some(Metric::L2));
    let new = NewIndex { field, name, kind, metric, parameters: Properties::new() };
    EntryChange::CreateIndex { place: place(), new }
}

#[test]
fn what_one_server_changes_another_has_with_a_graph_of_its_own() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let (mut a, mut b) = (Server::open(one.path(), &log, 0), Server::open(two.path(), &log, 0));
    a.lead();
    let c = create(&a.database);
    insert(&c, 0..900);
    c.upsert(batch(&[(7, 1007)]), None).unwrap();
    c.delete(&keys(&[8, 9])).unwrap();
    a.database.apply(graph()).unwrap();
    c.build_index("graph").unwrap();
    let built = c.wait_for_index("graph").unwrap();
    assert_eq!(built.linked, 898);
    b.catch_up();
    let d = b.collection();
    assert_eq!(rows(&d), rows(&c));
    assert_eq!(d.applied(), c.applied());
    let state = |c: &Collection| c.entry().unwrap().indexes[0].state.clone();
    assert_eq!(state(&d), IndexState::Finished { rows: 898 }, "what the leader says");
    let linked = d.wait_for_index("graph").unwrap();
    assert_eq!((linked.linked, linked.pending), (898, 0), "by itself");
    // Rows behind the graph, which each server links for itself, keep the numbers of records equal.
    insert(&c, 1_000..1_400);
    c.wait_for_index("graph").unwrap();
    c.delete(&keys(&[1_001])).unwrap();
    b.catch_up();
    assert_eq!(d.wait_for_index("graph").unwrap().pending, 0);
    assert_eq!((rows(&d), d.applied()), (rows(&c), c.applied()));
    let near = crate::data::vector(1_200);
    assert_eq!(search_by(&d, 1, near)[0].row.key, keys(&[1_200])[0]);
    // What has been applied is passed over.
    b.applied = 0;
    b.catch_up();
    assert_eq!(rows(&d), rows(&c));
}

#[test]
fn a_server_that_follows_takes_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let mut a = Server::open(dir.path(), &log, 0);
    let not_leading = |error: &SharedLogError| matches!(error, SharedLogError::NotLeading { .. });
    let refused = a.database.create_collection("default", "c", NewCollection::new(schema()));
    let refused = refused.unwrap_err();
    let DatabaseError::Catalog(CatalogError::Shared(why)) = &refused else { panic!("{refused}") };
    assert!(not_leading(why), "{why}");
    assert!(a.database.access().create_user("me", "Password1").is_err());
    a.lead();
    let c = create(&a.database);
    insert(&c, 0..10);
    a.follow();
    for refused in [
        c.insert(batch(&[(1, 1)]), None).map(drop),
        c.upsert(batch(&[(1, 1)]), None).map(drop),
        c.delete(&keys(&[1])).map(drop),
    ] {
        let refused = refused.unwrap_err();
        let CollectionError::Shared(why) = &refused else { panic!("{refused}") };
        assert!(not_leading(why), "{why}");
    }
    assert_eq!(c.count(None).unwrap(), 10);
    a.lead();
    insert(&c, 10..20);
    assert_eq!(c.count(None).unwrap(), 20);
}

/// A log that counts changes, and those of them that nobody would wait for while it takes them.
#[derive(Debug)]
struct Watched {
    log: Arc<dyn SharedLog>,
    under_way: Arc<ChangesUnderWay>,
    taken: AtomicUsize,
    unseen: AtomicUsize,
}

impl SharedLog for Watched {
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        let unseen = self.under_way.are_over(self.under_way.begun());
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.unseen.fetch_add(usize::from(unseen), Ordering::Relaxed);
        self.log.append(changes)
    }
}

#[test]
fn a_change_is_under_way_from_before_others_may_read_it_until_it_is_seen_here() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let a = Server::open(dir.path(), &log, 0);
    let under_way = Arc::clone(a.database.leadership().unwrap().under_way());
    let watched = Arc::new(Watched {
        log: log.lead().0,
        under_way: Arc::clone(&under_way),
        taken: AtomicUsize::new(0),
        unseen: AtomicUsize::new(0),
    });
    a.database.lead(Arc::clone(&watched) as Arc<dyn SharedLog>).unwrap();
    let c = create(&a.database);
    insert(&c, 0..10);
    c.delete(&keys(&[1])).unwrap();
    a.database.access().create_user("me", "Password1").unwrap();
    a.database.access().drop_user("me").unwrap();
    let CollectionPath { database, collection } = place();
    a.database.drop_collection(&database, &collection).unwrap();
    // A collection is made and loaded.
    assert_eq!(watched.taken.load(Ordering::Relaxed), 7);
    assert_eq!(watched.unseen.load(Ordering::Relaxed), 0);
    assert!(under_way.are_over(under_way.begun()), "nothing is under way any more");
}

#[test]
fn who_led_before_is_refused_and_takes_over_what_the_next_one_wrote() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let (mut a, mut b) = (Server::open(one.path(), &log, 0), Server::open(two.path(), &log, 0));
    a.lead();
    let c = create(&a.database);
    insert(&c, 0..100);
    b.lead();
    let d = b.collection();
    d.upsert(batch(&[(3, 77)]), None).unwrap();
    // It does not know yet.
    let refused = c.insert(batch(&[(500, 1)]), None).unwrap_err();
    assert!(matches!(refused, CollectionError::Stopped { .. }), "{refused}");
    assert!(refused.to_string().contains("lead"), "{refused}");
    let refused = a.database.apply(EntryChange::DropCollection { place: place() }).unwrap_err();
    assert!(matches!(refused, DatabaseError::Catalog(CatalogError::Shared(_))), "{refused}");
    assert_eq!(c.count(None).unwrap(), 100, "reads go on, and nothing refused is seen");
    a.follow();
    assert_eq!(rows(&c), rows(&d));
    // And back again; row ids and keys go on behind the other's.
    a.lead();
    let made = c.insert(batch(&[(600, 6)]), None).unwrap();
    assert_eq!(made.rows, 101..102);
    b.follow();
    assert_eq!(rows(&d), rows(&c));
}

#[test]
fn a_change_of_which_nobody_knows_the_end_comes_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let mut a = Server::open(dir.path(), &log, 0);
    let lose_next = a.lead();
    let c = create(&a.database);
    insert(&c, 0..50);
    lose_next.store(true, Ordering::Relaxed);
    let unknown = c.insert(batch(&[(700, 7)]), None).unwrap_err();
    assert!(matches!(unknown, CollectionError::Stopped { .. }), "{unknown}");
    assert_eq!(c.count(None).unwrap(), 50);
    a.follow();
    assert_eq!(c.count(None).unwrap(), 51, "it had got there");
    let lose_next = a.lead();
    lose_next.store(true, Ordering::Relaxed);
    let place = CollectionPath::new("default", "other");
    let new = Box::new(NewCollection::new(schema()));
    let change = EntryChange::CreateCollection { place, new };
    a.database.apply(change).unwrap_err();
    assert!(a.database.collection("default", "other").is_err());
    a.follow();
    a.database.collection("default", "other").unwrap();
    a.lead();
    insert(&c, 100..120);
    assert_eq!(c.count(None).unwrap(), 71);
}

#[test]
fn a_server_without_its_disk_has_everything_again_and_one_that_was_away_what_it_lacks() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let (mut a, mut b) = (Server::open(one.path(), &log, 0), Server::open(two.path(), &log, 0));
    a.lead();
    let c = create(&a.database);
    a.database.create_collection("default", "gone", NewCollection::new(schema())).unwrap();
    let gone = a.database.collection("default", "gone").unwrap();
    insert(&gone, 0..10);
    insert(&c, 0..300);
    b.catch_up();
    let away = b.applied;
    b.database.sync_applied().unwrap();
    drop(b);
    a.database.drop_collection("default", "gone").unwrap();
    a.database.access().create_user("me", "Password1").unwrap();
    a.database.apply(EntryChange::CreateAlias { place: place(), alias: "x".into() }).unwrap();
    c.delete(&keys(&[5])).unwrap();
    let mut b = Server::open(two.path(), &log, away);
    b.catch_up();
    let wiped = tempfile::tempdir().unwrap();
    let mut w = Server::open(wiped.path(), &log, 0);
    w.catch_up();
    for server in [&b, &w] {
        assert_eq!(rows(&server.collection()), rows(&c));
        assert!(server.database.collection("default", "gone").is_err());
        server.database.collection("default", "x").unwrap();
        assert!(server.database.access().users().contains(&"me".to_owned()));
        let proof = server.database.access().authenticates("me", "Password1", "Milvus");
        assert_eq!(proof, Proof::Right);
    }
    // Records before those that are missing are asked for by name.
    drop(b);
    let mut b = Server::open(two.path(), &log, 0);
    insert(&c, 400..402);
    b.applied = log.len();
    c.delete(&keys(&[400])).unwrap();
    let apply = |change: &SharedChange<'_>| b.database.apply_shared(change, UnixMs(5));
    let missing = log.read(b.applied, apply).unwrap_err().to_string();
    assert!(missing.contains("was to come"), "{missing}");
}

#[test]
fn writers_of_many_threads_lose_nothing_when_the_lead_changes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let (mut a, mut b) = (Server::open(one.path(), &log, 0), Server::open(two.path(), &log, 0));
    a.lead();
    create(&a.database);
    b.catch_up();
    load(&a.database);
    let answered = std::sync::Mutex::new(Vec::new());
    for round in 0..6i64 {
        let (leader, next) = if round % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let c = leader.collection();
        std::thread::scope(|scope| {
            for thread in 0..4i64 {
                let (c, answered) = (&c, &answered);
                scope.spawn(move || {
                    for i in 0.. {
                        let key = round * 100_000 + thread * 10_000 + i;
                        if c.insert(batch(&[(key, key as u32)]), None).is_err() {
                            return;
                        }
                        answered.lock().unwrap().push(key);
                    }
                });
            }
            let before = answered.lock().unwrap().len();
            while answered.lock().unwrap().len() < before + 40 {
                std::thread::yield_now();
            }
            next.lead();
        });
        leader.follow();
    }
    a.catch_up();
    b.catch_up();
    assert_eq!(rows(&a.collection()), rows(&b.collection()));
    let has: std::collections::BTreeSet<i64> = rows(&a.collection()).iter().map(|r| r.0).collect();
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() > 100, "{} writes", answered.len());
    assert!(answered.iter().all(|key| has.contains(key)), "an answered row is lost");
}

#[test]
fn a_directory_of_one_server_is_not_taken_for_one_of_several_nor_the_other_way() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path(), options()).unwrap());
    let refused = Database::open(dir.path(), shared()).unwrap_err();
    assert!(matches!(refused, DatabaseError::OfOne { .. }), "{refused}");
    let dir = tempfile::tempdir().unwrap();
    drop(Server::open(dir.path(), &MemoryLog::default(), 0));
    let refused = Database::open(dir.path(), options()).unwrap_err();
    assert!(matches!(refused, DatabaseError::OfSeveral { .. }), "{refused}");
}
