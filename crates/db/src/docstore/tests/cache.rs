//! Rows that are kept in memory: what views see with them, and when they are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

fn put(row: u64, blob: &[u8]) -> RowChange<'_> {
    RowChange::Put { row: RowId(row), partition: 0, key: b"k", blob }
}

fn read(view: &dyn RowSnapshot, rows: &[u64]) -> Vec<Option<Vec<u8>>> {
    let rows: Vec<_> = rows.iter().copied().map(RowId).collect();
    let mut blobs = Vec::new();
    view.get(&rows, &mut |_, blob| blobs.push(blob.map(<[u8]>::to_vec))).unwrap();
    blobs
}

fn text(blob: &str) -> Option<Vec<u8>> {
    Some(blob.as_bytes().to_vec())
}

#[test]
fn rows_that_were_read_are_kept_and_count() {
    let dir = tempfile::tempdir().unwrap();
    let options = options();
    let store = LsmRows::open(dir.path(), &options).unwrap();
    store.apply(Seq(1), &[put(0, &[1; 100]), put(1, &[2; 50]), put(2, &[3; 10])]).unwrap();
    store.flush().unwrap();
    assert_eq!(options.cache.row_bytes(), 0);
    read(&*store.snapshot(), &[0, 2, 5]);
    let kept = options.cache.row_bytes();
    assert!((110 + 2 * 64..110 + 2 * 256).contains(&kept), "{kept} bytes of two rows");
    read(&*store.snapshot(), &[2, 0]);
    assert_eq!(options.cache.row_bytes(), kept);
    // What is kept is what is read: the tables are not asked again.
    for table in std::fs::read_dir(dir.path().join("rows/tables")).unwrap() {
        let table = std::fs::OpenOptions::new().write(true).open(table.unwrap().path()).unwrap();
        table.set_len(0).unwrap();
    }
    assert_eq!(read(&*store.snapshot(), &[2, 0]), [Some(vec![3; 10]), Some(vec![1; 100])]);
}

#[test]
fn views_see_what_they_saw_whatever_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.apply(Seq(1), &[put(0, b"first"), put(1, b"other")]).unwrap();
    let before = store.snapshot();
    assert_eq!(read(&*before, &[0, 1]), [text("first"), text("other")]);
    store.apply(Seq(2), &[put(0, b"second")]).unwrap();
    let between = store.snapshot();
    for _ in 0..2 {
        assert_eq!(read(&*between, &[0, 1]), [text("second"), text("other")]);
        assert_eq!(read(&*before, &[0, 1]), [text("first"), text("other")]);
    }
    store.apply(Seq(3), &[RowChange::Delete { row: RowId(0) }]).unwrap();
    for _ in 0..2 {
        assert_eq!(read(&*store.snapshot(), &[0, 1]), [None, text("other")]);
        assert_eq!(read(&*between, &[0]), [text("second")]);
        assert_eq!(read(&*before, &[0]), [text("first")]);
    }
}

