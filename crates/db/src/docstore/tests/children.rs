//! Processes that are killed, and a disk that is full.
//!
//! The two ignored tests are the child processes; they are told their directory by environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::docstore::StoreError;
use crate::ids::ErrorClass;

const CHILD_DIR: &str = "PIPEANN_TEST_DIR";
/// Records between flushes of the child that is killed.
const FLUSHED_EVERY: u64 = 7;

/// The directory of a child; nothing where the tests are run by hand with the ignored ones.
#[expect(clippy::disallowed_methods, reason = "tells a child process of a test its directory")]
fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD_DIR).map(Into::into)
}

fn spawn(shell_first: &str, test: &str, dir: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{shell_first} exec \"$0\" \"$@\"")])
        .arg(program)
        .args(["--ignored", "--nocapture", "--exact", test])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a child process of the test below"]
fn writes_until_killed() {
    let Some(dir) = child_dir() else { return };
    let store = open(&dir);
    for seq in store.applied().0 + 1.. {
        let batch = mixed_batch(seq);
        let changes: Vec<_> = batch.iter().map(Logged::change).collect();
        store.apply(Seq(seq), &changes).unwrap();
        if seq % FLUSHED_EVERY == 0 {
            println!("\ndurable {}", store.flush().unwrap().0);
            store.compact().unwrap();
        }
    }
}

#[test]
fn after_a_kill_everything_flushed_is_there_and_the_log_brings_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    for round in 0..6 {
        let mut child = spawn("", "docstore::tests::children::writes_until_killed", &path);
        let mut durable = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let flushed = lines
            .map_while(Result::ok)
            .filter_map(|l| l.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok()));
        for seq in flushed.take(1 + round * 2) {
            durable = seq;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(durable > 0, "the child flushed before it was killed");
        let store = open(&path);
        assert!(store.applied().0 >= durable, "{:?} after {durable}", store.applied());
        // A flush that was broken off may have left what came since the one before it.
        let log = Log::mixed(store.applied().0 + FLUSHED_EVERY);
        log.replay(&store);
        assert_same(&store, &log.model());
    }
}

#[test]
#[ignore = "a child process of the test below"]
fn writes_until_the_disk_is_full() {
    let Some(dir) = child_dir() else { return };
    let store = open(&dir);
    let log = Log::mixed(300);
    Log(log.0[..2].to_vec()).replay(&store);
    assert_eq!(store.flush().unwrap(), Seq(2));
    log.replay(&store);
    for _ in 0..2 {
        let error = store.flush().unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Retry, "{error}");
        assert_eq!(store.durable(), Seq(2));
        assert_same(&store, &log.model());
    }
    println!("\nrefused and intact");
}

#[test]
fn a_full_disk_fails_the_flush_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    // Files of at most 64 blocks of 512 bytes, and an error instead of a signal.
    let child = spawn(
        "trap '' XFSZ; ulimit -f 64;",
        "docstore::tests::children::writes_until_the_disk_is_full",
        &path,
    );
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("refused and intact"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let store = open(&path);
    assert_eq!(store.applied(), Seq(2));
    let log = Log::mixed(300);
    log.replay(&store);
    assert_eq!(store.flush().unwrap(), Seq(300));
    assert_same(&store, &log.model());
}
