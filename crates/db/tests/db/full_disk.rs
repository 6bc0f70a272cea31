//! A file system that is really full, or read-only: inserts, flushes, builds and openings fail with
//! an error that says so, nothing that was answered is lost, and reading goes on.
//!
//! The file system is a small one in memory, which only root may mount; elsewhere the tests say
//! that they were passed over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pipeann_db::catalog::{EntryChange, IndexState, NewIndex, Properties};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::ids::{ErrorClass, Metric};
use pipeann_db::schema::Batch;

use crate::data::{batch, collection, create, keys, options, place, rows, search_by, vector};

/// A mounted file system of 2 MiB, unmounted when dropped.
struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    /// `None`, after it was said, where this user may not mount.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m,nr_inodes=4096", "tmpfs"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self { dir }),
            other => {
                println!("passed over, since nothing can be mounted here: {other:?}");
                None
            }
        }
    }

    fn database(&self) -> PathBuf {
        self.dir.path().join("database")
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut bytes = vec![1; 1 << 20];
        let ballast = self.dir.path().join("ballast");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(ballast).unwrap();
        while !bytes.is_empty() {
            if std::io::Write::write_all(&mut file, &bytes).is_err() {
                bytes.truncate(bytes.len() / 2);
            }
        }
    }

    /// Gives back so many bytes of what was taken.
    fn leave(&self, bytes: u64) {
        let ballast = fs::OpenOptions::new().write(true).open(self.dir.path().join("ballast"));
        let ballast = ballast.unwrap();
        ballast.set_len(ballast.metadata().unwrap().len() - bytes).unwrap();
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &options]).arg(self.dir.path()).status();
        assert!(done.unwrap().success(), "{how}");
    }

    fn make_room(&self) {
        fs::remove_file(self.dir.path().join("ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.dir.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the test closed all its files");
    }
}

fn open(dir: &Path) -> Result<Database, DatabaseError> {
    Database::open(dir, options())
}

/// Inserts rows from `from` on until one is refused: how many were answered, and why not more.
fn insert_until_refused(c: &Collection, from: i64) -> (i64, CollectionError) {
    for key in from.. {
        if let Err(error) = c.insert(batch(&[(key, key as u32)]), None) {
            return (key, error);
        }
    }
    unreachable!("the file system is small")
}

/// Fails unless the first `answered` rows are there, in order, and nothing that was never sent.
fn assert_there(c: &Collection, answered: i64) {
    let found = rows(c);
    let expected = (0..answered).map(|key| (key, key as u32));
    assert!(expected.eq(found.iter().copied().take(answered as usize)), "{answered} rows");
    assert_eq!(found.len() as i64, answered, "none that was refused");
    assert_eq!(search_by(c, 1, vector(3))[0].row.key, keys(&[3])[0]);
}

fn assert_full(error: &CollectionError) {
    assert!(error.to_string().to_lowercase().contains("no space left"), "{error}");
}

