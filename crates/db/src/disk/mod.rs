//! The files of a database directory behind one trait: real ones, and ones that lose power.
//!
//! The trait offers what a crash-safe store needs and no more: files that only grow, rename,
//! and syncs that are asked for one by one. There is no overwriting in place and no truncation.
//! Whatever is not synced may be lost, kept or torn by a power cut; [`CrashDisk`] does all three.
//! Paths are relative to the root, with `/` between their parts; `""` is the root itself.
//! What a file holds is not known here. Readers take no lock: they give the files of one moment
//! names of their own, in a directory that is theirs ([`HeldDir`]).

mod crash;
mod error;
mod file_set;
mod guarded;
mod held_dir;
mod lock;
mod open_files;
mod path;
mod real;
mod whole;

#[cfg(test)]
mod tests;

pub use crash::{CrashDisk, FaultKind, PlannedFault, PowerCut};
pub use error::{Action, DiskError};
pub use file_set::{FileSet, ImmutableFile};
pub use guarded::GuardedDisk;
pub use held_dir::{HeldDir, parent_of};
pub use lock::{DirectoryLock, Holder, LOCK_NAME, LockError};
pub use real::RealDisk;
pub use whole::{TEMPORARY_SUFFIX, read_file, remove_tree, replace_file, replace_file_to_append};

use std::fmt;
use std::path::{Path, PathBuf};

/// A directory tree. Shared between threads by reference.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a directory whose parent exists; it is no error that it exists already. Durable
    /// after [`sync_dir`](Self::sync_dir) of its parent.
    ///
    /// # Errors
    /// [`DiskError`], among them `NotFound` where the parent is missing.
    fn create_dir(&self, path: &str) -> Result<(), DiskError>;

    /// Removes an empty directory. Durable after `sync_dir` of its parent.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where it is missing, `Io` where it is not empty.
    fn remove_dir(&self, path: &str) -> Result<(), DiskError>;

    /// Creates an empty file to append to. Its name is durable after `sync_dir` of its
    /// directory, its bytes after their own sync.
    ///
    /// # Errors
    /// [`DiskError`], `Exists` where the name is taken, `NotFound` where the directory is missing.
    fn create(&self, path: &str) -> Result<Box<dyn AppendFile>, DiskError>;

    /// Opens a file for reading. The file stays readable when it is removed or replaced later.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where it is missing.
    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, DiskError>;

    /// Gives a file another name, replacing the file that has it; or a directory with all that is
    /// in it a name that nothing has. A power cut leaves the old state or the new one; the new
    /// one for certain after `sync_dir` of the directories.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where `from` is missing.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Durable after `sync_dir` of its directory.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where it is missing.
    fn remove(&self, path: &str) -> Result<(), DiskError>;

    /// Puts the names in a directory on stable storage.
    ///
    /// # Errors
    /// [`DiskError`]; what happened to the names since the last sync is then unknown.
    fn sync_dir(&self, path: &str) -> Result<(), DiskError>;

    /// What is in a directory, by name.
    ///
    /// # Errors
    /// [`DiskError`], `NotFound` where it is missing.
    fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, DiskError>;

    /// Bytes that can still be written by this user.
    ///
    /// # Errors
    /// [`DiskError`].
    fn available_bytes(&self) -> Result<u64, DiskError>;

    /// A number that nobody who writes to this can foresee; of a simulated disk, one that comes
    /// again in the same run.
    fn unforeseen(&self) -> u64;

    /// Whether this may still be written to.
    ///
    /// # Errors
    /// [`DiskError::LockLost`] where somebody has removed the lock.
    fn check(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// The path as a person would look for it; for messages.
    fn locate(&self, path: &str) -> PathBuf;
}

/// A file being written, from front to back.
pub trait AppendFile: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at the end.
    ///
    /// # Errors
    /// [`DiskError`], `NoSpace` where the disk or a quota is full. Any part of `bytes` may then
    /// be in the file.
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError>;

    /// Like `append`, for bytes that may be lost: a file counts as it did before, as one that is on
    /// stable storage as a whole and may be closed while it rests.
    ///
    /// # Errors
    /// As of `append`.
    fn append_losable(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.append(bytes)
    }

    /// Keeps room on the disk for `bytes` behind those appended so far, so that appending them does
    /// not find the disk full. Length and contents stay as they are. Where the file system cannot
    /// keep room, nothing happens.
    ///
    /// # Errors
    /// [`DiskError`], `NoSpace` where there is no such room; a part of it may be kept then.
    fn reserve(&self, bytes: u64) -> Result<(), DiskError>;

    /// Gives back what room was kept and not used. Where that fails it is kept until the file goes.
    fn give_back(&self);

    /// Puts all bytes appended so far on stable storage.
    ///
    /// # Errors
    /// [`DiskError`]. What was written since the last sync may then be lost even if a later
    /// sync succeeds; reading it back proves nothing.
    fn sync(&self) -> Result<(), DiskError>;

    /// It has been given another name, by which it may be opened again.
    fn renamed(&self, _to: &Path) {}
}

/// A file being read. It may grow meanwhile.
pub trait ReadFile: fmt::Debug + Send + Sync {
    /// Bytes in the file now.
    ///
    /// # Errors
    /// [`DiskError`].
    fn bytes(&self) -> Result<u64, DiskError>;

    /// Fills `into` from `offset`, up to the end of the file, and returns how many bytes that
    /// were: fewer than asked for only at the end.
    ///
    /// # Errors
    /// [`DiskError`].
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, DiskError>;
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name within the directory. A name that is not UTF-8 is shown with replacement characters.
    pub name: String,
    /// Length in bytes of a file; 0 for a directory.
    pub bytes: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}
