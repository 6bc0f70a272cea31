//! A disk that is written to only while a lock of its directory is held.
//!
//! A lock is a file, and files are removed: by a script that clears up, or by someone who was told
//! that the database is in use. The next process that opens the directory then locks a file of its
//! own, and both would acknowledge. So whoever writes looks at the lock first, and again once the
//! bytes are on stable storage and before anybody is told of it; who has lost it stops for good.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use super::error::DiskError;
use super::lock::DirectoryLock;
use super::{AppendFile, DirectoryEntry, Disk, ReadFile};

/// See the module's description.
pub struct GuardedDisk {
    disk: Arc<dyn Disk>,
    lock: Weak<DirectoryLock>,
}

impl GuardedDisk {
    /// `disk`, below the directory of `lock`.
    pub fn new(disk: Arc<dyn Disk>, lock: &Arc<DirectoryLock>) -> Self {
        Self { disk, lock: Arc::downgrade(lock) }
    }
}

/// A lock that was given back is none that was lost.
fn check(lock: &Weak<DirectoryLock>) -> Result<(), DiskError> {
    lock.upgrade().map_or(Ok(()), |lock| lock.check())
}

impl fmt::Debug for GuardedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for GuardedDisk {
    fn check(&self) -> Result<(), DiskError> {
        check(&self.lock)
    }

    fn create_dir(&self, path: &str) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.disk.create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.disk.remove_dir(path)
    }

    fn create(&self, path: &str) -> Result<Box<dyn AppendFile>, DiskError> {
        check(&self.lock)?;
        let file = self.disk.create(path)?;
        Ok(Box::new(GuardedFile { file, lock: Weak::clone(&self.lock) }))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, DiskError> {
        self.disk.open(path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.disk.remove(path)
    }

    fn sync_dir(&self, path: &str) -> Result<(), DiskError> {
        self.disk.sync_dir(path)?;
        check(&self.lock)
    }

    fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, DiskError> {
        self.disk.list(path)
    }

    fn available_bytes(&self) -> Result<u64, DiskError> {
        self.disk.available_bytes()
    }

    fn unforeseen(&self) -> u64 {
        self.disk.unforeseen()
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.disk.locate(path)
    }
}

struct GuardedFile {
    file: Box<dyn AppendFile>,
    lock: Weak<DirectoryLock>,
}

impl fmt::Debug for GuardedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl AppendFile for GuardedFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.file.append(bytes)
    }

    fn append_losable(&self, bytes: &[u8]) -> Result<(), DiskError> {
        check(&self.lock)?;
        self.file.append_losable(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.reserve(bytes)
    }

    fn give_back(&self) {
        self.file.give_back();
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()?;
        check(&self.lock)
    }

    fn renamed(&self, to: &Path) {
        self.file.renamed(to);
    }
}