#[test]
fn an_insert_on_a_full_disk_is_refused_and_the_collection_goes_on_being_read() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    for key in 0..20 {
        c.insert(batch(&[(key, key as u32)]), None).unwrap();
    }
    small.fill();
    let (answered, refused) = insert_until_refused(&c, 20);
    assert_full(&refused);
    let many: Vec<_> = (0..200).map(|key| (-key, 1)).collect();
    assert_full(&c.upsert(batch(&many), None).unwrap_err());
    assert_there(&c, answered);
    drop((c, database));

    // Without any room: it opens, is read, refuses writes and flushes, as often as one likes.
    for _ in 0..2 {
        let database = open(&small.database()).unwrap();
        let c = collection(&database);
        assert_there(&c, answered);
        assert_full(&c.insert(batch(&[(-1, 1)]), None).unwrap_err());
        assert_full(&c.delete(&keys(&[1])).unwrap_err());
        assert!(c.flush().is_err(), "there is no room for what it writes");
        assert_there(&c, answered);
    }
    let database = open(&small.database()).unwrap();
    let c = collection(&database);
    assert_full(&c.insert(batch(&[(-1, 1)]), None).unwrap_err());
    small.make_room();
    assert_there(&c, answered);
    c.upsert(batch(&[(-1, 1)]), None).unwrap();
    c.flush().unwrap();
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_flush_on_a_full_disk_fails_and_is_repeated_when_there_is_room() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    let some: Vec<_> = (0..2000).map(|key| (key, key as u32)).collect();
    c.insert(batch(&some), None).unwrap();
    c.flush().unwrap();
    // Room for the log of some more rows, and for no segment of vectors.
    let more: Vec<_> = (2000..2200).map(|key| (key, key as u32)).collect();
    c.insert(batch(&more), None).unwrap();
    small.fill();
    for _ in 0..3 {
        assert_full(&c.flush().unwrap_err());
    }
    assert_there(&c, 2200);
    drop((c, database));
    // What the log kept for itself.
    small.fill();
    let database = open(&small.database()).unwrap();
    let c = collection(&database);
    assert_there(&c, 2200);
    assert_full(&c.flush().unwrap_err());
    small.make_room();
    c.flush().unwrap();
    assert_there(&c, 2200);
    drop((c, database));
    let database = open(&small.database()).unwrap();
    assert_there(&collection(&database), 2200);
    assert_eq!(collection(&database).verify().unwrap(), []);
}

fn define_index(database: &Database) {
    let (field, kind, metric) = ("v".to_owned(), "DISKANN".to_owned(), Some(Metric::L2));
    let name = Some("graph".to_owned());
    let new = NewIndex { field, name, kind, metric, parameters: Properties::new() };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
}

/// The files as a kill would leave them now.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let there = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &there),
            false => drop(fs::copy(entry.path(), there).unwrap()),
        }
    }
}

#[test]
fn links_that_the_log_has_no_room_for_come_before_those_that_build_on_them() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    let some: Vec<_> = (0..600).map(|key| (key, key as u32)).collect();
    c.insert(batch(&some), None).unwrap();
    c.flush().unwrap();
    define_index(&database);
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 600);
    small.fill();
    let (answered, refused) = insert_until_refused(&c, 600);
    assert_full(&refused);
    // What is left of the room is too little for a row, and so for its edges.
    let why = loop {
        if let Some(why) = c.index_status("graph").unwrap().failed {
            break why;
        }
        std::thread::yield_now();
    };
    assert!(why.contains("no space left"), "{why}");
    assert_there(&c, answered);
    small.make_room();
    let more: Vec<_> = (answered..answered + 50).map(|key| (key, key as u32)).collect();
    c.insert(batch(&more), None).unwrap();
    let all = answered + 50;
    // Until the thread has looked again, nobody works on it.
    while c.wait_for_index("graph").unwrap().linked != all as u64 {
        std::thread::yield_now();
    }
    assert_eq!(c.verify().unwrap(), []);
    let killed = tempfile::tempdir().unwrap();
    copy_tree(&small.database(), &killed.path().join("database"));
    let again = open(&killed.path().join("database")).unwrap();
    let c = collection(&again);
    assert_there(&c, all);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, all as u64);
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_build_on_a_full_disk_fails_and_is_repeated_when_there_is_room() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    let some: Vec<_> = (0..2000).map(|key| (key, key as u32)).collect();
    c.insert(batch(&some), None).unwrap();
    c.flush().unwrap();
    define_index(&database);
    // Room for the state of the index in the catalogue, and for no graph.
    small.fill();
    small.leave(32 << 10);
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert!(!matches!(status.state, IndexState::Finished { .. }), "{status:?}");
    assert_eq!(status.linked, 0, "{status:?}");
    assert_there(&c, 2000);
    small.make_room();
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 2000 }, 2000));
    assert_there(&c, 2000);
    assert_eq!(c.verify().unwrap(), []);
}

/// Rows of a load, 20 from a key on.
fn part(from: i64) -> Batch {
    batch(&(from..from + 20).map(|key| (key, key as u32)).collect::<Vec<_>>())
}

fn loads_file(database: &Path) -> PathBuf {
    let collections = fs::read_dir(database.join("collections")).unwrap();
    collections.flatten().next().unwrap().path().join("LOADS")
}

