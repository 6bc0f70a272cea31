//! Servers of one database whose own disks fail: no row is passed over for it, the server says that it
//! has to be opened again, and what is well of it goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipeann_db::catalog::{NewCollection, UnixMs};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::disk::{CrashDisk, FaultKind, PlannedFault};
use pipeann_db::replication::{MemoryLog, SharedChange, SharedLog, SharedLogError};

use crate::data::{batch, create, rows, schema};
use crate::shared::{Server, insert, shared};

/// A server whose catalogue and logs are on `disk`, and whose vectors are in the directory `files`.
fn simulated(disk: &CrashDisk, files: &Path, log: &MemoryLog) -> Server {
    let disk = Arc::new(disk.clone());
    let database = Database::open_simulated(disk, files.to_owned(), shared()).unwrap();
    Server { database, log: log.clone(), applied: 0 }
}

/// A server whose disk can be made to fail, and another one with files of its own.
struct Two {
    files: [tempfile::TempDir; 2],
    log: MemoryLog,
    disk: CrashDisk,
}

impl Two {
    fn new() -> Self {
        let files = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { files, log: MemoryLog::default(), disk: CrashDisk::new() }
    }

    /// Both, of which the first leads, and its collection.
    fn servers(&self) -> (Server, Server, Arc<Collection>) {
        let mut a = simulated(&self.disk, self.files[0].path(), &self.log);
        let b = Server::open(self.files[1].path(), &self.log, 0);
        a.lead();
        let c = create(&a.database);
        (a, b, c)
    }
}

/// Makes that no collection can be opened below `files` until what is returned is removed.
fn bar(files: &Path) -> PathBuf {
    let barred = files.join("collections");
    fs::write(&barred, "").unwrap();
    barred
}

fn fail_next(disk: &CrashDisk) {
    disk.inject(PlannedFault { operation: disk.operations() + 1, kind: FaultKind::Io });
}

fn other(database: &Database) -> Arc<Collection> {
    database.collection("default", "other").unwrap()
}

#[test]
fn records_of_a_collection_that_cannot_be_opened_are_not_passed_over() {
    let (one, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = MemoryLog::default();
    let mut a = Server::open(one.path(), &log, 0);
    a.lead();
    let c = create(&a.database);
    let made = log.len();
    insert(&c, 0..50);
    let mut b = simulated(&CrashDisk::new(), files.path(), &log);
    let barred = bar(files.path());
    // Its creation, the same once more, and records alone.
    for from in [0, 0, made] {
        let apply = |change: &SharedChange<'_>| b.database.apply_shared(change, UnixMs(5));
        let refused = log.read(from, apply).unwrap_err();
        assert!(matches!(refused, DatabaseError::Collection { .. }), "{refused}");
        b.database.sync_applied().expect_err("a start from there on would lack its rows");
    }
    b.database.lead(log.lead().0).unwrap_err();
    assert!(!b.database.leadership().unwrap().leads());
    fs::remove_file(&barred).unwrap();
    b.applied = made;
    b.catch_up();
    b.applied = 0;
    b.catch_up();
    assert_eq!(rows(&b.collection()), rows(&c));
    b.database.sync_applied().unwrap();
}

/// A log that takes so many more changes of a leader.
#[derive(Debug)]
struct Ending {
    log: Arc<dyn SharedLog>,
    left: AtomicUsize,
}

impl SharedLog for Ending {
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        let less = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => self.log.append(changes),
            Err(_) => Err(SharedLogError::NotLeading { why: "its term is over".into() }),
        }
    }
}

#[test]
fn a_collection_that_a_leader_could_neither_open_nor_drop_is_opened_later() {
    let files = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let mut a = simulated(&CrashDisk::new(), files.path(), &log);
    let barred = bar(files.path());
    let ending = Ending { log: log.lead().0, left: AtomicUsize::new(1) };
    a.database.lead(Arc::new(ending)).unwrap();
    a.database.create_collection("default", "c", NewCollection::new(schema())).unwrap_err();
    a.database.catalog().collection("default", "c").expect("others have it");
    a.database.follow().unwrap();
    a.database.sync_applied().unwrap_err();
    a.database.lead(log.lead().0).expect_err("it would publish the collection without rows");
    fs::remove_file(&barred).unwrap();
    a.applied = log.len();
    a.lead();
    insert(&a.collection(), 0..10);
    assert_eq!(a.collection().count(None).unwrap(), 10);
    a.database.sync_applied().unwrap();
}

#[test]
fn a_server_says_when_its_own_disk_has_failed_and_not_when_it_is_refused() {
    let two = Two::new();
    let (log, disk) = (two.log.clone(), two.disk.clone());
    let (mut a, mut b, c) = two.servers();
    insert(&c, 0..10);
    assert_eq!(a.database.stopped(), None);
    b.lead();
    let refused = c.insert(batch(&[(50, 5)]), None).unwrap_err();
    assert!(matches!(refused, CollectionError::Stopped { .. }), "{refused}");
    assert_eq!(a.database.stopped(), None, "it is well, and leads no more");
    a.database.follow().unwrap();
    assert_eq!(a.database.stopped(), None);
    a.lead();
    insert(&c, 10..20);
    let before = log.len();
    fail_next(&disk);
    let failed = c.insert(batch(&[(60, 6)]), None).unwrap_err();
    assert!(matches!(failed, CollectionError::Stopped { .. }), "{failed}");
    assert_eq!(log.len(), before + 1, "others have it");
    let why = a.database.stopped().unwrap();
    assert!(why.starts_with("collection `c`: "), "{why}");
}

#[test]
fn a_sync_that_fails_stops_a_server_before_anybody_writes() {
    let files = tempfile::tempdir().unwrap();
    let (log, disk) = (MemoryLog::default(), CrashDisk::new());
    let mut a = simulated(&disk, files.path(), &log);
    a.lead();
    insert(&create(&a.database), 0..10);
    fail_next(&disk);
    a.database.sync_applied().unwrap_err();
    assert!(a.database.stopped().is_some());
}

#[test]
fn collections_follow_though_another_one_has_failed() {
    let two = Two::new();
    let (log, disk) = (two.log.clone(), two.disk.clone());
    let (mut a, mut b, c) = two.servers();
    let well = NewCollection::new(schema());
    let well = a.database.create_collection("default", "other", well).unwrap();
    insert(&c, 0..10);
    insert(&well, 0..10);
    fail_next(&disk);
    c.insert(batch(&[(60, 6)]), None).unwrap_err();
    let failed = a.database.follow().unwrap_err().to_string();
    assert!(failed.starts_with("collection `c`: "), "{failed}");
    assert!(well.follows(), "it comes behind the one that has failed");
    b.lead();
    a.applied = log.len();
    insert(&other(&b.database), 10..20);
    a.catch_up();
    assert_eq!(rows(&well), rows(&other(&b.database)));
    assert!(a.database.stopped().is_some(), "the other one is to be opened again");
}
