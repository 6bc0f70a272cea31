//! The directory of a store, and whether it is still the one that was opened.
//!
//! Where a file system is unmounted under a server, an empty directory stays: what is put there is hidden
//! when it is mounted again, and nothing that is looked for is there. So whoever writes, and whoever finds
//! nothing, looks here first.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::{Error, Result};

/// See the module's description.
#[derive(Debug)]
pub(super) struct OpenedRoot {
    path: PathBuf,
    id: DirectoryId,
    /// That it is another one was told, and not since that it is the same again.
    told: AtomicBool,
}

/// Which directory of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    fn of(path: &Path) -> io::Result<Self> {
        // By this name a file system comes that is mounted when it is asked for.
        let found = fs::metadata(path.join("."))?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

/// Why nothing is written or found.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: the directory of the store is not the one that was opened: is it mounted? Where it is, and \
     stands on another device, start this server again",
    path.display()
)]
struct OtherDirectory {
    path: PathBuf,
    #[source]
    cause: Option<io::Error>,
}

impl OpenedRoot {
    /// The directory at a path, which is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let id = DirectoryId::of(&path)?;
        Ok(Self { path, id, told: AtomicBool::new(false) })
    }

    /// Fails, so that it may be tried again, where another directory has that path now, or none.
    ///
    /// Asks the system on the caller's thread: who asks has had an answer of the same directory just now,
    /// or is about to wait for one.
    pub(super) fn check(&self) -> Result<()> {
        let cause = match DirectoryId::of(&self.path) {
            Ok(found) if found == self.id => {
                self.told.store(false, Ordering::Relaxed);
                return Ok(());
            }
            found => found.err(),
        };
        let other = OtherDirectory { path: self.path.clone(), cause };
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::error!("{other}");
        }
        Err(Error::Generic { store: "directory", source: Box::new(other) })
    }
}
