//! Stores in memory and in directories: opening, refusing, identity.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::*;

fn patience() -> Patience {
    Patience::new(Duration::from_secs(5), Arc::new(OfThisMachine::default()))
}

#[tokio::test]
async fn a_directory_passes_the_probe_and_keeps_nothing_of_it() {
    let home = tempfile::tempdir().unwrap();
    let bucket = open(&format!("file://{}", home.path().display())).unwrap();
    probe(&bucket, &patience()).await.unwrap();
    assert_eq!(bucket.list("", None).await.unwrap(), []);
}

#[tokio::test]
async fn an_identity_is_made_once_and_compared() {
    let bucket = open("memory://").unwrap();
    let first = Identity::open(&bucket, &patience(), "blue").await.unwrap();
    assert_eq!(Identity::open(&bucket, &patience(), "blue").await.unwrap(), first);
    let error = Identity::open(&bucket, &patience(), "red").await.unwrap_err();
    assert_eq!(error.to_string(), "the store holds the cluster \"blue\", not \"red\"");
    assert_eq!(error.advice(), Advice::FixInput);
}

#[tokio::test]
async fn a_later_format_is_refused_by_name() {
    let bucket = open("memory://").unwrap();
    let identity = Identity { name: "blue".into(), uuid: uuid::Uuid::nil() };
    let mut bytes = identity.encode().to_vec();
    bytes[8] = 2;
    bucket.put_over(IDENTITY_OBJECT, bytes.into()).await.unwrap();
    let error = Identity::open(&bucket, &patience(), "blue").await.unwrap_err();
    assert!(matches!(error, ObjectsError::Newer { version: 2, known: 1, .. }), "{error}");
}

#[test]
fn every_flipped_byte_of_an_identity_is_noticed() {
    let identity = Identity { name: "blue".into(), uuid: uuid::Uuid::from_u128(7) };
    let bytes = identity.encode();
    assert_eq!(Identity::decode(&bytes).unwrap(), identity);
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 0x10;
        assert!(Identity::decode(&other).is_err(), "byte {at}");
        assert!(Identity::decode(&bytes[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn urls_are_read_or_refused() {
    let s3 = StoreUrl::S3 { bucket: "b".into(), prefix: "a/b".into() };
    assert_eq!(StoreUrl::parse("s3://b/a/b/").unwrap(), s3);
    let directory = StoreUrl::Directory("/shared/dir".into());
    assert_eq!(StoreUrl::parse("file:///shared/dir").unwrap(), directory);
    for wrong in ["s3:/b", "s3://", "file://here", "gs://b", "s3://b?x=1", "/shared"] {
        let error = StoreUrl::parse(wrong).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
        assert_eq!(error.advice(), Advice::FixInput);
    }
}

/// Names below a prefix, folders, listings after a name.
#[tokio::test]
async fn names_are_those_below_the_prefix() {
    let bucket = ObjectBucket::new(Arc::new(InMemory::new()), "deep/down".into());
    for name in ["log/7/1", "log/7/2", "log/70/1", "other"] {
        assert_eq!(bucket.put_new(name, "x".into()).await.unwrap(), PutOutcome::Done);
    }
    assert_eq!(bucket.put_new("other", "y".into()).await.unwrap(), PutOutcome::Exists);
    let names = |listed: Vec<Listed>| listed.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(bucket.list("log/7", None).await.unwrap()), ["log/7/1", "log/7/2"]);
    assert_eq!(names(bucket.list("log/7", Some("log/7/1")).await.unwrap()), ["log/7/2"]);
    assert_eq!(bucket.folders("log").await.unwrap(), ["7", "70"]);
    assert_eq!(bucket.get_range("other", 0..1).await.unwrap().unwrap(), "x");
    bucket.delete("other").await.unwrap();
    bucket.delete("other").await.unwrap();
    assert_eq!(bucket.get("other", 9).await.unwrap(), None);
    assert!(matches!(bucket.get("log/7/1", 0).await, Err(ObjectsError::Damaged { .. })));
}
