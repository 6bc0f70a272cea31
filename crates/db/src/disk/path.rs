//! Paths inside the tree: checked once, the same way for every implementation.

use pipeann_engine::format::RelativePath;

use super::error::DiskError;

/// Refuses what could leave the tree. `""`, the root, is allowed for directories only.
pub(super) fn check_dir(path: &str) -> Result<(), DiskError> {
    if path.is_empty() { Ok(()) } else { check_file(path) }
}

/// Refuses what could leave the tree, and the root.
pub(super) fn check_file(path: &str) -> Result<(), DiskError> {
    match RelativePath::new(path) {
        Ok(_) => Ok(()),
        Err(_) => Err(DiskError::Path { found: path.chars().take(255).collect() }),
    }
}

/// The directory that a file is in; `""` for one in the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
