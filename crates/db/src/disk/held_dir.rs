//! Directories that last as long as their holder: what a reader keeps beside a writer, and what
//! is being made and is not whole yet.
//!
//! Beside the directory `<name>` stands a file `<name>.lock`, which the holder has locked from
//! before the directory is made until after it is gone. A lock ends with its process, however
//! that ends, so a lock file that can be locked tells of a directory that nobody holds: the next
//! one who comes by removes both, the lock file last.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::{Action, DiskError};

const LOCK_SUFFIX: &str = ".lock";

/// A directory of this process. Dropped, it is removed with everything in it.
#[derive(Debug)]
pub struct HeldDir {
    path: PathBuf,
    lock_path: PathBuf,
    lock: File,
    kept: bool,
}

impl HeldDir {
    /// Makes an empty directory in `parent`, which exists. Its name is `prefix`, the process's
    /// number, and a number.
    ///
    /// # Errors
    /// [`DiskError`], `Permission` where this user may not write there.
    pub fn take(parent: &Path, prefix: &str) -> Result<Self, DiskError> {
        let pid = std::process::id();
        for attempt in 0_u64.. {
            let path = parent.join(format!("{prefix}{pid}-{attempt}"));
            let lock_path = with_suffix(&path);
            let failed = |action, e: io::Error| DiskError::of(action, lock_path.clone(), &e);
            let lock = match OpenOptions::new().write(true).create_new(true).open(&lock_path) {
                // Somebody's, of this process or of one with the same number elsewhere.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                lock => lock.map_err(|e| failed(Action::Create, e))?,
            };
            // Who tidies up may have been faster.
            if !locked(&lock).map_err(|e| failed(Action::Open, e))? {
                continue;
            }
            let held = Self { path, lock_path, lock, kept: false };
            let made = fs::create_dir(&held.path);
            made.map_err(|e| DiskError::of(Action::CreateDir, held.path.clone(), &e))?;
            return Ok(held);
        }
        unreachable!("there are fewer than 2^64 directories")
    }

    /// Removes what processes that have ended left in `parent`, and returns how many directories
    /// that were; those of living processes stay, and those that cannot be removed now. A parent
    /// that is missing holds nothing.
    ///
    /// # Errors
    /// [`DiskError`] where `parent` cannot be listed.
    pub fn remove_stale(parent: &Path, prefix: &str) -> Result<usize, DiskError> {
        let entries = match fs::read_dir(parent) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries.map_err(|e| DiskError::of(Action::List, parent.to_owned(), &e))?,
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(|e| DiskError::of(Action::List, parent.to_owned(), &e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(held) = name.strip_suffix(LOCK_SUFFIX).filter(|n| n.starts_with(prefix))
            else {
                continue;
            };
            match remove_if_stale(&parent.join(held)) {
                Ok(true) => removed += 1,
                Ok(false) => {}
                Err(e) => tracing::warn!(name = held, "cannot remove a directory left behind: {e}"),
            }
        }
        Ok(removed)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory its final name, durably; an empty directory that has it is replaced.
    /// What is in it has to be on stable storage.
    ///
    /// # Errors
    /// [`DiskError`]; after a failed sync of the parent the directory has its final name.
    pub fn keep_as(mut self, target: &Path) -> Result<(), DiskError> {
        let renamed = fs::rename(&self.path, target);
        renamed.map_err(|e| DiskError::of(Action::Rename, self.path.clone(), &e))?;
        self.kept = true;
        sync_dir(parent_of(target))
    }
}

impl Drop for HeldDir {
    fn drop(&mut self) {
        if !self.kept
            && let Err(e) = remove_dir_all(&self.path)
        {
            // The lock file stays for whoever tidies up later.
            tracing::warn!(path = %self.path.display(), "cannot remove a directory: {e}");
            return;
        }
        let removed = fs::remove_file(&self.lock_path);
        // Closing the file would unlock it too, but not while a forked child has it open.
        let unlocked = flock(&self.lock, FlockOperation::Unlock).map_err(io::Error::from);
        if let Err(e) = removed.and(unlocked) {
            tracing::warn!(path = %self.lock_path.display(), "cannot give back a lock: {e}");
        }
    }
}

/// The directory that `path` is in.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync_dir(dir: &Path) -> Result<(), DiskError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|e| DiskError::of(Action::SyncDir, dir.to_owned(), &e))
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LOCK_SUFFIX);
    PathBuf::from(name)
}

/// Locks the file, unless somebody else has it locked or it has no name any more. Lock files are
/// removed under their lock only, so a name that is still there is this file's.
fn locked(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn remove_if_stale(path: &Path) -> io::Result<bool> {
    let lock_path = with_suffix(path);
    let lock = match OpenOptions::new().write(true).open(&lock_path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    if !locked(&lock)? {
        return Ok(false);
    }
    remove_dir_all(path)?;
    fs::remove_file(&lock_path)?;
    Ok(true)
}

fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
