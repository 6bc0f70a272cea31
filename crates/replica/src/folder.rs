//! Directories of generations: what is below them, and taking it away.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::ReplicaError;

/// In the directory of a server: files that come from the store or go there.
pub(crate) const GENERATIONS_DIR: &str = "generations";

/// Removes a directory or a file, if it is there.
pub(crate) fn clear(path: &Path) -> Result<(), ReplicaError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ReplicaError::files(path)(error))
        }
        _ => Ok(()),
    }
}

/// All files below a directory, as paths from there with `/` between their parts.
pub(crate) fn files_below(dir: &Path) -> Result<Vec<String>, ReplicaError> {
    let mut files = Vec::new();
    let mut left = vec![String::new()];
    while let Some(inner) = left.pop() {
        let path = dir.join(&inner);
        for entry in fs::read_dir(&path).map_err(ReplicaError::files(&path))? {
            let entry = entry.map_err(ReplicaError::files(&path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if inner.is_empty() { name } else { format!("{inner}/{name}") };
            let kind = entry.file_type().map_err(ReplicaError::files(&path))?;
            if kind.is_dir() { left.push(name) } else { files.push(name) }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Puts the names in a directory on stable storage.
pub(crate) fn sync_names(dir: &Path) -> Result<(), ReplicaError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(ReplicaError::files(dir))
}