#[test]
fn rows_that_change_while_they_are_read_are_not_kept_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.apply(Seq(1), &[put(0, &1u64.to_le_bytes())]).unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let view = store.snapshot();
                    let seen = view.applied().0.to_le_bytes().to_vec();
                    assert_eq!(read(&*view, &[0]), [Some(seen)]);
                }
            });
        }
        for seq in 2..20_000u64 {
            store.apply(Seq(seq), &[put(0, &seq.to_le_bytes())]).unwrap();
            if seq % 64 == 0 {
                thread::yield_now();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_not_asked_for_is_dropped_at_the_second_rest() {
    let dir = tempfile::tempdir().unwrap();
    let options = options();
    let store = LsmRows::open(dir.path(), &options).unwrap();
    store.apply(Seq(1), &[put(0, b"row")]).unwrap();
    read(&*store.snapshot(), &[0]);
    assert!(!options.cache.trim(), "it was asked for");
    read(&*store.snapshot(), &[0]);
    assert!(!options.cache.trim(), "it was asked for again");
    assert_ne!(options.cache.row_bytes(), 0);
    assert!(options.cache.trim());
    assert_eq!(options.cache.row_bytes(), 0);
    assert!(!options.cache.trim(), "there is nothing");
    assert_eq!(read(&*store.snapshot(), &[0]), [text("row")]);
    assert_ne!(options.cache.row_bytes(), 0);
}

#[test]
fn stores_share_the_memory_and_nothing_else() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = options();
    let first = LsmRows::open(one.path(), &options).unwrap();
    let second = LsmRows::open(other.path(), &options).unwrap();
    first.apply(Seq(1), &[put(0, b"of one")]).unwrap();
    second.apply(Seq(1), &[put(0, b"of the other")]).unwrap();
    for _ in 0..2 {
        assert_eq!(read(&*first.snapshot(), &[0]), [text("of one")]);
        assert_eq!(read(&*second.snapshot(), &[0]), [text("of the other")]);
    }
    let both = options.cache.row_bytes();
    drop(first);
    let left = options.cache.row_bytes();
    assert!(0 < left && left < both, "{left} of {both}");
    // Opened again it is another part, which has nothing yet.
    let again = LsmRows::open(one.path(), &options).unwrap();
    assert_eq!(read(&*again.snapshot(), &[0]), [None], "it was not flushed");
}

#[test]
fn a_cache_of_no_bytes_keeps_nothing_and_rows_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let cache = RowCache::new(&Accountant::new(None), 0).unwrap();
    let store = LsmRows::open(dir.path(), &RowStoreOptions { cache, ..options() }).unwrap();
    store.apply(Seq(1), &[put(0, b"row"), put(1, b"")]).unwrap();
    store.flush().unwrap();
    for _ in 0..2 {
        assert_eq!(read(&*store.snapshot(), &[0, 1, 2]), [text("row"), text(""), None]);
    }
    store.apply(Seq(2), &[RowChange::Delete { row: RowId(1) }]).unwrap();
    assert_eq!(read(&*store.snapshot(), &[0, 1]), [text("row"), None]);
}

#[test]
fn long_rows_and_long_lists_of_rows_are_not_kept_and_all_stays_within_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let accountant = Accountant::new(None);
    let bytes = 1 << 20;
    let cache = RowCache::new(&accountant, bytes).unwrap();
    let options = RowStoreOptions { cache: Arc::clone(&cache), ..options() };
    let store = LsmRows::open(dir.path(), &options).unwrap();
    let long = vec![7; 64 << 10];
    let rows: Vec<_> = (0..5000).map(|row| put(row, &long[..1000])).collect();
    store.apply(Seq(1), &rows).unwrap();
    store.apply(Seq(2), &[put(5000, &long)]).unwrap();
    read(&*store.snapshot(), &[5000]);
    assert_eq!(cache.row_bytes(), 0, "it is long");
    let all: Vec<_> = (0..5000).collect();
    read(&*store.snapshot(), &all);
    assert_eq!(cache.row_bytes(), 0, "so many are looked through");
    for ten in all.chunks(10) {
        read(&*store.snapshot(), ten);
    }
    assert!((bytes / 2..bytes).contains(&cache.row_bytes()), "{} bytes", cache.row_bytes());
}

#[test]
fn memory_for_rows_is_taken_when_one_is_kept() {
    use pipeann_engine::memory::Pool;
    let dir = tempfile::tempdir().unwrap();
    let accountant = Accountant::new(Some(1 << 20));
    let cache = RowCache::new(&accountant, 1 << 20).unwrap();
    let options = RowStoreOptions { cache: Arc::clone(&cache), ..options() };
    let store = LsmRows::open(dir.path(), &options).unwrap();
    store.apply(Seq(1), &[put(0, b"first")]).unwrap();
    store.flush().unwrap();
    let held = || accountant.pool_bytes(Pool::RowStore);
    let blocks = held();
    assert!((1..1 << 20).contains(&blocks), "{blocks} bytes for blocks");
    let others = accountant.reserve(Pool::Codes, 1 << 19).unwrap();
    assert_eq!(read(&*store.snapshot(), &[0]), [text("first")]);
    assert_eq!((cache.row_bytes(), held()), (0, blocks), "there is no memory to keep it");
    drop(others);
    assert_eq!(read(&*store.snapshot(), &[0]), [text("first")]);
    assert!(cache.row_bytes() > 0);
    assert_eq!(held(), 1 << 20);
    assert!(!cache.trim(), "it was asked for");
    assert!(cache.trim());
    assert_eq!(held(), blocks, "given back");
    accountant.set_limit_bytes(Some(100));
    assert!(RowCache::new(&accountant, 1 << 20).is_err());
}
