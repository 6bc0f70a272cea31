//! Stores in memory and in directories: opening, refusing, identity.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::*;

fn patience() -> RetryPatience {
    RetryPatience::new(Duration::from_secs(5), Arc::new(OfThisMachine::default()))
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
    let said = |url| StoreUrl::parse(url).unwrap_err().to_string();
    assert!(said("/tmp/x").contains("file:///tmp/x"), "{}", said("/tmp/x"));
    assert!(said("store").contains("file:///DIRECTORY"), "{}", said("store"));
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

/// A store whose second put of one name succeeds, as of S3 without conditional writes.
#[derive(Debug)]
struct Careless(InMemory);

impl std::fmt::Display for Careless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("careless")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Careless {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        _: PutOptions,
    ) -> Result<PutResult> {
        self.0.put_opts(location, payload, PutOptions::default()).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_store_without_conditional_puts_is_refused_by_name() {
    let bucket = ObjectBucket::new(Arc::new(Careless(InMemory::new())), "deep".into());
    let error = probe(&bucket, &patience()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store careless/deep can't be used: the second put of one name succeeds; conditional \
         writes are needed"
    );
    assert_eq!(error.advice(), Advice::FixInput);
}

/// Many threads, each with a handle of its own, put one name: one wins, and its bytes are there.
#[test]
fn a_directory_creates_a_name_once() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}", home.path().display());
    for round in 0..20 {
        let name = format!("race/{round}");
        let put = &|own: u8| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let bucket = open(&url).unwrap();
            let put = runtime.block_on(bucket.put_new(&name, vec![own; 10].into())).unwrap();
            (put == PutOutcome::Done).then_some(own)
        };
        let winners: Vec<u8> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|own| scope.spawn(move || put(own))).collect();
            threads.into_iter().filter_map(|it| it.join().unwrap()).collect()
        });
        let [winner] = winners[..] else { panic!("{winners:?} have won") };
        let found = std::fs::read(home.path().join(&name)).unwrap();
        assert_eq!(found, [winner; 10]);
    }
}

/// A bucket over a directory within another one that can be renamed.
fn directory_in(home: &std::path::Path) -> (ObjectBucket, std::path::PathBuf) {
    let root = home.join("store");
    (open(&format!("file://{}", root.display())).unwrap(), root)
}

/// As a mount point is while the file system is away: an empty directory.
#[tokio::test]
async fn a_directory_that_is_not_the_one_that_was_opened_is_no_empty_store() {
    let home = tempfile::tempdir().unwrap();
    let (bucket, root) = directory_in(home.path());
    let away = home.path().join("away");
    bucket.put_new("log/0/1", "x".into()).await.unwrap();
    std::fs::rename(&root, &away).unwrap();
    for empty in [true, false] {
        if empty {
            std::fs::create_dir(&root).unwrap();
        }
        let errors = [
            bucket.put_new("log/0/2", "y".into()).await.unwrap_err(),
            bucket.put_over("other", "y".into()).await.unwrap_err(),
            bucket.get("log/0/1", 9).await.unwrap_err(),
            bucket.head("log/0/2").await.unwrap_err(),
            bucket.list("log/0", None).await.unwrap_err(),
            bucket.list("log/0", Some("log/0/0")).await.unwrap_err(),
            bucket.folders("log").await.unwrap_err(),
            bucket.delete("log/0/1").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.advice(), Advice::Retry, "{error}");
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(why.contains("is it mounted?"), "{why}");
        }
        if empty {
            std::fs::remove_dir(&root).expect("nothing was made in it");
        }
    }
    std::fs::rename(&away, &root).unwrap();
    assert_eq!(bucket.get("log/0/1", 9).await.unwrap().unwrap(), "x");
    assert_eq!(bucket.put_new("log/0/2", "y".into()).await.unwrap(), PutOutcome::Done);
}

/// A file where a folder should be: puts fail, and so does every look at what they have left.
#[tokio::test]
async fn that_nobody_can_tell_what_a_put_has_left_ends_with_the_trouble() {
    let home = tempfile::tempdir().unwrap();
    let (bucket, root) = directory_in(home.path());
    std::fs::write(root.join("log"), b"in the way").unwrap();
    for name in ["log/1", "log/2", "other"] {
        let error = bucket.put_new(name, "x".into()).await.unwrap_err();
        assert_eq!(error.advice(), Advice::Retry, "{error}");
    }
    std::fs::remove_file(root.join("log")).unwrap();
    assert_eq!(bucket.put_new("other", "x".into()).await.unwrap(), PutOutcome::Done);
    assert_eq!(bucket.put_new("log/1", "x".into()).await.unwrap(), PutOutcome::Done);
    assert_eq!(bucket.get("log/1", 9).await.unwrap().unwrap(), "x");
}

/// The same, where it turns out that the name was made: whether it was synced nobody knows.
#[tokio::test]
async fn a_name_that_stands_after_a_failed_put_is_neither_read_nor_written_beside() {
    for first in ["read", "write"] {
        let home = tempfile::tempdir().unwrap();
        let (bucket, root) = directory_in(home.path());
        std::fs::write(root.join("log"), b"in the way").unwrap();
        bucket.put_new("log/1", "x".into()).await.unwrap_err();
        std::fs::remove_file(root.join("log")).unwrap();
        std::fs::create_dir(root.join("log")).unwrap();
        std::fs::write(root.join("log/1"), b"x").unwrap();
        if first == "read" {
            let error = bucket.get("log/1", 9).await.unwrap_err();
            assert!(matches!(error, ObjectsError::Unsynced { .. }), "{error}");
        }
        let error = bucket.put_new("log/2", "x".into()).await.unwrap_err();
        assert!(matches!(error, ObjectsError::Unsynced { .. }), "{error}");
        let error = bucket.delete("log/1").await.unwrap_err();
        assert!(matches!(error, ObjectsError::Unsynced { .. }), "{error}");
    }
}
