//! One try of each operation on objects, with names of our own and outcomes told apart.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{Error as Cause, GetOptions, GetResult, ObjectStore, PutMode, PutOptions};

use super::ObjectsError;
use super::counts::{RequestTally, StoreRequests, count};

/// What came of a put-if-absent that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object is there, as it was given.
    Done,
    /// The store says that there is one of that name. It may be the caller's own, from a try whose
    /// answer was lost; and S3 says the same when it means "try again". So this is no outcome: read.
    Exists,
}

/// An object as listings tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name within the bucket.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last put, by the store's own clock.
    pub modified: DateTime<Utc>,
}

/// The objects below one prefix of a store. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub struct ObjectBucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Where large objects are put in parts that can be found again.
    parts: Option<Arc<UploadParts>>,
    /// Where objects are files of this machine.
    root: Option<PathBuf>,
    tally: Arc<RequestTally>,
}

/// A [`MultipartStore`], which does not show itself.
pub(crate) struct UploadParts(pub(crate) Box<dyn MultipartStore>);

impl std::fmt::Debug for UploadParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UploadParts")
    }
}

impl ObjectBucket {
    /// All objects of `store` below `prefix`, which may be empty.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { store, prefix, parts: None, root: None, tally: Arc::default() }
    }

    /// The same, where uploads in parts are known by the store.
    pub(super) fn with_parts(self, parts: Box<dyn MultipartStore>) -> Self {
        Self { parts: Some(Arc::new(UploadParts(parts))), ..self }
    }

    /// The same, where objects are files below `root`.
    pub(super) fn with_root(self, root: PathBuf) -> Self {
        Self { root: Some(root), ..self }
    }

    /// What was asked of it so far, by this handle and its clones. Uploads in parts are not counted.
    pub fn requests(&self) -> StoreRequests {
        self.tally.requests()
    }

    pub(crate) fn parts(&self) -> Option<&UploadParts> {
        self.parts.as_deref()
    }

    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Deletes what puts that were stopped midway have left beside objects, if it was last written
    /// before `before`; tells how much. Only a directory has such remains.
    pub async fn sweep(&self, before: DateTime<Utc>) -> Result<u64, ObjectsError> {
        let Some(root) = self.root.clone() else { return Ok(0) };
        let work = tokio::task::spawn_blocking(move || super::directory::sweep(&root, before));
        work.await.expect("sweeping does not panic")
    }

    /// How the store names itself, for messages.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.store, self.prefix)
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        self.prefix.parts().chain(Path::from(name).parts()).collect()
    }

    fn name(&self, path: &Path) -> String {
        let skipped = self.prefix.parts().count();
        path.parts().skip(skipped).collect::<Path>().to_string()
    }

    /// Puts an object where there is none. An error leaves open whether it took effect.
    pub async fn put_new(&self, name: &str, bytes: Bytes) -> Result<PutOutcome, ObjectsError> {
        match self.put(name, bytes, PutMode::Create).await {
            Ok(()) => Ok(PutOutcome::Done),
            Err(Cause::AlreadyExists { .. } | Cause::Precondition { .. }) => Ok(PutOutcome::Exists),
            Err(cause) => Err(self.failure(name, cause)),
        }
    }

    /// Puts an object, over another where there is one.
    pub async fn put_over(&self, name: &str, bytes: Bytes) -> Result<(), ObjectsError> {
        self.put(name, bytes, PutMode::Overwrite).await.map_err(|cause| self.failure(name, cause))
    }

    async fn put(&self, name: &str, bytes: Bytes, mode: PutMode) -> Result<(), Cause> {
        let options = PutOptions { mode, ..PutOptions::default() };
        count(&self.tally.puts, 1);
        count(&self.tally.bytes_put, bytes.len() as u64);
        self.store.put_opts(&self.path(name), bytes.into(), options).await.map(drop)
    }

    /// The whole of an object of at most `most` bytes; `None` where there is none.
    pub async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, ObjectsError> {
        let Some(result) = self.opened(name, GetOptions::default()).await? else { return Ok(None) };
        let length = result.meta.size;
        if length > most {
            return Err(ObjectsError::damaged(name, format!("has {length} bytes, at most {most}")));
        }
        self.collected(name, result, length).await
    }

    /// Bytes `range` of an object; `None` where there is none. The object is at least that long.
    pub async fn get_range(
        &self,
        name: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, ObjectsError> {
        let length = range.end.saturating_sub(range.start);
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        let Some(result) = self.opened(name, options).await? else { return Ok(None) };
        if result.range.end - result.range.start != length {
            return Err(ObjectsError::damaged(name, "ends before the range that was asked for"));
        }
        self.collected(name, result, length).await
    }

    async fn opened(
        &self,
        name: &str,
        options: GetOptions,
    ) -> Result<Option<GetResult>, ObjectsError> {
        count(&self.tally.gets, 1);
        match self.store.get_opts(&self.path(name), options).await {
            Ok(result) => Ok(Some(result)),
            Err(Cause::NotFound { .. }) => Ok(None),
            Err(cause) => Err(self.failure(name, cause)),
        }
    }

    async fn collected(
        &self,
        name: &str,
        result: GetResult,
        length: u64,
    ) -> Result<Option<Bytes>, ObjectsError> {
        let bytes = collect(result, length).await.map_err(|cause| self.failure(name, cause))?;
        count(&self.tally.bytes_got, length);
        Ok(Some(bytes))
    }

    /// What is known of an object without reading it; `None` where there is none.
    pub async fn head(&self, name: &str) -> Result<Option<Listed>, ObjectsError> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = self.opened(name, options).await?;
        Ok(found.map(|it| self.listed(&it.meta)))
    }

    /// Objects below the folder `folder` whose names come after `after`, in the order of their names.
    pub async fn list(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, ObjectsError> {
        count(&self.tally.lists, 1);
        let within = self.path(folder);
        let stream = match after {
            Some(after) => self.store.list_with_offset(Some(&within), &self.path(after)),
            None => self.store.list(Some(&within)),
        };
        let found: Vec<_> = stream.try_collect().await.map_err(|c| self.failure(folder, c))?;
        let mut found: Vec<Listed> = found.iter().map(|meta| self.listed(meta)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The folders directly below `folder`, by the last part of their names.
    pub async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectsError> {
        count(&self.tally.lists, 1);
        let listed = self.store.list_with_delimiter(Some(&self.path(folder))).await;
        let listed = listed.map_err(|cause| self.failure(folder, cause))?;
        let last = |path: &Path| path.filename().map(str::to_owned);
        Ok(listed.common_prefixes.iter().filter_map(last).collect())
    }

    /// Deletes an object; that there is none is no error.
    pub async fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        count(&self.tally.deletes, 1);
        let path = self.path(name);
        let one = Box::pin(futures_util::stream::once(async move { Ok(path) }));
        match self.store.delete_stream(one).try_collect::<Vec<_>>().await {
            Ok(_) | Err(Cause::NotFound { .. }) => Ok(()),
            Err(cause) => Err(self.failure(name, cause)),
        }
    }

    fn listed(&self, meta: &object_store::ObjectMeta) -> Listed {
        Listed { name: self.name(&meta.location), bytes: meta.size, modified: meta.last_modified }
    }

    pub(crate) fn failure(&self, name: &str, cause: Cause) -> ObjectsError {
        count(&self.tally.errors, 1);
        if super::directory::is_unsynced(&cause) {
            return ObjectsError::Unsynced { store: self.shown() };
        }
        ObjectsError::of(name, cause)
    }
}

/// The bytes of a result that is as long as it says, into a buffer that grows as they come.
async fn collect(result: GetResult, length: u64) -> Result<Bytes, Cause> {
    let mut stream = result.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = stream.try_next().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > length {
            break;
        }
    }
    if bytes.len() as u64 != length {
        let got = bytes.len();
        let source = format!("{length} bytes were promised, {got} came").into();
        return Err(Cause::Generic { store: "bucket", source });
    }
    Ok(bytes.freeze())
}
