//! Why bytes are no state of a search.

use super::owned::Origin;

/// Version of the portable form. Another one is refused.
pub(super) const PORTABLE_VERSION: u16 = 7;

/// Why bytes are no search state for this index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortableError {
    /// Made by another version.
    #[error("search state has version {found}, this is version {PORTABLE_VERSION}")]
    Version {
        /// Version found.
        found: u16,
    },
    /// Of another index, or of another generation of it.
    #[error("search state is of index {found}, this is {here}")]
    Origin {
        /// Where the state was made.
        found: Origin,
        /// The index asked to go on with it.
        here: Origin,
    },
    /// Too short, too long, or a field out of range.
    #[error("search state is malformed: {0}")]
    Malformed(&'static str),
    /// The query does not fit the index.
    #[error("search state carries a query of {found} bytes, the index's vectors have {expected}")]
    Dimension {
        /// Bytes found.
        found: usize,
        /// Bytes of the index's vectors.
        expected: usize,
    },
}
