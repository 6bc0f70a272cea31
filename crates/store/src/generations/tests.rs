//! Generations in memory and in a directory: what is put once, fetched, pinned, collected and refused.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::format::NameList;
use super::*;
use crate::log::{LeaderName, LogError, Opening, Position, ShardId, ShardLog, TermLeader};
use crate::objects::{self, ObjectsError, OfThisMachine};

mod damaged;

const SHARD: ShardId = ShardId(4);
const HOUR: Duration = Duration::from_secs(3600);

fn of(url: &str) -> Generations {
    let patience = RetryPatience::new(Duration::from_secs(1), Arc::new(OfThisMachine::default()));
    Generations::new(objects::open(url).unwrap(), Uuid::from_u128(9), patience)
}

fn at(number: u64) -> Position {
    Position { term: 1, number }
}

fn bytes(files: &[(&str, &[u8])]) -> Vec<(String, FileSource)> {
    let of = |it: &(&str, &[u8])| (it.0.into(), FileSource::Bytes(Bytes::copy_from_slice(it.1)));
    files.iter().map(of).collect()
}

async fn lead(store: &Generations) -> TermLeader {
    let log =
        ShardLog::new(store.bucket.clone(), store.cluster, ShardId(0), store.patience.clone());
    let name = LeaderName::new("a").unwrap();
    Opening::new(log, None, name).await.unwrap().finish(|_| Ok(())).await.unwrap()
}

async fn objects_of(store: &Generations) -> Vec<String> {
    store.listed_names("file").await
}

impl Generations {
    async fn listed_names(&self, folder: &str) -> Vec<String> {
        let listed = self.bucket.list(folder, None).await.unwrap();
        listed.into_iter().map(|it| it.name).collect()
    }
}

fn all(keep: &[(ShardId, GenerationId)]) -> Collecting<'_> {
    // In memory and in a directory times are finer than a second, and nothing is from the future.
    Collecting { keep, grace: Duration::ZERO }
}

#[tokio::test]
async fn a_generation_is_published_and_fetched() {
    let home = tempfile::tempdir().unwrap();
    let store = of(&format!("file://{}/store", home.path().display()));
    let source = home.path().join("source");
    // Longer than what is put at once.
    let long: Vec<u8> = (0..40u32 << 18).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&source, &long).unwrap();
    let mut files = bytes(&[("a", b"one"), ("deep/down/b", b"two"), ("empty", b"")]);
    files.push(("long".into(), FileSource::File(source.clone())));
    let made = store.publish(SHARD, 2, at(7), b"header", &files).await.unwrap();
    assert_eq!(made.id, GenerationId { term: 2, number: 1 });
    let found = store.newest(SHARD).await.unwrap().unwrap();
    assert_eq!((&found, found.header.as_slice()), (&made, b"header".as_slice()));

    let into = home.path().join("into");
    let length = long.len() as u64;
    let first = store.fetch(&found, &into).await.unwrap();
    assert_eq!(first, Fetched { kept: 0, files: 4, bytes: length + 6 });
    assert_eq!(std::fs::read(into.join("deep/down/b")).unwrap(), b"two");
    assert!(std::fs::read(into.join("long")).unwrap() == long);
    let again = store.fetch(&found, &into).await.unwrap();
    assert_eq!(again, Fetched { kept: 4, files: 0, bytes: 0 });

    // Half a file is gone on with, a wrong half is not believed, a wrong file is replaced.
    std::fs::rename(into.join("long"), into.join("long.fetching")).unwrap();
    let half = std::fs::OpenOptions::new().write(true).open(into.join("long.fetching")).unwrap();
    half.set_len(length / 2).unwrap();
    std::fs::write(into.join("a"), b"eno").unwrap();
    let rest = store.fetch(&found, &into).await.unwrap();
    assert_eq!(rest, Fetched { kept: 2, files: 2, bytes: length / 2 + 3 });
    std::fs::remove_file(into.join("a")).unwrap();
    std::fs::write(into.join("a.fetching"), b"xy").unwrap();
    assert_eq!(store.fetch(&found, &into).await.unwrap().bytes, 4);
    assert_eq!(std::fs::read(into.join("a")).unwrap(), b"one");

    let file = found.files.iter().find(|it| it.path == "long").unwrap();
    let range = store.read_range(file, 5..9).await.unwrap();
    assert_eq!(range, long[5..9]);
    assert!(store.read_range(file, length - 1..length + 1).await.is_err());
}

