//! Where the bytes of a file to be published come from.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::objects::ObjectsError;

/// Bytes that are in memory at once while a file is read.
const CHUNK: u64 = 8 << 20;

/// A file to be published, which does not change meanwhile.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// A file of this machine.
    File(PathBuf),
    /// Bytes in memory.
    Bytes(Bytes),
}

impl FileSource {
    /// Its length in bytes, and xxh3-128 of them.
    pub(super) async fn digest(&self) -> Result<(u64, u128), ObjectsError> {
        match self {
            Self::Bytes(bytes) => Ok((bytes.len() as u64, xxhash_rust::xxh3::xxh3_128(bytes))),
            Self::File(path) => {
                let path = path.clone();
                blocking(move || {
                    digest_of(&path, u64::MAX).map(|(length, it)| (length, it.digest128()))
                })
                .await
            }
        }
    }

    /// Bytes `range`, which are there.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, ObjectsError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.slice(range.start as usize..range.end as usize)),
            Self::File(path) => {
                let path = path.clone();
                blocking(move || {
                    let mut bytes = vec![0; (range.end - range.start) as usize];
                    let file = File::open(&path).map_err(|cause| local(&path, cause))?;
                    file.read_exact_at(&mut bytes, range.start)
                        .map_err(|cause| local(&path, cause))?;
                    Ok(bytes.into())
                })
                .await
            }
        }
    }
}

/// The hash of the first `most` bytes of a file, to be gone on with, and how many they are.
pub(super) fn digest_of(path: &Path, most: u64) -> Result<(u64, Xxh3), ObjectsError> {
    let of = |cause| local(path, cause);
    let file = File::open(path).map_err(of)?;
    let length = file.metadata().map_err(of)?.len().min(most);
    let mut hash = Xxh3::new();
    let mut chunk = vec![0; length.min(CHUNK) as usize];
    let mut at = 0;
    while at < length {
        let read = (length - at).min(CHUNK) as usize;
        file.read_exact_at(&mut chunk[..read], at).map_err(of)?;
        hash.update(&chunk[..read]);
        at += read as u64;
    }
    Ok((length, hash))
}

/// Work on files, on a thread where it may wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ObjectsError> + Send + 'static,
) -> Result<T, ObjectsError> {
    // Without a runtime the caller's thread is one that may block.
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    tokio::task::spawn_blocking(work).await.expect("work on files does not panic")
}

pub(super) fn local(path: &Path, cause: std::io::Error) -> ObjectsError {
    ObjectsError::Local { path: path.display().to_string(), cause }
}
