//! Why something of an index was not read.

use crate::io::ReadFault;

/// A page, or something else of an index, that could not be read or failed its check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ReadFailure {
    /// File and place, and what is wrong there.
    pub why: String,
    /// Whether its bytes are to blame.
    pub fault: ReadFault,
}

impl ReadFailure {
    /// What was read is not what was written.
    pub fn damaged(why: impl Into<String>) -> Self {
        Self { why: why.into(), fault: ReadFault::Damaged }
    }
}
