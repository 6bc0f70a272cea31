//! Files in memory by their names, for the memory backend and the simulation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::backend::OpenMode;
use super::error::{Errno, IoError};
use super::memory_file::MemoryFile;

/// Named files in memory.
#[derive(Default)]
pub(super) struct MemoryFiles {
    files: Mutex<HashMap<PathBuf, MemoryFile>>,
}

impl MemoryFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, MemoryFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of this name; loaded from the file system or created where there is none.
    pub(super) fn open(
        &self,
        path: &Path,
        mode: OpenMode,
        journaled: bool,
    ) -> Result<MemoryFile, IoError> {
        let mut files = self.lock();
        if let Some(file) = files.get(path) {
            return Ok(file.clone());
        }
        let create = mode.create && mode.write;
        // A device may have no end.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(IoError::Open { path: Arc::from(path), errno: Errno(libc::ENOTSUP) });
        }
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => Vec::new(),
            Err(error) => {
                return Err(IoError::Open { path: Arc::from(path), errno: Errno::of(&error) });
            }
        };
        let file = if journaled { MemoryFile::journaled(bytes) } else { MemoryFile::new(bytes) };
        files.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// Adds or replaces a file.
    pub(super) fn insert(&self, path: PathBuf, file: MemoryFile) {
        self.lock().insert(path, file);
    }

    /// All files, by name.
    pub(super) fn sorted(&self) -> Vec<(PathBuf, MemoryFile)> {
        let mut files: Vec<_> =
            self.lock().iter().map(|(path, file)| (path.clone(), file.clone())).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }
}