#[test]
fn a_load_that_filled_the_disk_is_opened_and_goes_on_when_there_is_room() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    let mut load = c.begin_load("load", 7).unwrap();
    load.insert(part(0), None).unwrap();
    load.insert(part(20), None).unwrap();
    small.fill();
    assert_full(&load.insert(part(40), None).unwrap_err());
    drop(load);
    drop((c, database));
    // What the log kept for itself.
    small.fill();
    for _ in 0..2 {
        let database = open(&small.database()).unwrap();
        let c = collection(&database);
        assert_there(&c, 40);
        let mut load = c.begin_load("load", 7).unwrap();
        assert_eq!(load.rows(), 40);
        assert_full(&load.insert(part(40), None).unwrap_err());
        assert_full(&c.insert(part(40), None).unwrap_err());
    }
    let database = open(&small.database()).unwrap();
    let c = collection(&database);
    small.make_room();
    let mut load = c.begin_load("load", 7).unwrap();
    load.insert(part(load.rows() as i64), None).unwrap();
    load.finish().unwrap();
    assert_there(&c, 60);
}

#[test]
fn a_batch_of_a_load_that_is_not_there_stops_writes_until_there_is_room_to_note_it() {
    let Some(small) = Small::mount() else { return };
    // The files of a kill between the note of the second batch and the batch.
    let made = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| made.path().join(name));
    let database = open(&one).unwrap();
    let c = create(&database);
    c.begin_load("load", 7).unwrap().insert(part(0), None).unwrap();
    drop((c, database));
    copy_tree(&one, &two);
    let database = open(&two).unwrap();
    collection(&database).begin_load("load", 7).unwrap().insert(part(20), None).unwrap();
    drop(database);
    fs::copy(loads_file(&two), loads_file(&one)).unwrap();
    copy_tree(&one, &small.database());
    small.fill();
    for _ in 0..2 {
        let database = open(&small.database()).unwrap();
        let c = collection(&database);
        assert_there(&c, 20);
        assert_full(&c.insert(part(100), None).unwrap_err());
    }
    small.make_room();
    let database = open(&small.database()).unwrap();
    let c = collection(&database);
    let mut load = c.begin_load("load", 7).unwrap();
    assert_eq!(load.rows(), 20, "the second batch is not there");
    load.insert(part(20), None).unwrap();
    assert_there(&c, 40);
}

#[test]
fn a_graph_without_its_lock_file_is_opened_on_a_full_disk() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    let c = create(&database);
    let some: Vec<_> = (0..600).map(|key| (key, key as u32)).collect();
    c.insert(batch(&some), None).unwrap();
    define_index(&database);
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 600);
    c.flush().unwrap();
    drop((c, database));
    let parts = fs::read_dir(loads_file(&small.database()).parent().unwrap()).unwrap().flatten();
    let mut parts = parts.filter(|part| part.file_name().to_string_lossy().starts_with("index-"));
    let lock = parts.next().unwrap().path().join("LOCK");
    // The first opening may give back room, of what it tidies up.
    for _ in 0..3 {
        // As of one that was restored, or just built.
        fs::remove_file(&lock).unwrap();
        small.fill();
        let database = open(&small.database()).unwrap();
        let c = collection(&database);
        assert_there(&c, 600);
        assert_eq!(c.index_status("graph").unwrap().linked, 600);
    }
    assert_eq!(fs::read(&lock).unwrap(), b"", "there was no room to note who holds it");
}

#[test]
fn a_file_system_that_became_read_only_is_named() {
    let Some(small) = Small::mount() else { return };
    let database = open(&small.database()).unwrap();
    create(&database).insert(batch(&[(3, 3)]), None).unwrap();
    drop(database);
    small.remount("ro");
    let refused = open(&small.database()).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::FixInput, "{refused}");
    assert!(refused.to_string().contains("database"), "{refused}");
    small.remount("rw");
    let database = open(&small.database()).unwrap();
    assert_eq!(rows(&collection(&database)), [(3, 3)]);
}
