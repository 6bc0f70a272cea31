//! The file operations of a checkpoint, behind a seam, so that tests fail each of them in turn;
//! and the lock that keeps a second writer out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::error::UpdateError;
use crate::format::LOCK_NAME;

/// What a checkpoint does to files. [`DiskFiles`] does it.
pub trait Files: Send + Sync {
    /// Creates a file, or empties the one of that name, which a checkpoint that failed has left.
    ///
    /// # Errors
    /// What the system says; here and below.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Gives a file another name, in place of what had that name.
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Puts the names in a directory on stable storage.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file. Who has it open goes on reading it.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written from front to back.
pub trait NewFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// What the system says.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Puts the file on stable storage; the end of writing.
    ///
    /// # Errors
    /// What the system says. What is on stable storage then nobody knows.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(File::create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

impl NewFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Names of all files in a directory; none where there is no such directory.
pub(super) fn names_in(dir: &Path) -> Result<Vec<String>, UpdateError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(UpdateError::file("list", dir))? {
        let entry = entry.map_err(UpdateError::file("list", dir))?;
        names.extend(entry.file_name().into_string().ok());
    }
    Ok(names)
}

/// The right to write to a directory, until it is dropped or the process ends.
pub(super) struct IndexLock {
    file: File,
}

impl Drop for IndexLock {
    /// Unlocks rather than only closing: a process that is being started elsewhere holds copies
    /// of all open files for a moment, and would keep the lock with them.
    fn drop(&mut self) {
        if let Err(e) = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock) {
            tracing::warn!("cannot unlock a directory: {e}");
        }
    }
}

impl IndexLock {
    /// Takes the lock, without waiting.
    pub(super) fn take(dir: &Path) -> Result<Self, UpdateError> {
        let path = dir.join(LOCK_NAME);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(UpdateError::file("open", &path))?;
        use rustix::fs::{FlockOperation, flock};
        if let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if e == rustix::io::Errno::WOULDBLOCK {
                return Err(Self::held(path, &mut file));
            }
            return Err(UpdateError::file("lock", &path)(e.into()));
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())
        };
        match write(&mut file) {
            // A full disk is no reason not to open an index; the note is for people.
            Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                tracing::warn!("cannot note who holds {}: {e}", path.display());
            }
            noted => noted.map_err(UpdateError::file("write", &path))?,
        }
        Ok(Self { file })
    }

    fn held(path: PathBuf, file: &mut File) -> UpdateError {
        let mut text = String::new();
        // The number is a courtesy; the lock is what counts.
        let _ = file.take(20).read_to_string(&mut text);
        UpdateError::Locked { path, holder: text.trim().parse().ok() }
    }
}
