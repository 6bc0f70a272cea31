//! The names of an index's files, of any generation: what may be removed with an index, and what
//! somebody else put beside it.

use super::constants::MANIFEST_NAME;

/// The manifest under construction.
pub(crate) const MANIFEST_WORK_NAME: &str = "MANIFEST.tmp";

/// Locked by whoever changes an index in place.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// Whether some generation has files of such a name, in the index's directory or in that of a
/// partition, that go when no generation names them any more.
pub(crate) fn is_of_generation(name: &str) -> bool {
    let stems = ["segment-", "pagemap-", "codes-", "rows-", "tombstones-", "head-", "codebook-"];
    let numbered = |rest: &str| is_number(rest.strip_suffix(".pages").unwrap_or(rest));
    name == MANIFEST_WORK_NAME
        || stems.iter().any(|stem| name.strip_prefix(stem).is_some_and(numbered))
}

/// Whether an index has something of such a name in its directory.
pub(crate) fn is_of_index(name: &str) -> bool {
    name == MANIFEST_NAME || name == LOCK_NAME || is_of_generation(name) || is_partition(name)
}

/// Whether the directory of a partition has such a name.
pub(crate) fn is_partition(name: &str) -> bool {
    name.strip_prefix("part-").is_some_and(is_number)
}

/// Whether it is digits, and at least one.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{is_of_generation, is_of_index};

    #[test]
    fn only_names_of_a_generation_are_ours() {
        for ours in ["MANIFEST.tmp", "codes-12", "segment-000003.pages", "tombstones-1", "head-2"] {
            assert!(is_of_generation(ours) && is_of_index(ours), "{ours}");
        }
        for other in ["codes-", "codes-x", "notes-1", "segment-1.pages.bak", "part-", "part-a"] {
            assert!(!is_of_generation(other) && !is_of_index(other), "{other}");
        }
        for kept in ["MANIFEST", "LOCK", "part-0000", "part-12345"] {
            assert!(!is_of_generation(kept) && is_of_index(kept), "{kept}");
        }
    }
}
