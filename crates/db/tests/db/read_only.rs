//! Readers beside a writer, of this process or another one.
//!
//! The children are this test binary itself, running `works_as_told` and `reads_until_killed`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pipeann_db::catalog::EntryChange;
use pipeann_db::collection::CollectionError;
use pipeann_db::database::{Database, DatabaseError, ReadOnlyOptions};
use pipeann_db::disk::LockError;
use pipeann_db::snapshot::SnapshotError;

use crate::data::{
    batch, collection, create, files, keys, names, open, options, place, rows, search_by, vector,
};

fn read(dir: &Path) -> Database {
    Database::open_read_only(dir, ReadOnlyOptions::new(options())).unwrap()
}

/// Bytes of all files below `dir`, each counted once, whatever it is called.
fn bytes_on_disk(dir: &Path) -> u64 {
    let about = files(dir).into_iter().map(|file| file.metadata().unwrap());
    about.map(|about| (about.ino(), about.len())).collect::<BTreeMap<_, _>>().values().sum()
}

/// `count` rows with seeds from `seed` on.
fn seeded(count: i64, seed: u32) -> Vec<(i64, u32)> {
    (0..count).map(|i| (i, seed + i as u32)).collect()
}

#[test]
fn a_reader_sees_all_that_was_answered_and_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&seeded(300, 0)), None).unwrap();
    c.flush().unwrap();
    // Not flushed.
    c.upsert(batch(&[(3, 9003)]), None).unwrap();
    let mut expected = rows(&c);
    let mut reader = read(dir.path());
    let r = collection(&reader);
    assert_eq!(rows(&r), expected);
    assert_eq!(reader.as_of().unwrap().collections[0].seq, c.stats().visible);
    assert_eq!(database.as_of(), None);

    for round in 1..6 {
        c.upsert(batch(&seeded(300, round * 1000)), None).unwrap();
        c.flush().unwrap();
    }
    c.delete(&keys(&(0..299).collect::<Vec<_>>())).unwrap();
    c.flush().unwrap();
    assert_eq!(rows(&r), expected);
    let hits = search_by(&r, 1, vector(9003));
    assert_eq!(hits[0].distance, 0.0);
    assert_eq!(reader.verify().unwrap(), []);

    reader.refresh().unwrap();
    assert_eq!(rows(&collection(&reader)), rows(&c));
    assert_eq!(rows(&r), expected, "what was taken before stays where it is");
    drop((r, reader, c, database));
    // Without a writer it is the same.
    expected = rows(&collection(&read(dir.path())));
    assert_eq!(rows(&collection(&open(dir.path()))), expected);
}

#[test]
fn a_reader_refuses_writes_and_leaves_the_database_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    create(&database).insert(batch(&seeded(20, 0)), None).unwrap();
    drop(database);
    let shown = |dir: &Path| {
        files(dir).into_iter().map(|f| (std::fs::read(&f).unwrap(), f)).collect::<Vec<_>>()
    };
    let (before, pins) = (shown(dir.path()), tempfile::tempdir().unwrap());
    let elsewhere =
        ReadOnlyOptions { pins: Some(pins.path().to_owned()), ..ReadOnlyOptions::new(options()) };
    let reader = Database::open_read_only(dir.path(), elsewhere).unwrap();
    let c = collection(&reader);
    assert_eq!(rows(&c), seeded(20, 0));
    for refused in [
        c.insert(batch(&[(90, 1)]), None).unwrap_err(),
        c.upsert(batch(&[(1, 1)]), None).unwrap_err(),
        c.delete(&keys(&[1])).unwrap_err(),
    ] {
        assert!(matches!(refused, CollectionError::ReadOnly), "{refused}");
    }
    let refused = reader.drop_collection("default", "c").unwrap_err();
    assert!(matches!(refused, DatabaseError::ReadOnly { .. }), "{refused}");
    let refused =
        reader.apply(EntryChange::Release { place: place(), partitions: None }).unwrap_err();
    assert!(refused.to_string().contains(&dir.path().display().to_string()), "{refused}");
    assert_eq!(shown(dir.path()), before);
    drop((c, reader));
    assert_eq!(shown(dir.path()), before);
    assert_eq!(names(pins.path()), [""; 0]);
}

