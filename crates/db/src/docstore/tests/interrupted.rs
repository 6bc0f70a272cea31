//! A flush that was interrupted between any two of its steps.

use std::fs;
use std::path::Path;

use super::*;
use crate::docstore::state_file::StoreState;

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// A store whose parts come from `[LOCK, STATE, rows, keys]` of the given directories.
fn assemble(at: &Path, rows: &Path, keys: &Path, state: &StoreState) {
    fs::create_dir_all(at).unwrap();
    copy(&rows.join("LOCK"), &at.join("LOCK"));
    copy(&rows.join("rows"), &at.join("rows"));
    copy(&keys.join("keys"), &at.join("keys"));
    state.write(at).unwrap();
}

#[test]
fn a_flush_stopped_after_any_step_replays_to_the_same_rows() {
    let dirs = tempfile::tempdir().unwrap();
    let (old, new) = (dirs.path().join("old"), dirs.path().join("new"));
    let live = dirs.path().join("live");
    let log = Log::mixed(40);
    let store = open(&live);
    let before = Log(log.0[..25].to_vec());
    before.replay(&store);
    assert_eq!(store.flush().unwrap(), Seq(25));
    copy(&live, &old);
    let flushed = Log(log.0[..33].to_vec());
    flushed.replay(&store);
    assert_eq!(store.flush().unwrap(), Seq(33));
    copy(&live, &new);
    let read = |dir| StoreState::read(dir).unwrap().unwrap();
    let (first, last) = (read(&old), read(&new));
    let middle = StoreState { durable: first.durable, ..last.clone() };
    let model = log.model();
    let images = [
        ("nothing", &old, &old, &first, 25),
        ("keys", &old, &new, &first, 25),
        ("keys, counters", &old, &new, &middle, 25),
        ("keys, counters, rows", &new, &new, &middle, 25),
        ("everything", &new, &new, &last, 33),
    ];
    for (written, rows, keys, state, applied) in images {
        let at = dirs.path().join(written);
        assemble(&at, rows, keys, state);
        let store = open(&at);
        assert_eq!(store.applied(), Seq(applied), "after {written}");
        log.replay(&store);
        assert_same(&store, &model);
        // A flush in the middle of the replay, and another interruption.
        let again = dirs.path().join(format!("{written}, twice"));
        assemble(&again, rows, keys, state);
        let store = open(&again);
        Log(log.0[..30].to_vec()).replay(&store);
        assert_eq!(store.flush().unwrap(), Seq(applied.max(30)), "after {written}");
        drop(store);
        let store = open(&again);
        assert_eq!(store.applied(), Seq(applied.max(30)), "after {written}");
        log.replay(&store);
        assert_same(&store, &model);
    }
}
