//! Snapshots, backups and what is made of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pipeann_db::catalog::UnixMs;
use pipeann_db::collection::Collection;
use pipeann_db::database::{Database, DatabaseError};
use pipeann_db::snapshot::{
    BackupOptions, Captured, SnapshotError, backup_directory, restore, verify_backup,
};

use crate::data::{batch, collection, create, files, keys, open, options, rows};

fn since(previous: Option<&Path>) -> BackupOptions {
    BackupOptions { since: previous.map(PathBuf::from), pins: None, now: UnixMs(1) }
}

/// A write of one thread on keys of its own: the record, the key, and the seed it has afterwards.
type Write = (u64, i64, Option<u32>);

fn write(c: &Collection, thread: i64, count: u32) -> Write {
    let key = thread * 1000 + i64::from(count.wrapping_mul(7919) % 41);
    if count.is_multiple_of(4) {
        return (c.delete(&keys(&[key])).unwrap().seq.0, key, None);
    }
    (c.upsert(batch(&[(key, count)]), None).unwrap().seq.0, key, Some(count))
}

/// What keys hold after the writes up to `seq`.
fn state(writes: &[Write], seq: u64) -> BTreeMap<i64, u32> {
    let mut state = BTreeMap::new();
    for &(_, key, seed) in writes.iter().filter(|write| write.0 <= seq) {
        match seed {
            Some(seed) => drop(state.insert(key, seed)),
            None => drop(state.remove(&key)),
        }
    }
    state
}

fn check_state(dir: &Path, captured: &Captured, writes: &[Write]) {
    let database = open(dir);
    let c = collection(&database);
    let found = rows(&c);
    let seq = captured.collections[0].seq.0;
    assert_eq!(c.stats().visible.0, seq);
    let by_key: BTreeMap<_, _> = found.iter().copied().collect();
    assert_eq!(by_key.len(), found.len(), "a key comes twice");
    assert_eq!(by_key, state(writes, seq), "{} up to record {seq}", dir.display());
    assert_eq!(database.verify().unwrap(), []);
    // What was taken goes on as a database of its own.
    c.upsert(batch(&[(-1, 5)]), None).unwrap();
    c.flush().unwrap();
}

#[test]
fn what_is_taken_beside_two_writers_is_a_prefix_of_what_they_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: String| dir.path().join(name);
    let database = open(&place("d".into()));
    let c = create(&database);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |thread: i64| {
        let mut writes = Vec::new();
        for count in 1.. {
            writes.push(write(&c, thread, count));
            answered.fetch_max(writes[writes.len() - 1].0, Ordering::SeqCst);
            // Flushes move and remove files while they are taken.
            if count % 20 == 19 {
                c.flush().unwrap();
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        writes
    };
    let (taken, mut writes) = std::thread::scope(|scope| {
        let others = [0, 1].map(|thread| scope.spawn(move || work(thread)));
        let mut taken = Vec::new();
        for round in 0..9_u64 {
            while answered.load(Ordering::SeqCst) < 40 * round {
                std::thread::yield_now();
            }
            let before = answered.load(Ordering::SeqCst);
            let target = place(format!("t{round}"));
            let captured = match round % 3 {
                0 => database.snapshot_to(&target).unwrap(),
                1 => database.backup(&target, None).unwrap().manifest.database,
                // By somebody whom the writer does not know.
                _ => {
                    let report = backup_directory(&place("d".into()), &target, &since(None));
                    report.unwrap().manifest.database
                }
            };
            assert!(captured.collections[0].seq.0 >= before, "what was answered is in it");
            taken.push((target, captured));
        }
        stop.store(true, Ordering::Relaxed);
        (taken, others.map(|thread| thread.join().unwrap()).concat())
    });
    // Stable, so that a delete of nothing stays behind the write of its own thread.
    writes.sort_by_key(|write| write.0);
    for (target, captured) in &taken {
        let dir = match target.join("BACKUP").exists() {
            true => {
                let restored = target.with_extension("restored");
                assert_eq!(restore(target, &restored).unwrap().database, *captured);
                restored
            }
            false => target.clone(),
        };
        check_state(&dir, captured, &writes);
    }
    // None of the databases made of it has changed it.
    drop((c, database));
    let database = open(&place("d".into()));
    assert_eq!(rows(&collection(&database)).len(), state(&writes, u64::MAX).len());
    assert_eq!(database.verify().unwrap(), []);
}

/// A database with two flushes and something behind them.
fn some(dir: &Path) -> Database {
    let database = open(dir);
    let c = create(&database);
    for part in 0..3 {
        let rows: Vec<_> = (0..200).map(|i| (part * 200 + i, i as u32)).collect();
        c.insert(batch(&rows), None).unwrap();
        if part < 2 {
            c.flush().unwrap();
        }
    }
    database
}

#[test]
fn an_incremental_backup_copies_what_is_new_and_needs_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let database = some(&place("d"));
    let first = database.backup(&place("a"), None).unwrap();
    assert_eq!(first.copied.len(), first.manifest.files.len());
    let again = database.backup(&place("b"), Some(&place("a"))).unwrap();
    assert_eq!(again.copied, [""; 0], "nothing has changed");
    let c = collection(&database);
    c.upsert(batch(&[(7, 7000)]), None).unwrap();
    c.flush().unwrap();
    let second = database.backup(&place("c"), Some(&place("b"))).unwrap();
    assert!(!second.copied.is_empty());
    for file in &second.manifest.files {
        let old = first.manifest.files.contains(file);
        assert_eq!(second.copied.contains(&file.path), !old, "{}", file.path);
        let inode = |name| fs::metadata(place(name).join("files").join(&file.path)).unwrap().ino();
        assert!(!old || inode("a") == inode("c"), "{} is stored twice", file.path);
    }
    assert!(second.copied_bytes < second.manifest.bytes());
    let expected = rows(&c);
    fs::remove_dir_all(place("a")).unwrap();
    fs::remove_dir_all(place("b")).unwrap();
    restore(&place("c"), &place("r")).unwrap();
    assert_eq!(rows(&collection(&open(&place("r")))), expected);
}

