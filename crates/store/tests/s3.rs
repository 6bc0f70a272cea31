//! The store over S3, or what speaks its protocol: a log, fences, a generation in parts, collection.
//!
//! Runs where `PIPEANN_TEST_S3` names an empty prefix, as `s3://bucket/prefix`, with the usual variables
//! `AWS_*` beside it; elsewhere it does nothing. `tests_py/test_store_s3.py` starts a server for it.

use std::time::Duration;

use pipeann_store::{
    ClusterStore, EntryRef, LeaderName, LogError, ObjectsError, Position, ShardGenerations,
    ShardId, ShardLeader, ShardReader, Stamp, shards,
};

const SHARD: ShardId = ShardId(7);

fn url() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a test is steered by whoever starts it")]
    std::env::var("PIPEANN_TEST_S3").ok()
}

fn lead(store: &ClusterStore, from: Option<Position>, name: &str) -> ShardLeader {
    let name = LeaderName::new(name).unwrap();
    ShardLeader::open(store, SHARD, from, &name, &mut |_| Ok(())).unwrap()
}

fn append(leader: &ShardLeader, seq: u64) -> Result<(), LogError> {
    let payload = vec![seq as u8; 1000];
    let entry = EntryRef { seq, kind: 1, payload: &payload };
    leader.append(Stamp { catalogue_version: 1, timestamp: seq }, &[entry]).map(drop)
}

#[test]
fn s3_keeps_logs_and_generations() {
    let Some(url) = url() else {
        println!("PIPEANN_TEST_S3 is not set: nothing is tried");
        return;
    };
    let store = ClusterStore::open(&url, "blue").unwrap();
    let again = ClusterStore::open(&url, "blue").unwrap();
    assert_eq!(again.cluster_id(), store.cluster_id());
    let error = ClusterStore::open(&url, "red").unwrap_err();
    assert!(matches!(error, ObjectsError::OtherCluster { .. }), "{error}");
    let last = log(&store);
    generations(&store, last);
}

/// Where the log ends.
fn log(store: &ClusterStore) -> Position {
    let old = lead(store, None, "old");
    for seq in 1..=30 {
        append(&old, seq).unwrap();
    }
    let new = lead(store, None, "new");
    assert_eq!((new.term(), new.stamp().timestamp), (2, 30));
    assert!(matches!(append(&old, 31), Err(LogError::Fenced { later: 2, .. })));
    append(&new, 31).unwrap();
    let mut reader = ShardReader::open(store, SHARD, None).unwrap();
    let mut found = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        found.extend(batch.entries.iter().map(|it| it.seq));
    }
    assert_eq!(found, (1..=31).collect::<Vec<_>>());
    assert_eq!(shards(store).unwrap(), [SHARD]);
    assert_eq!(new.truncate_before(new.position()).unwrap(), 30);
    assert!(matches!(ShardReader::open(store, SHARD, None), Err(LogError::Cut { .. })));
    append(&new, 32).unwrap();
    new.position()
}

fn generations(store: &ClusterStore, last: Position) {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("long");
    // In three parts.
    let long: Vec<u8> = (0..40u32 << 18).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&place, &long).unwrap();
    std::fs::write(home.path().join("empty"), b"").unwrap();
    let leader = lead(store, Some(last), "third");
    let own = ShardGenerations::new(store, SHARD);
    let files = [("deep/long".to_owned(), place), ("empty".to_owned(), home.path().join("empty"))];
    let first = own.publish(leader.term(), leader.position(), b"header", &files).unwrap();
    let second = own.publish(leader.term(), leader.position(), b"", &files[1..]).unwrap();
    assert_eq!(own.ids().unwrap(), [first.id, second.id]);
    assert_eq!(own.newest().unwrap().unwrap(), second);

    let pin = own.pin(first.id, "test", Duration::from_secs(3600)).unwrap().unwrap();
    let into = home.path().join("into");
    let fetched = own.fetch(&pin.generation, &into).unwrap();
    assert_eq!((fetched.files, fetched.bytes), (2, long.len() as u64));
    assert!(std::fs::read(into.join("deep/long")).unwrap() == long);
    assert_eq!(own.fetch(&first, &into).unwrap().kept, 2);
    assert_eq!(own.read_range(&first.files[0], 16..20).unwrap(), long[16..20]);

    // Everything is young, and pinned besides.
    let done = ShardGenerations::collect(&leader, &[], Duration::from_secs(3600)).unwrap();
    assert_eq!((done.generations, done.files), (0, 0));
    own.release(pin).unwrap();
}
