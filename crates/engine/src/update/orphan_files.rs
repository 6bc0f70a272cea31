//! Orphan files, which no generation names any more: replaced ones, and leftovers of a crash.

use std::collections::HashSet;
use std::path::Path;

use super::error::UpdateError;
use super::files::{Files, names_in};
use crate::format::is_of_generation;
use crate::index::Index;

/// Removes files of other generations: those that a checkpoint has replaced, and those that an
/// interrupted one has left. Only names that a generation would use are touched.
pub(super) fn remove_orphans(
    path: &Path,
    index: &Index,
    files: &dyn Files,
) -> Result<(), UpdateError> {
    let manifest = index.manifest();
    let named: HashSet<String> = manifest.files().into_iter().map(|f| f.path).collect();
    let dir = manifest.partitions[0].dir.as_str();
    let top = names_in(path)?.into_iter().map(|name| (name.clone(), name));
    let inside = names_in(&path.join(dir))?.into_iter();
    let inside = inside.map(|name| (format!("{dir}/{name}"), name));
    for (place, name) in top.chain(inside) {
        if is_of_generation(&name) && !named.contains(&place) {
            let stray = path.join(&place);
            files.remove(&stray).map_err(UpdateError::file("remove", &stray))?;
        }
    }
    Ok(())
}
