//! A directory of the operating system.
//!
//! Syncs are `fdatasync`, which includes the length that a growing file needs to be read back. What
//! is on stable storage leaves the page cache: files that are appended to are read when the
//! database is opened and no sooner, so that the cache is for what searches read, and the next
//! append finds pages that were just given back.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};
#[cfg(target_os = "linux")]
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use super::error::{Action, DiskError};
use super::open_files::{KeptFile, OpenFiles};
use super::path::{check_dir, check_file};
use super::{AppendFile, DirectoryEntry, Disk, ReadFile};

/// The tree below one directory.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    appended: Arc<OpenFiles>,
}

impl RealDisk {
    /// The tree below `root`, which has to exist.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where there is no such directory.
    pub fn open(root: &Path) -> Result<Self, DiskError> {
        let failed = |error: &io::Error| DiskError::of(Action::Open, root.to_owned(), error);
        let root = fs::canonicalize(root).map_err(|e| failed(&e))?;
        match fs::metadata(&root) {
            Ok(about) if about.is_dir() => Ok(Self { root, appended: Arc::default() }),
            Ok(_) => Err(failed(&io::ErrorKind::NotADirectory.into())),
            Err(e) => Err(failed(&e)),
        }
    }

    /// Files that are open for appending.
    #[cfg(test)]
    pub(crate) fn open_for_appending(&self) -> usize {
        self.appended.count()
    }

    fn file(&self, action: Action, path: &str) -> Result<PathInUse, DiskError> {
        check_file(path)?;
        Ok(PathInUse { action, path: self.locate(path) })
    }

    fn dir(&self, action: Action, path: &str) -> Result<PathInUse, DiskError> {
        check_dir(path)?;
        Ok(PathInUse { action, path: self.locate(path) })
    }
}

/// A path, and what is being done with it.
struct PathInUse {
    action: Action,
    path: PathBuf,
}

impl PathInUse {
    fn give<T>(self, result: io::Result<T>) -> Result<T, DiskError> {
        result.map_err(|e| DiskError::of(self.action, self.path, &e))
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &str) -> Result<(), DiskError> {
        let place = self.file(Action::CreateDir, path)?;
        match fs::create_dir(&place.path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && place.path.is_dir() => Ok(()),
            result => place.give(result),
        }
    }

    fn remove_dir(&self, path: &str) -> Result<(), DiskError> {
        let place = self.file(Action::Remove, path)?;
        let result = fs::remove_dir(&place.path);
        place.give(result)
    }

