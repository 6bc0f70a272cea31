//! Files from one directory to another: linked, copied, hashed, synced.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3Default;

use super::error::SnapshotError;

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Length and XXH3-128 of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileDigest {
    pub(super) bytes: u64,
    pub(super) xxh3: u128,
}

/// Gives the file `from` the second name `to`; makes a copy where that cannot be: on another file
/// system, on one without links, or of a file of another user. Only for files that never change.
///
/// # Errors
/// As the system says; `NotFound` where `from` is gone.
pub(super) fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(e),
        Err(_) => copy(from, to, u64::MAX).map(drop),
        Ok(()) => Ok(()),
    }
}

/// Copies the first `limit` bytes of `from` into the new file `to`. Not synced.
pub(super) fn copy(from: &Path, to: &Path, limit: u64) -> io::Result<FileDigest> {
    let mut from = File::open(from)?;
    let mut to = File::create_new(to)?;
    each_block(&mut from, limit, |block| to.write_all(block))
}

/// What a file holds.
pub(super) fn content(path: &Path) -> io::Result<FileDigest> {
    each_block(&mut File::open(path)?, u64::MAX, |_| Ok(()))
}

fn each_block(
    from: &mut File,
    limit: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<FileDigest> {
    let mut block = vec![0; COPY_BYTES];
    let (mut hash, mut bytes) = (Xxh3Default::new(), 0);
    loop {
        let room = usize::try_from(limit - bytes).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let read = match from.read(&mut block[..room]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(FileDigest { bytes, xxh3: hash.digest128() });
        }
        take(&block[..read])?;
        hash.update(&block[..read]);
        bytes += read as u64;
    }
}

/// Writes a file that is not there yet, making its directory where needed.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), SnapshotError> {
    make_parent(path)?;
    let write = || File::create_new(path)?.write_all(bytes);
    write().map_err(SnapshotError::file("write", path))
}

/// Makes the directory that `path` is in.
pub(super) fn make_parent(path: &Path) -> Result<(), SnapshotError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(SnapshotError::file("create", parent))
}

/// All files below `dir`, as paths from there with `/` between their parts, sorted.
pub(super) fn files_below(dir: &Path) -> Result<Vec<String>, SnapshotError> {
    let mut files = Vec::new();
    let mut left = vec![String::new()];
    while let Some(inner) = left.pop() {
        let path = dir.join(&inner);
        let failed = |e| SnapshotError::file("list", &path)(e);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if inner.is_empty() { name } else { format!("{inner}/{name}") };
            let is_dir = entry.file_type().map_err(failed)?.is_dir();
            if is_dir { left.push(name) } else { files.push(name) }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Puts `dir` and everything below it on stable storage.
pub(super) fn sync_tree(dir: &Path) -> Result<(), SnapshotError> {
    for entry in fs::read_dir(dir).map_err(SnapshotError::file("list", dir))? {
        let path = entry.map_err(SnapshotError::file("list", dir))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            sync(&path)?;
        }
    }
    sync(dir)
}

fn sync(path: &Path) -> Result<(), SnapshotError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(SnapshotError::file("sync", path))
}

/// Refuses a place where there is something already; an empty directory is fine.
pub(super) fn check_vacant(dir: &Path) -> Result<(), SnapshotError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(SnapshotError::Occupied { dir: dir.to_owned() }),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(SnapshotError::Occupied { dir: dir.to_owned() })
        }
        Err(e) => Err(SnapshotError::file("list", dir)(e)),
    }
}
