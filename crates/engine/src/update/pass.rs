//! A consolidation under way: how far it has come.

use std::collections::HashSet;

/// See the module's description.
pub(super) struct Pass {
    /// Deleted when it began.
    pub(super) dead: HashSet<u32>,
    /// The next page.
    pub(super) next: u32,
}
