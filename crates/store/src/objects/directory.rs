//! A directory as an object store: every put is on disk, with its name, before it is answered.
//!
//! Files and directories are written by `object_store`, told to sync both. What is added here is what
//! follows a failure: where a name stands although its put failed, its directory could not be synced,
//! and nobody can say what of it a power cut would leave. Then nothing more is written. Where nobody can
//! tell yet whether it stands, that is looked at before the next write. And that the directory is the one
//! that was opened ([`OpenedRoot`]).

use std::collections::BTreeSet;
use std::fmt;
use std::future::ready;
use std::ops::Range;
use std::path::Path as LocalPath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{BoxStream, once};
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};

use super::ObjectsError;
use super::root::OpenedRoot;

/// Objects as files below a directory. A clone is a cheap handle.
#[derive(Clone, Debug)]
pub(super) struct SyncedDirectory {
    files: LocalFileSystem,
    root: Arc<OpenedRoot>,
    synced: Arc<Mutex<SyncState>>,
}

/// Whether what was put is known to be durable.
#[derive(Debug, Default)]
struct SyncState {
    /// A sync failed after a name was made.
    unsynced: bool,
    /// Names whose puts failed, of which nobody could tell yet whether they stand.
    doubted: BTreeSet<Path>,
}

impl SyncedDirectory {
    /// Over an existing directory.
    pub(super) fn new(root: &LocalPath) -> Result<Self> {
        let files = LocalFileSystem::new_with_prefix(root)?.with_fsync(true);
        let opened = OpenedRoot::open(root);
        let of = |e| Error::Generic { store: "directory", source: Box::new(e) };
        Ok(Self { files, root: Arc::new(opened.map_err(of)?), synced: Arc::default() })
    }

    fn synced(&self) -> MutexGuard<'_, SyncState> {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails where nothing is to be written.
    async fn writable(&self) -> Result<()> {
        self.root.check()?;
        let doubted: Vec<Path> = self.synced().doubted.iter().cloned().collect();
        for location in doubted {
            self.decide(&location).await?;
        }
        if self.synced().unsynced { Err(unsynced()) } else { Ok(()) }
    }

    /// Looks whether a name stands whose put has failed; fails where it does, or nobody can tell.
    async fn decide(&self, location: &Path) -> Result<()> {
        match self.files.head(location).await {
            Ok(_) => {
                let mut synced = self.synced();
                synced.unsynced = true;
                synced.doubted.remove(location);
                drop(synced);
                tracing::error!(object = %location, "a name was made but not synced");
                Err(unsynced())
            }
            Err(Error::NotFound { .. }) => {
                self.root.check()?;
                self.synced().doubted.remove(location);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at what a failed put has left.
    async fn after_failure(&self, location: &Path, error: Error) -> Error {
        if matches!(error, Error::AlreadyExists { .. }) {
            return error;
        }
        self.synced().doubted.insert(location.clone());
        match self.decide(location).await {
            Err(decided) if is_unsynced(&decided) => decided,
            _ => error,
        }
    }

    /// What was listed, and an error behind it where it was not listed in the directory that was opened.
    fn of_root(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let root = Arc::clone(&self.root);
        let end = once(async move { root.check() });
        listed.chain(end.filter_map(|it| ready(it.err().map(Err)))).boxed()
    }
}

/// Marks the error that [`is_unsynced`] finds.
#[derive(Debug, thiserror::Error)]
#[error("a directory could not be synced after a name was made in it")]
struct UnsyncedName;

fn unsynced() -> Error {
    Error::Generic { store: "directory", source: Box::new(UnsyncedName) }
}

/// Whether an error says that a sync failed.
pub(super) fn is_unsynced(error: &Error) -> bool {
    matches!(error, Error::Generic { source, .. } if source.is::<UnsyncedName>())
}

impl fmt::Display for SyncedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

/// Deletes files that puts staged and did not come to name, if last written before `before`.
pub(super) fn sweep(root: &LocalPath, before: DateTime<Utc>) -> Result<u64, ObjectsError> {
    let mut count = 0;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let of = |cause| ObjectsError::Local { path: folder.display().to_string(), cause };
        for entry in std::fs::read_dir(&folder).map_err(of)? {
            let entry = entry.map_err(of)?;
            let kind = entry.file_type().map_err(of)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if is_staged(&entry.file_name().to_string_lossy()) {
                match entry.metadata().and_then(|it| it.modified()) {
                    Ok(modified) if DateTime::<Utc>::from(modified) < before => {
                        std::fs::remove_file(entry.path()).map_err(of)?;
                        count += 1;
                    }
                    // Its put may end at any moment.
                    _ => {}
                }
            }
        }
    }
    Ok(count)
}

/// `name#12`, as `object_store` calls what it stages.
fn is_staged(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, digits)| {
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    })
}

#[async_trait]
impl ObjectStore for SyncedDirectory {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.writable().await?;
        let fresh = matches!(options.mode, PutMode::Create);
        let put = match self.files.put_opts(location, payload, options).await {
            Err(error) if fresh => return Err(self.after_failure(location, error).await),
            result => result?,
        };
        // It may have been unmounted between the look and the put.
        self.root.check()?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.writable().await?;
        self.files.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.files.get_opts(location, options).await;
        if matches!(found, Err(Error::NotFound { .. })) {
            self.root.check()?;
        }
        let doubted = found.is_ok() && self.synced().doubted.contains(location);
        if doubted {
            // Who reads what was put is to know that it stays.
            self.decide(location).await?;
        }
        found
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let found = self.files.get_ranges(location, ranges).await;
        if matches!(found, Err(Error::NotFound { .. })) {
            self.root.check()?;
        }
        found
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let directory = self.clone();
        let deletes = async move {
            directory.writable().await?;
            Ok::<_, Error>(directory.files.delete_stream(locations))
        };
        once(deletes).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.of_root(self.files.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.of_root(self.files.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.files.list_with_delimiter(prefix).await;
        self.root.check()?;
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.writable().await?;
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.writable().await?;
        self.files.rename_opts(from, to, options).await
    }
}