#[tokio::test]
async fn what_the_store_has_is_not_put_again() {
    let store = of("memory://");
    let files = bytes(&[("a", b"one"), ("b", b"one")]);
    let first = store.publish(SHARD, 1, at(1), b"", &files).await.unwrap();
    let before = store.bucket.head(&first.files[0].object()).await.unwrap().unwrap();
    let files = bytes(&[("c", b"one"), ("d", b"two")]);
    store.publish(ShardId(5), 1, at(2), b"", &files).await.unwrap();
    let after = store.bucket.head(&first.files[0].object()).await.unwrap().unwrap();
    assert_eq!((before, objects_of(&store).await.len()), (after, 2));
    let other = store.publish(SHARD, 1, at(1), b"", &bytes(&[("a", b"one")])).await.unwrap();
    assert_eq!(other.id, GenerationId { term: 1, number: 2 });
    assert_eq!(store.ids(SHARD).await.unwrap(), [first.id, other.id]);
}

#[tokio::test]
async fn collection_takes_what_nobody_wants() {
    let store = of("memory://");
    let leader = lead(&store).await;
    let mut made = Vec::new();
    for number in 1..=4u64 {
        let own = number.to_le_bytes();
        let files = bytes(&[("own", &own), ("shared", b"shared")]);
        made.push(store.publish(SHARD, 1, at(number), b"", &files).await.unwrap());
    }
    // Publishing pins for an hour.
    let nothing = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!(nothing, Collected::default());
    for pin in store.listed_names("pin").await {
        store.delete(&pin).await.unwrap();
    }
    let mut pin = store.pin(SHARD, made[1].id, "reader", HOUR).await.unwrap().unwrap();
    let young = Collecting { keep: &[], grace: HOUR };
    assert_eq!(store.collect(&leader, &young).await.unwrap(), Collected::default());
    let kept = [(SHARD, made[0].id)];
    let done = store.collect(&leader, &all(&kept)).await.unwrap();
    assert_eq!(done, Collected { generations: 1, files: 1, bytes: 8, remains: 0 });
    assert_eq!(store.ids(SHARD).await.unwrap(), [made[0].id, made[1].id, made[3].id]);
    assert!(store.pin(SHARD, made[2].id, "late", HOUR).await.unwrap().is_none());
    assert!(store.renew(&mut pin).await.unwrap());
    store.release(pin).await.unwrap();
    let done = store.collect(&leader, &all(&[])).await.unwrap();
    assert_eq!((done.generations, done.files), (2, 2));
    assert_eq!(store.listed_names("pin").await, [""; 0]);
    // What was deleted is not used again for a day.
    assert_eq!(store.listed_names("doom").await.len(), 2);
    let into = tempfile::tempdir().unwrap();
    store.fetch(&made[3], into.path()).await.unwrap();
    let error = store.fetch(&made[0], into.path()).await.unwrap_err();
    assert!(matches!(error, ObjectsError::Missing { .. }), "{error}");
}

#[tokio::test]
async fn an_old_term_collects_nothing() {
    let store = of("memory://");
    let old = lead(&store).await;
    lead(&store).await;
    let error = store.collect(&old, &all(&[])).await.unwrap_err();
    assert!(matches!(error, LogError::Fenced { .. }), "{error}");
}

/// A name that somebody may be deleting is neither used nor put.
#[tokio::test]
async fn a_doomed_name_is_left_alone() {
    let store = of("memory://");
    let first = store.publish(SHARD, 1, at(1), b"", &bytes(&[("a", b"one")])).await.unwrap();
    let names = HashSet::from([first.files[0].object()]);
    let doom = NameList { lease_ms: 0, owner: "stopped".into(), names };
    store.put_names("doom/1", &doom).await.unwrap();
    let next = store.publish(SHARD, 1, at(2), b"", &bytes(&[("a", b"one")])).await.unwrap();
    assert_ne!(next.files[0].object(), first.files[0].object());
    assert_eq!(next.files[0].hash, first.files[0].hash);
    let manifest = HashSet::from([names::manifest(SHARD, first.id)]);
    let doom = NameList { names: manifest, ..doom };
    store.put_names("doom/1", &doom).await.unwrap();
    assert!(store.pin(SHARD, first.id, "reader", HOUR).await.unwrap().is_none());
    assert!(store.pin(SHARD, next.id, "reader", HOUR).await.unwrap().is_some());
}

