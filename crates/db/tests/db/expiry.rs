//! Rows with a time to live.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_db::catalog::{EntryChange, Properties, TIME_TO_LIVE, UnixMs};
use pipeann_db::collection::{Collection, Filter};
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::schema::PrimaryKey;

use crate::data::{batch, collection, create, keys, options, place, rows, search_by, vector};

/// A clock that stands until it is moved.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000_000)))
    }

    fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    fn open(&self, dir: &Path) -> Database {
        let clock = Arc::clone(&self.0);
        let now = Arc::new(move || UnixMs(clock.load(Ordering::Relaxed)));
        Database::open(dir, DatabaseOptions { now, ..options() }).unwrap()
    }
}

/// Lets rows live so many seconds from now on.
fn live_for(database: &Database, seconds: &str) {
    let set = Properties::from([(TIME_TO_LIVE.to_owned(), seconds.to_owned())]);
    let place = place();
    let change = EntryChange::AlterCollection {
        place,
        set,
        remove: Vec::new(),
        description: None,
        consistency: None,
    };
    database.apply(change).unwrap();
}

/// The keys that every kind of reading finds.
fn found(c: &Collection) -> Vec<i64> {
    let mut shown: Vec<i64> = rows(c).iter().map(|(key, _)| *key).collect();
    shown.sort_unstable();
    assert_eq!(c.count(None).unwrap(), shown.len() as u64);
    assert_eq!(c.count(Some("_default")).unwrap(), shown.len() as u64);
    assert_eq!(c.count_matching(Filter::new("id >= 0"), None).unwrap(), shown.len() as u64);
    let by_key = c.get(&keys(&(0..100).collect::<Vec<_>>()), &[]).unwrap();
    let key = |key: &PrimaryKey| match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(key) => panic!("{key}"),
    };
    assert_eq!(by_key.iter().map(|row| key(&row.key)).collect::<Vec<_>>(), shown);
    let mut near: Vec<i64> =
        search_by(c, 100, vector(5)).iter().map(|hit| key(&hit.row.key)).collect();
    near.sort_unstable();
    assert_eq!(near, shown);
    shown
}

/// Waits until rows that are over were deleted: `verify` counts them otherwise.
fn wait_until_deleted(c: &Collection, left: u64) {
    while c.stats().rows != left {
        assert!(c.verify().unwrap().is_empty());
        std::thread::yield_now();
    }
}

#[test]
fn rows_are_hidden_when_their_time_is_over_and_deleted_behind_that() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::new());
    let database = clock.open(dir.path());
    let c = create(&database);
    live_for(&database, "10");
    c.insert(batch(&[(1, 1), (2, 2)]), None).unwrap();
    clock.pass(6_000);
    c.insert(batch(&[(3, 3)]), None).unwrap();
    c.upsert(batch(&[(2, 20)]), None).unwrap();
    assert_eq!(found(&c), [1, 2, 3]);
    clock.pass(4_200);
    assert_eq!(found(&c), [2, 3], "what is written anew lives anew");
    wait_until_deleted(&c, 2);
    clock.pass(6_000);
    assert_eq!(found(&c), [0_i64; 0]);
    wait_until_deleted(&c, 0);
    c.insert(batch(&[(1, 9)]), None).unwrap();
    assert_eq!(found(&c), [1]);
    assert!(c.verify().unwrap().is_empty());
}

#[test]
fn a_time_that_is_set_later_counts_from_then_and_one_that_is_taken_away_keeps_rows() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::new());
    let database = clock.open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    clock.pass(1_000_000);
    live_for(&database, "10");
    assert_eq!(found(&c), [1]);
    clock.pass(9_000);
    assert_eq!(found(&c), [1]);
    live_for(&database, "-1");
    c.insert(batch(&[(2, 2)]), None).unwrap();
    clock.pass(9_000);
    assert_eq!(found(&c), [1, 2]);
    live_for(&database, "10");
    assert_eq!(found(&c), [2], "the second one's time begins now");
    clock.pass(10_200);
    assert_eq!(found(&c), [0_i64; 0]);
}

#[test]
fn ages_survive_a_restart_and_lost_ones_begin_anew() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::new());
    let database = clock.open(dir.path());
    let c = create(&database);
    live_for(&database, "100");
    c.insert(batch(&[(1, 1)]), None).unwrap();
    c.flush().unwrap();
    clock.pass(60_000);
    let ages = crate::data::files(dir.path()).into_iter().find(|path| path.ends_with("AGES"));
    let ages = ages.expect("they are saved with a flush at the latest");
    drop((c, database));
    let database = clock.open(dir.path());
    let c = collection(&database);
    assert_eq!(found(&c), [1]);
    clock.pass(50_000);
    assert_eq!(found(&c), [0_i64; 0]);
    c.insert(batch(&[(2, 2)]), None).unwrap();
    c.flush().unwrap();
    drop((c, database));
    std::fs::write(&ages, b"something else").unwrap();
    clock.pass(99_000);
    let database = clock.open(dir.path());
    let c = collection(&database);
    clock.pass(50_000);
    assert_eq!(found(&c), [2], "its age is not known, so it counts as met at the opening");
    clock.pass(51_000);
    assert_eq!(found(&c), [0_i64; 0]);
}