    fn create(&self, path: &str) -> Result<Box<dyn AppendFile>, DiskError> {
        let place = self.file(Action::Create, path)?;
        let path = place.path.clone();
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let (end, left) = Default::default();
        let file = self.appended.keep(place.give(file)?, path);
        Ok(Box::new(Appended { file, end, left }))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, DiskError> {
        let place = self.file(Action::Open, path)?;
        let path = place.path.clone();
        let file = File::open(&path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        Ok(Box::new(RealFile { file: place.give(file)?, path }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let place = self.file(Action::Rename, from)?;
        check_file(to)?;
        let result = fs::rename(&place.path, self.locate(to));
        place.give(result)
    }

    fn remove(&self, path: &str) -> Result<(), DiskError> {
        let place = self.file(Action::Remove, path)?;
        let result = fs::remove_file(&place.path);
        place.give(result)
    }

    fn sync_dir(&self, path: &str) -> Result<(), DiskError> {
        let place = self.dir(Action::SyncDir, path)?;
        let result = File::open(&place.path).and_then(|dir| dir.sync_all());
        place.give(result)
    }

    fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, DiskError> {
        let place = self.dir(Action::List, path)?;
        let entries = fs::read_dir(&place.path).and_then(|dir| dir.map(entry).collect());
        let mut entries: Vec<DirectoryEntry> = place.give(entries)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn available_bytes(&self) -> Result<u64, DiskError> {
        let place = self.dir(Action::Measure, "")?;
        let stat = rustix::fs::statvfs(&place.path).map_err(io::Error::from);
        place.give(stat).map(|s| s.f_bavail.saturating_mul(s.f_frsize))
    }

    fn unforeseen(&self) -> u64 {
        // Keyed with randomness of the system.
        RandomState::new().build_hasher().finish()
    }

    fn locate(&self, path: &str) -> PathBuf {
        // Not `join("")`, which would append a slash.
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

fn entry(found: io::Result<fs::DirEntry>) -> io::Result<DirectoryEntry> {
    let found = found?;
    let about = found.metadata()?;
    Ok(DirectoryEntry {
        name: found.file_name().to_string_lossy().into_owned(),
        bytes: if about.is_dir() { 0 } else { about.len() },
        is_dir: about.is_dir(),
    })
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    fn give<T>(&self, action: Action, result: io::Result<T>) -> Result<T, DiskError> {
        PathInUse { action, path: self.path.clone() }.give(result)
    }
}

/// Bytes that leave the page cache together: so many that asking for it costs nothing beside writing
/// them.
const LEAVE_TOGETHER: u64 = 1 << 20;

/// A file being written.
#[derive(Debug)]
struct Appended {
    file: Arc<KeptFile>,
    /// Bytes appended.
    end: AtomicU64,
    /// Bytes that have left the page cache.
    left: AtomicU64,
}

impl Appended {
    fn give<T>(&self, action: Action, result: io::Result<T>) -> Result<T, DiskError> {
        result.map_err(|e| DiskError::of(action, self.file.path(), &e))
    }

    fn write(&self, synced: Option<bool>, bytes: &[u8]) -> Result<(), DiskError> {
        let appended = self.file.with(synced, |mut file| file.write_all(bytes));
        self.give(Action::Append, appended)?;
        self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Asks the system to forget what is on stable storage, but for the page that the next append
    /// goes on in.
    fn leave_cache(&self, file: &File) {
        let left = self.left.load(Ordering::Relaxed);
        let whole = self.end.load(Ordering::Relaxed) / LEAVE_TOGETHER * LEAVE_TOGETHER;
        if let Some(bytes) = NonZeroU64::new(whole.saturating_sub(left)) {
            // Advice: where it is not taken, memory is what it costs.
            let _ = fadvise(file, left, Some(bytes), Advice::DontNeed);
            self.left.store(whole, Ordering::Relaxed);
        }
    }
}

impl AppendFile for Appended {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(Some(false), bytes)
    }

    fn append_losable(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(None, bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        let from = self.end.load(Ordering::Relaxed);
        let kept = self.file.with(None, |file| keep_room(file, from, bytes));
        self.give(Action::Reserve, kept)
    }

    fn give_back(&self) {
        // The length it has: blocks behind it go.
        let end = self.end.load(Ordering::Relaxed);
        let _ = self.file.with(None, |file| file.set_len(end));
    }

    fn sync(&self) -> Result<(), DiskError> {
        let synced = self.file.with(Some(true), |file| {
            file.sync_data()?;
            self.leave_cache(file);
            Ok(())
        });
        self.give(Action::Sync, synced)
    }

    fn renamed(&self, to: &Path) {
        self.file.renamed(to);
    }
}

/// Takes blocks for a range of a file, which does not grow by that.
#[cfg(target_os = "linux")]
fn keep_room(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes) {
            Err(Errno::INTR) => {}
            // Not every file system can: then an append tells that the disk is full.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            kept => return Ok(kept?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_room(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

impl ReadFile for RealFile {
    fn bytes(&self) -> Result<u64, DiskError> {
        self.give(Action::Measure, self.file.metadata().map(|about| about.len()))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let mut read = 0;
        while read < into.len() {
            match self.file.read_at(&mut into[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.give(Action::Read, Err(e)),
            }
        }
        Ok(read)
    }
}
