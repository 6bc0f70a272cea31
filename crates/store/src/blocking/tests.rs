//! Calls from ordinary threads and from those of another runtime.

use std::time::Duration;

use super::*;
use crate::log::{EntryRef, LeaderName, LogError, ShardId, Stamp};
use crate::objects::ObjectsError;

fn lead(store: &ClusterStore, name: &str) -> ShardLeader {
    let name = LeaderName::new(name).unwrap();
    ShardLeader::open(store, ShardId(1), None, &name, &mut |_| Ok(())).unwrap()
}

fn read(store: &ClusterStore) -> Vec<u64> {
    let mut reader = ShardReader::open(store, ShardId(1), None).unwrap();
    let mut found = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        found.extend(batch.entries.iter().map(|it| it.seq));
    }
    found
}

fn append(leader: &ShardLeader, seq: u64) -> Result<(), LogError> {
    let entry = EntryRef { seq, kind: 1, payload: b"x" };
    leader.append(Stamp::default(), &[entry]).map(drop)
}

#[test]
fn a_directory_holds_a_log_that_others_read() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}/deep", home.path().display());
    let store = ClusterStore::open(&url, "blue").unwrap();
    let old = lead(&store, "old");
    for seq in 1..=3 {
        append(&old, seq).unwrap();
    }
    let other = ClusterStore::open(&url, "blue").unwrap();
    assert_eq!(other.cluster_id(), store.cluster_id());
    assert_eq!(shards(&other).unwrap(), [ShardId(1)]);
    let mut seen = Vec::new();
    let name = LeaderName::new("new").unwrap();
    let new = ShardLeader::open(&other, ShardId(1), None, &name, &mut |batch| {
        seen.extend(batch.entries.iter().map(|it| it.seq));
        Ok(())
    });
    let new = new.unwrap();
    assert_eq!((seen, new.term()), (vec![1, 2, 3], 2));
    assert!(matches!(old.verify(), Err(LogError::Fenced { later: 2, .. })));
    append(&new, 4).unwrap();
    new.truncate_before(new.position()).unwrap();
    assert!(matches!(ShardReader::open(&store, ShardId(1), None), Err(LogError::Cut { .. })));
    let error = ClusterStore::open(&url, "red").unwrap_err();
    assert!(matches!(error, ObjectsError::OtherCluster { .. }), "{error}");
}

#[test]
fn calls_come_from_many_threads_and_wait_for_each_other() {
    let store = ClusterStore::open("memory://", "blue").unwrap();
    let leader = lead(&store, "a");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let leader = &leader;
            scope.spawn(move || {
                for seq in 0..20 {
                    append(leader, thread * 100 + seq).unwrap();
                }
            });
        }
    });
    let mut found = read(&store);
    found.sort_unstable();
    let wanted: Vec<u64> = (0..8).flat_map(|t| (0..20).map(move |s| t * 100 + s)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn calls_come_from_threads_of_another_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let store = ClusterStore::open("memory://", "blue").unwrap();
    let found = runtime.block_on(async move {
        let from_a_task = store.clone();
        let leader = lead(&from_a_task, "a");
        let work = tokio::task::spawn_blocking(move || {
            append(&leader, 1).unwrap();
            read(&store)
        });
        let found = work.await.unwrap();
        // The last handle, and with it the pool, is dropped within a task.
        drop(from_a_task);
        found
    });
    assert_eq!(found, [1]);
}

#[test]
fn what_the_caller_fails_with_is_told() {
    let store = ClusterStore::open_with("memory://", "blue", Duration::from_secs(1)).unwrap();
    append(&lead(&store, "a"), 1).unwrap();
    let name = LeaderName::new("b").unwrap();
    let result = ShardLeader::open(&store, ShardId(1), None, &name, &mut |_| Err("no room".into()));
    let Err(LogError::Apply { position, cause, .. }) = result else { panic!("it was opened") };
    assert_eq!((position.number, cause.to_string().as_str()), (1, "no room"));
}

#[test]
fn who_reads_puts_nothing_and_what_is_asked_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}/deep", home.path().display());
    let patience = Duration::from_secs(1);
    let nobodys = ClusterStore::open_to_read(&url, "blue", patience).unwrap_err();
    assert!(matches!(nobodys, ObjectsError::Missing { .. }), "{nobodys}");
    assert!(!home.path().join("deep").exists());
    std::fs::create_dir(home.path().join("deep")).unwrap();
    let nobodys = ClusterStore::open_to_read(&url, "blue", patience).unwrap_err();
    assert!(matches!(nobodys, ObjectsError::Missing { .. }), "{nobodys}");

    let store = ClusterStore::open(&url, "blue").unwrap();
    let leader = lead(&store, "a");
    let before = store.requests();
    append(&leader, 1).unwrap();
    let after = store.requests();
    assert_eq!((after.puts - before.puts, after.errors), (1, 0));
    assert!(after.bytes_put > before.bytes_put);

    let looking = ClusterStore::open_to_read(&url, "blue", patience).unwrap();
    assert_eq!(looking.cluster_id(), store.cluster_id());
    assert_eq!(read(&looking), [1]);
    assert_eq!(looking.log_begin(ShardId(1)).unwrap(), 1);
    assert_eq!(looking.log_end(ShardId(1), 0).unwrap(), Some(2));
    assert_eq!(looking.log_end(ShardId(1), 2).unwrap(), None);
    let asked = looking.requests();
    assert_eq!((asked.puts, asked.deletes, asked.bytes_put), (0, 0, 0));
    assert!(asked.gets > 0 && asked.lists > 0 && asked.bytes_got > 0);
    assert_eq!(asked.all(), asked.gets + asked.lists);
    let other = ClusterStore::open_to_read(&url, "red", patience).unwrap_err();
    assert!(matches!(other, ObjectsError::OtherCluster { .. }), "{other}");
}

#[test]
fn a_log_whose_file_system_is_away_has_no_end_and_takes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (root, away) = (home.path().join("store"), home.path().join("away"));
    let url = format!("file://{}", root.display());
    let store = ClusterStore::open_with(&url, "blue", Duration::from_millis(50)).unwrap();
    let leader = lead(&store, "a");
    append(&leader, 1).unwrap();
    let mut reader = ShardReader::open(&store, ShardId(1), None).unwrap();
    while reader.next().unwrap().is_some() {}
    std::fs::rename(&root, &away).unwrap();
    std::fs::create_dir(&root).unwrap();
    let error = reader.next().unwrap_err();
    assert_eq!(error.advice(), crate::objects::Advice::Retry, "{error}");
    assert!(leader.verify().is_err());
    let error = append(&leader, 2).unwrap_err();
    assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
    std::fs::remove_dir(&root).expect("nothing was made in it");
    std::fs::rename(&away, &root).unwrap();
    assert!(reader.next().unwrap().is_none());
    append(&lead(&store, "a"), 3).unwrap();
    assert_eq!(read(&store), [1, 3]);
}