#[test]
fn directories_that_are_no_database_are_not_read_nor_changed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "mine").unwrap();
    let options = || ReadOnlyOptions::new(options());
    let refused = Database::open_read_only(dir.path(), options()).unwrap_err();
    let foreign = DatabaseError::Snapshot(SnapshotError::NotADatabase {
        dir: dir.path().canonicalize().unwrap(),
        file: "CATALOG",
    });
    assert_eq!(refused.to_string(), foreign.to_string());
    assert_eq!(names(dir.path()), ["thesis.txt"]);
    let missing = dir.path().join("missing");
    Database::open_read_only(&missing, options()).unwrap_err();
    assert!(!missing.exists());
}

/// A child, what it is told and what it says.
struct Told {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Told {
    fn start(test: &str, dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = Self { stdin: child.stdin.take().unwrap(), child, lines };
        told.tell(&dir.display().to_string());
        told
    }

    /// Tells it something, and waits until it is done.
    fn tell(&mut self, what: &str) {
        writeln!(self.stdin, "{what}").unwrap();
        let done = self.lines.any(|line| line.unwrap().ends_with("done"));
        assert!(done, "the child did `{what}`");
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        assert!(!self.child.wait().unwrap().success());
    }
}

#[test]
#[ignore = "runs as the child of `a_reader_of_another_process_holds_what_it_sees`"]
fn works_as_told() {
    let mut lines = std::io::stdin().lines().map_while(Result::ok);
    let Some(dir) = lines.next() else { return };
    let database = open(dir.as_ref());
    let c = create(&database);
    println!("done");
    for line in lines {
        match line.as_str() {
            "insert" => drop(c.insert(batch(&seeded(500, 0)), None).unwrap()),
            "flush" => drop(c.flush().unwrap()),
            "replace" => {
                for round in 1..5 {
                    c.upsert(batch(&seeded(500, round * 1000)), None).unwrap();
                    c.flush().unwrap();
                }
            }
            "drop" => drop(c.delete(&keys(&(0..500).collect::<Vec<_>>())).unwrap()),
            other => panic!("{other}"),
        }
        println!("done");
    }
}

#[test]
fn a_reader_of_another_process_holds_what_it_sees() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Told::start("read_only::works_as_told", dir.path());
    writer.tell("insert");
    let refused = Database::open(dir.path(), options()).unwrap_err();
    let DatabaseError::Lock(LockError::Held { holder, .. }) = &refused else { panic!("{refused}") };
    assert_eq!(holder.as_ref().map(|holder| holder.pid), Some(writer.child.id()));
    assert!(refused.to_string().contains("read-only"), "it says what helps: {refused}");

    let first = read(dir.path());
    assert_eq!(rows(&collection(&first)), seeded(500, 0), "from the log");
    writer.tell("flush");
    let second = read(dir.path());
    writer.tell("replace");
    let third = read(dir.path());
    writer.tell("drop");
    writer.tell("flush");
    for (reader, seed) in [(&first, 0), (&second, 0), (&third, 4000)] {
        assert_eq!(rows(&collection(reader)), seeded(500, seed));
        assert_eq!(reader.verify().unwrap(), []);
    }
    assert_eq!(rows(&collection(&read(dir.path()))), []);

    let held = bytes_on_disk(dir.path());
    drop((first, second, third));
    assert_eq!(names(&dir.path().join("pins")), [""; 0]);
    assert!(bytes_on_disk(dir.path()) < held, "what only they read takes no space any more");
    writer.kill();
    assert_eq!(rows(&collection(&open(dir.path()))), []);
}

#[test]
#[ignore = "runs as the child of `what_a_killed_reader_held_is_freed`"]
fn reads_until_killed() {
    let mut lines = std::io::stdin().lines().map_while(Result::ok);
    let Some(dir) = lines.next() else { return };
    let reader = read(dir.as_ref());
    println!("done");
    lines.for_each(drop);
    drop(reader);
}

#[test]
fn what_a_killed_reader_held_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    create(&database).insert(batch(&seeded(100, 0)), None).unwrap();
    let pins = dir.path().join("pins");
    for next in ["reader", "writer"] {
        let reader = Told::start("read_only::reads_until_killed", dir.path());
        let alive = read(dir.path());
        assert_eq!(names(&pins).len(), 4, "two pins with their locks");
        reader.kill();
        drop(alive);
        assert_eq!(names(&pins).len(), 2, "the pin of the killed one");
        if next == "reader" {
            let another = read(dir.path());
            assert_eq!(names(&pins).len(), 2, "its own");
            drop(another);
        }
    }
    drop(database);
    open(dir.path());
    assert_eq!(names(&pins), [""; 0]);
}
