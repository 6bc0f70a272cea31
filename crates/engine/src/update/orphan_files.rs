//! Orphan files, which no generation names any more: replaced ones, and leftovers of a crash.

use std::collections::HashSet;
use std::path::Path;

use super::error::UpdateError;
use super::files::{Files, names_in};
use crate::index::Index;

/// The manifest under construction.
pub(super) const MANIFEST_WORK_NAME: &str = "MANIFEST.tmp";

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
        if is_ours(&name) && !named.contains(&place) {
            let stray = path.join(&place);
            files.remove(&stray).map_err(UpdateError::file("remove", &stray))?;
        }
    }
    Ok(())
}

/// Whether a generation has files of such a name.
fn is_ours(name: &str) -> bool {
    let stems = ["segment-", "pagemap-", "codes-", "rows-", "tombstones-", "head-", "codebook-"];
    let numbered = |rest: &str| {
        let digits = rest.strip_suffix(".pages").unwrap_or(rest);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    name == MANIFEST_WORK_NAME
        || stems.iter().any(|stem| name.strip_prefix(stem).is_some_and(numbered))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn only_names_of_a_generation_are_ours() {
        for ours in ["MANIFEST.tmp", "codes-12", "segment-000003.pages", "tombstones-1", "head-2"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["MANIFEST", "LOCK", "codes-", "codes-x", "notes-1", "segment-1.pages.bak"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
