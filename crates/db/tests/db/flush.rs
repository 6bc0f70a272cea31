//! Flushes at each level of the log, beside writers and beside the thread that links rows: no
//! component may hold durably what a power cut would take from the log, or the collection would
//! not open again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_db::catalog::{EntryChange, NewCollection, NewIndex, Properties, UnixMs};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::ids::Metric;
use pipeann_db::wal::Level;

use crate::data::{batch, collection, create, files, keys, options, place, schema};

fn settings(level: Level) -> DatabaseOptions {
    let mut settings = options();
    settings.collection.log.level = level;
    settings.collection.graph.pending_rows = 100_000;
    settings
}

fn rows(from: i64, count: i64) -> Vec<(i64, u32)> {
    (from..from + count).map(|key| (key, key as u32)).collect()
}

#[test]
fn what_is_flushed_beside_writers_is_in_the_log_whatever_its_level() {
    for level in [Level::None, Level::Group { delay_ms: 1 }, Level::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path(), settings(level)).unwrap();
        let c = create(&database);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (c, done) = (&c, &done);
                scope.spawn(move || {
                    for key in (writer * 1_000_000..).take_while(|_| !done.load(Ordering::Relaxed))
                    {
                        c.insert(batch(&rows(key, 1)), None).unwrap();
                    }
                });
            }
            for _ in 0..60 {
                c.flush().unwrap();
                let stats = c.stats();
                assert!(stats.flushed <= stats.synced, "{level:?}: {stats:?}");
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(c.verify().unwrap(), []);
    }
}

#[test]
fn what_is_flushed_beside_the_linking_of_rows_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path(), settings(Level::Sync)).unwrap();
    let c = create(&database);
    c.insert(batch(&rows(0, 1000)), None).unwrap();
    let (field, kind, metric) = ("v".to_owned(), "DISKANN".to_owned(), Some(Metric::L2));
    let name = Some("graph".to_owned());
    let new = NewIndex { field, name, kind, metric, parameters: Properties::new() };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    let mut flushes = 0;
    for round in 0..4 {
        c.insert(batch(&rows(1000 + round * 2000, 2000)), None).unwrap();
        while c.index_status("graph").unwrap().pending > 0 {
            c.flush().unwrap();
            let stats = c.stats();
            assert!(stats.flushed <= stats.synced, "{stats:?}");
            flushes += 1;
        }
    }
    assert!(flushes > 4, "{flushes} flushes beside linking");
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn at_every_level_a_process_that_ends_without_a_flush_loses_nothing() {
    for level in [Level::None, Level::Group { delay_ms: 1 }, Level::Sync] {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let database = Database::open(dir.path(), settings(level)).unwrap();
            let c = if round == 0 { create(&database) } else { collection(&database) };
            assert_eq!(c.count(None).unwrap(), round as u64 * 50, "{level:?}");
            c.insert(batch(&rows(round * 100, 60)), None).unwrap();
            c.delete(&keys(&(round * 100..round * 100 + 10).collect::<Vec<_>>())).unwrap();
            assert_eq!(c.verify().unwrap(), []);
        }
    }
}

#[test]
fn flushes_behind_the_writes_lose_nothing_and_cut_the_log() {
    let mut settings = settings(Level::Sync);
    settings.collection.flush_behind = true;
    let (dir, writers, each) = (tempfile::tempdir().unwrap(), 3, 6_000);
    let database = Database::open(dir.path(), settings.clone()).unwrap();
    let c = create(&database);
    let first = c.stats().flushed;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let c = &c;
            scope.spawn(move || {
                // Faster than flushes are: buffers become full, too.
                for from in (0..each).step_by(500) {
                    c.insert(batch(&rows(writer * each + from, 500)), None).unwrap();
                    let stats = c.stats();
                    assert!(stats.flushed <= stats.synced, "{stats:?}");
                }
                c.delete(&keys(&[writer * each])).unwrap();
            });
        }
    });
    let live = (writers * (each - 1)) as u64;
    assert_eq!((c.count(None).unwrap(), c.verify().unwrap()), (live, vec![]));
    assert!(c.stats().flushed > first, "nobody asked for a flush");
    // Nobody else holds it: what runs behind the writes ends with the database.
    drop((c, database));
    let database = Database::open(dir.path(), settings).unwrap();
    let c = collection(&database);
    assert_eq!((c.count(None).unwrap(), c.verify().unwrap()), (live, vec![]));
}

#[test]
fn a_flush_behind_the_writes_that_fails_is_told_to_a_write_before_it_begins() {
    let mut settings = settings(Level::Sync);
    settings.collection.flush_behind = true;
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path(), settings).unwrap();
    let c = create(&database);
    c.insert(batch(&rows(0, 10)), None).unwrap();
    c.flush().unwrap();
    let is_segment = |file: &&PathBuf| file.ends_with("segment-000001");
    let vectors = files(dir.path()).iter().find(is_segment).unwrap().parent().unwrap().to_owned();
    // Where segments would be written, something else stands.
    let in_the_way: Vec<_> = (2..1000).map(|n| vectors.join(format!("segment-{n:06}"))).collect();
    in_the_way.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let mut refusals = (1..).map(|round| (round, c.insert(batch(&rows(round * 10, 10)), None)));
    let (round, refused) = refusals.find(|(_, outcome)| outcome.is_err()).unwrap();
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("segment-"), "{refused}");
    assert_eq!(c.stats().stopped, None, "nothing was begun");
    assert_eq!(c.count(None).unwrap(), round as u64 * 10);
    assert!(c.insert(batch(&rows(round * 10, 10)), None).is_err(), "as often as one likes");
    in_the_way.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    c.insert(batch(&rows(round * 10, 10)), None).unwrap();
    assert_eq!(c.count(None).unwrap(), (round as u64 + 1) * 10);
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_clock_that_goes_backwards_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (round, now) in [5_000_000, 4_000_000, 0, 4_000_000].into_iter().enumerate() {
        let at = std::sync::Arc::new(move || UnixMs(now));
        let database =
            Database::open(dir.path(), DatabaseOptions { now: at, ..settings(Level::Sync) });
        let database = database.unwrap();
        let name = format!("c{round}");
        let new = NewCollection::new(schema());
        let c = database.create_collection("default", &name, new).unwrap();
        c.insert(batch(&rows(0, 5)), None).unwrap();
        c.flush().unwrap();
        for earlier in 0..=round {
            let c = database.collection("default", &format!("c{earlier}")).unwrap();
            assert_eq!((c.count(None).unwrap(), c.verify().unwrap()), (5, vec![]));
        }
    }
}
