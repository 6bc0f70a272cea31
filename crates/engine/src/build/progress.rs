//! What a build tells its caller while it runs, and how the caller stops it.

use std::sync::atomic::{AtomicBool, Ordering};

/// The stages of a build, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Looking at every input row.
    Check,
    /// Training the codebook and encoding all rows.
    Encode,
    /// Linking the graph, or reading one.
    Graph,
    /// Assigning nodes to pages.
    Order,
    /// Building the head index.
    Head,
    /// Writing and syncing the files.
    Write,
}

impl Stage {
    /// The name shown beside a progress bar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Encode => "encode",
            Self::Graph => "graph",
            Self::Order => "order",
            Self::Head => "head",
            Self::Write => "write",
        }
    }
}

/// Told how far a build has come; called from several threads.
pub trait Progress: Sync {
    /// A stage of `total` steps begins (rows, or bytes when writing).
    fn stage(&self, stage: Stage, total: u64);
    /// `n` more steps are done.
    fn advance(&self, n: u64);
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn stage(&self, _: Stage, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// The work was stopped at the caller's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the build was cancelled")]
pub struct Cancelled;

/// Err where the flag is up.
pub(crate) fn check_cancel(cancel: &AtomicBool) -> Result<(), Cancelled> {
    if cancel.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
}
