//! Filters as bytes, and who reads them.

use std::sync::Arc;
use std::time::Instant;

use crate::filter::AllowSet;

/// Reads filters, for the nodes that can be read here.
pub trait ResolveFilter: Send + Sync {
    /// The nodes here whose rows pass, made by [`Index::allow_here`]. Called on a thread of the pool,
    /// once for each search that comes; what takes long gives up at `until`.
    ///
    /// [`Index::allow_here`]: crate::index::Index::allow_here
    ///
    /// # Errors
    /// [`Unresolved`].
    fn resolve(&self, filter: &[u8], until: Option<Instant>) -> Result<Arc<AllowSet>, Unresolved>;
}

/// Why a filter was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// What is wrong with it, for whoever wrote it.
    Refused(String),
    /// There was no time to look at all rows.
    Late,
}

/// Longest filter that a search can carry, bytes: it goes with every message of it.
pub const FILTER_MAX: usize = 64 << 10;