#[tokio::test]
async fn remains_of_a_crash_are_swept() {
    let home = tempfile::tempdir().unwrap();
    let store = of(&format!("file://{}", home.path().display()));
    store.bucket.put_over("file/x", "x".into()).await.unwrap();
    std::fs::write(home.path().join("file/x#1"), b"half").unwrap();
    let hour = chrono::TimeDelta::hours(1);
    let now = store.bucket.head("file/x").await.unwrap().unwrap().modified;
    assert_eq!(store.bucket.sweep(now - hour).await.unwrap(), 0);
    assert_eq!(store.bucket.sweep(now + hour).await.unwrap(), 1);
    assert_eq!(store.listed_names("file").await, ["file/x"]);
}

#[tokio::test]
async fn what_cant_be_is_refused() {
    let store = of("memory://");
    for path in ["", "/etc/x", "../x", "a/../b", "a//b", "./a", "a\\b", &"x".repeat(2000)] {
        let error = store.publish(SHARD, 1, at(1), b"", &bytes(&[(path, b"")])).await.unwrap_err();
        assert!(matches!(error, ObjectsError::Local { .. }), "{path}: {error}");
    }
    let twice = bytes(&[("a", b"1"), ("a", b"2")]);
    assert!(store.publish(SHARD, 1, at(1), b"", &twice).await.is_err());
    let absent = [("a".to_owned(), FileSource::File(Path::new("/nowhere").into()))];
    assert!(store.publish(SHARD, 1, at(1), b"", &absent).await.is_err());
    let made = store.publish(SHARD, 1, at(1), b"", &bytes(&[("a", b"one")])).await.unwrap();
    store.bucket.put_over(&made.files[0].object(), "eno".into()).await.unwrap();
    let into = tempfile::tempdir().unwrap();
    let error = store.fetch(&made, into.path()).await.unwrap_err();
    assert!(matches!(error, ObjectsError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 0);
}

fn example() -> ShardGeneration {
    let file = |path: &str, length| StoredFile { path: path.into(), length, hash: 5, copy: 6 };
    ShardGeneration {
        shard: SHARD,
        id: GenerationId { term: 2, number: 3 },
        position: at(9),
        header: b"header".to_vec(),
        files: vec![file("a", 1), file("deep/b", 2)],
    }
}

/// Bytes of a version that is out in the world do not change.
#[test]
fn a_manifest_and_a_list_have_the_bytes_that_were_written_first() {
    let cluster = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    let shown = |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
    let manifest = example().encode(cluster);
    let names = HashSet::from(["file/x".to_owned(), "file/y".to_owned()]);
    let list = NameList { lease_ms: 7, owner: "node-1".into(), names };
    let golden: Vec<&str> = include_str!("golden.hex").split_whitespace().collect();
    assert_eq!([shown(&manifest), shown(&list.encode(cluster))], golden[..]);
    let name = names::manifest(SHARD, example().id);
    assert_eq!(ShardGeneration::decode(&name, cluster, &manifest).unwrap(), example());
    assert_eq!(NameList::decode("x", cluster, &list.encode(cluster)).unwrap(), list);
    assert_eq!(names::parsed_manifest(&name), Some((SHARD, example().id)));
    assert!(ShardGeneration::decode("manifest/4/1", cluster, &manifest).is_err());
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let cluster = Uuid::from_u128(1);
    let name = names::manifest(SHARD, example().id);
    let bytes = example().encode(cluster);
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 0x01;
        assert!(ShardGeneration::decode(&name, cluster, &other).is_err(), "byte {at}");
        assert!(ShardGeneration::decode(&name, cluster, &bytes[..at]).is_err(), "{at} bytes");
    }
}

/// Fields that claim more than is there are refused although the checksum is right.
#[test]
fn hostile_counts_are_refused_before_anything_is_allocated() {
    let cluster = Uuid::from_u128(1);
    let name = names::manifest(SHARD, example().id);
    let bytes = example().encode(cluster);
    for at in [68, 72] {
        let mut other = bytes[..bytes.len() - 8].to_vec();
        other[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        crate::objects::seal(&mut other);
        let error = ShardGeneration::decode(&name, cluster, &other).unwrap_err();
        assert!(error.to_string().contains("wrong fields"), "{error}");
    }
}
