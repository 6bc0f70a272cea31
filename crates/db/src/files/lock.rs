//! The lock of a store's directory, which ends with the process.

use std::fs::{File, TryLockError};
use std::io;

/// Name of the lock file of a store.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// A locked file.
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks the file; `None` where somebody else has.
    pub(crate) fn take(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for FileLock {
    /// Unlocks rather than only closing: a process that is being started elsewhere holds copies
    /// of all open files for a moment, and would keep the lock with them.
    fn drop(&mut self) {
        if let Err(e) = self.0.unlock() {
            tracing::warn!("cannot unlock a directory: {e}");
        }
    }
}
