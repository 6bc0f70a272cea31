//! A directory as an object store: every put is on disk, with its name, before it is answered.
//!
//! Files and directories are written by `object_store`, told to sync both. What is added here is what
//! follows a failure: where a name stands although its put failed, its directory could not be synced,
//! and nobody can say what of it a power cut would leave. Then nothing more is written.

use std::fmt;
use std::ops::Range;
use std::path::Path as LocalPath;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};

use super::ObjectsError;

/// Objects as files below a directory.
#[derive(Debug)]
pub(super) struct SyncedDirectory {
    files: LocalFileSystem,
    /// A sync failed after a name was made.
    unsynced: AtomicBool,
}

impl SyncedDirectory {
    /// Over an existing directory.
    pub(super) fn new(root: &LocalPath) -> Result<Self> {
        let files = LocalFileSystem::new_with_prefix(root)?.with_fsync(true);
        Ok(Self { files, unsynced: AtomicBool::new(false) })
    }

    fn writable(&self) -> Result<()> {
        if self.unsynced.load(Ordering::SeqCst) { Err(unsynced()) } else { Ok(()) }
    }

    /// Looks at what a failed put has left.
    async fn after_failure(&self, location: &Path, error: Error) -> Error {
        if matches!(error, Error::AlreadyExists { .. }) {
            return error;
        }
        match self.files.head(location).await {
            Err(Error::NotFound { .. }) => error,
            _ => {
                self.unsynced.store(true, Ordering::SeqCst);
                tracing::error!(object = %location, %error, "a name was made but not synced");
                unsynced()
            }
        }
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
        self.writable()?;
        let fresh = matches!(options.mode, PutMode::Create);
        match self.files.put_opts(location, payload, options).await {
            Err(error) if fresh => Err(self.after_failure(location, error).await),
            result => result,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.writable()?;
        self.files.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.writable() {
            Ok(()) => self.files.delete_stream(locations),
            Err(error) => futures_util::stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.writable()?;
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.writable()?;
        self.files.rename_opts(from, to, options).await
    }
}
