//! The words that all rooms of the database share. Nothing here allocates or does I/O.

use serde::{Deserialize, Serialize};

pub use pipeann_engine::types::{ErrorClass, Metric, NodeId, RowId, VectorType};

/// The number of a log record: starts at 1, grows by one with each record, never used twice.
/// `Seq(0)` stands before the first record.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