#[test]
fn a_flipped_bit_in_any_file_of_a_backup_is_found_and_the_file_named() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    some(&place("d")).backup(&place("b"), None).unwrap();
    let mut looked_at = 0;
    for path in files(&place("b")) {
        let sound = fs::read(&path).unwrap();
        let mut damaged = sound.clone();
        let Some(byte) = damaged.get_mut(sound.len() / 2) else { continue };
        *byte ^= 4;
        fs::write(&path, damaged).unwrap();
        let refused = restore(&place("b"), &place("r")).unwrap_err();
        let SnapshotError::Damaged { path: named, .. } = &refused else { panic!("{refused}") };
        assert_eq!(*named, path);
        assert!(!place("r").exists());
        match verify_backup(&place("b")) {
            Ok(findings) => {
                assert_eq!(findings.iter().map(|f| &f.path).collect::<Vec<_>>(), [&path])
            }
            Err(error) => assert!(path.ends_with("BACKUP"), "{error}"),
        }
        fs::write(&path, &sound[..sound.len() - 1]).unwrap();
        assert!(restore(&place("b"), &place("r")).is_err(), "{} is cut off", path.display());
        fs::write(&path, sound).unwrap();
        looked_at += 1;
    }
    assert!(looked_at > 8, "{looked_at} files");
    assert_eq!(verify_backup(&place("b")).unwrap(), []);
    restore(&place("b"), &place("r")).unwrap();
}

#[test]
fn what_stands_in_the_way_and_foreign_directories_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let database = some(&place("d"));
    database.backup(&place("b"), None).unwrap();
    fs::create_dir(place("thesis")).unwrap();
    fs::write(place("thesis/text"), "mine").unwrap();
    let occupied = |error: SnapshotError| matches!(error, SnapshotError::Occupied { .. });
    assert!(occupied(restore(&place("b"), &place("thesis")).unwrap_err()));
    assert!(occupied(restore(&place("b"), &place("thesis/text")).unwrap_err()));
    assert!(occupied(restore(&place("b"), &place("d")).unwrap_err()), "it is open");
    for refused in [
        database.snapshot_to(&place("thesis")).unwrap_err(),
        database.backup(&place("thesis"), None).unwrap_err(),
    ] {
        assert!(matches!(refused, DatabaseError::Snapshot(SnapshotError::Occupied { .. })));
    }
    for refused in [
        backup_directory(&place("thesis"), &place("x"), &since(None)).unwrap_err(),
        backup_directory(&place("b"), &place("x"), &since(None)).unwrap_err(),
    ] {
        assert!(matches!(refused, SnapshotError::NotADatabase { .. }), "{refused}");
    }
    for refused in [
        restore(&place("thesis"), &place("x")).unwrap_err(),
        restore(&place("d"), &place("x")).unwrap_err(),
        backup_directory(&place("d"), &place("x"), &since(Some(&place("d")))).unwrap_err(),
    ] {
        assert!(matches!(refused, SnapshotError::NotABackup { .. }), "{refused}");
    }
    let refused = Database::open(&place("b"), options()).unwrap_err();
    assert!(matches!(refused, DatabaseError::NotADatabase { .. }), "{refused}");
    assert_eq!(files(&place("thesis")), [place("thesis/text")]);
    assert!(!place("x").exists());
    // An empty directory is no obstacle.
    fs::create_dir(place("empty")).unwrap();
    restore(&place("b"), &place("empty")).unwrap();
    open(&place("empty"));
}

#[test]
fn a_database_that_lacks_a_file_is_not_backed_up_as_if_it_were_whole() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    drop(some(&place("d")));
    for part in ["rows/tables/", "keys/tables/", "segment-", "FLAT", "STATE", ".wal"] {
        let file = files(&place("d")).into_iter().find(|f| f.to_str().unwrap().contains(part));
        let file = file.unwrap_or_else(|| panic!("a file with `{part}` in its path"));
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        backup_directory(&place("d"), &place("x"), &since(None)).unwrap_err();
        assert!(!place("x").exists());
        fs::write(&file, bytes).unwrap();
    }
    backup_directory(&place("d"), &place("x"), &since(None)).unwrap();
}
