//! The directory in which an index is built, `NAME.tmp-PID`: locked while its build lives, so that
//! the next build of that name can tell what a killed one has left, and removes it.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::BuildError;
use crate::format::is_number;

/// A directory under construction, ours alone.
pub(super) struct WorkDir {
    pub(super) path: PathBuf,
    /// Holds the lock.
    dir: File,
}

impl WorkDir {
    /// Makes one beside the index `name` in `parent`, after what killed builds have left there
    /// was removed.
    pub(super) fn make(parent: &Path, name: &OsStr) -> Result<Self, BuildError> {
        remove_abandoned(parent, name)?;
        let mut number = 0u64;
        loop {
            let mut work = name.to_owned();
            work.push(format!(".tmp-{}", std::process::id()));
            if number > 0 {
                work.push(format!("-{number}"));
            }
            number += 1;
            let path = parent.join(work);
            match fs::create_dir(&path) {
                // A build of another process namespace, or of another thread.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(BuildError::io("create", &path)(e)),
                Ok(()) => match lock(&path) {
                    // Another build looked for abandoned directories before this one was locked.
                    Ok(Lock::Taken) => {}
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(BuildError::io("lock", &path)(e)),
                    Ok(Lock::Ours(dir) | Lock::None(dir)) => return Ok(Self { path, dir }),
                },
            }
        }
    }
}

impl Drop for WorkDir {
    /// Unlocks rather than only closing: a process that is being started elsewhere holds copies
    /// of all open files for a moment, and would keep the lock with them.
    fn drop(&mut self) {
        if let Err(e) = self.dir.unlock() {
            tracing::debug!(dir = %self.path.display(), "cannot unlock a build's directory: {e}");
        }
    }
}

/// What came of locking a directory.
enum Lock {
    Ours(File),
    /// Somebody else has it.
    Taken,
    /// A file system without locks.
    None(File),
}

/// Locks the directory of that name, if it still has the name then.
fn lock(path: &Path) -> io::Result<Lock> {
    let dir = File::open(path)?;
    match dir.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(Lock::Taken),
        Err(TryLockError::Error(_)) => return Ok(Lock::None(dir)),
        Ok(()) => {}
    }
    let place = |of: &Metadata| (of.dev(), of.ino());
    if place(&dir.metadata()?) != place(&fs::symlink_metadata(path)?) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(Lock::Ours(dir))
}

/// Removes what builds of the index `name` have left that were killed.
fn remove_abandoned(parent: &Path, name: &OsStr) -> Result<(), BuildError> {
    let entries = fs::read_dir(parent).map_err(BuildError::io("list", parent))?;
    for entry in entries {
        let entry = entry.map_err(BuildError::io("list", parent))?;
        let file_name = entry.file_name();
        let rest = file_name.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let rest = rest.and_then(|rest| str::from_utf8(rest).ok()?.strip_prefix(".tmp-"));
        if !rest.is_some_and(|rest| rest.splitn(2, '-').all(is_number)) {
            continue;
        }
        let path = entry.path();
        if let Ok(Lock::Ours(_dir)) = lock(&path) {
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::info!(dir = %path.display(), "removed what a killed build left"),
                Err(e) => {
                    tracing::warn!(dir = %path.display(), "cannot remove a killed build: {e}")
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::WorkDir;
    use std::ffi::OsStr;
    use std::fs;

    #[test]
    fn what_a_killed_build_left_goes_and_a_living_one_stays() {
        let temp = tempfile::tempdir().unwrap();
        let parent = temp.path();
        let pid = std::process::id();
        // Process numbers come again, in containers at once.
        for left in [format!("index.tmp-{pid}"), "index.tmp-1-2".to_owned()] {
            fs::create_dir(parent.join(&left)).unwrap();
            fs::write(parent.join(&left).join("codes-1"), "half").unwrap();
        }
        let others = ["index.tmp-old", "index.tmp-1-old", "other.tmp-1", "index.tmp-"];
        for other in others {
            fs::create_dir(parent.join(other)).unwrap();
        }
        let first = WorkDir::make(parent, OsStr::new("index")).unwrap();
        let second = WorkDir::make(parent, OsStr::new("index")).unwrap();
        assert!(first.path.ends_with(format!("index.tmp-{pid}")));
        assert!(second.path.ends_with(format!("index.tmp-{pid}-1")));
        assert!(first.path.is_dir() && fs::read_dir(&first.path).unwrap().next().is_none());
        drop((first, second));
        let third = WorkDir::make(parent, OsStr::new("index")).unwrap();
        assert!(third.path.ends_with(format!("index.tmp-{pid}")));
        assert_eq!(fs::read_dir(parent).unwrap().count(), others.len() + 1);
    }
}
