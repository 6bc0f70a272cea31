//! What only writers know.

use crate::ids::Seq;

/// What only writers know.
#[derive(Debug)]
pub(in crate::collection) struct WriterState {
    /// The next row id that is given out.
    pub(in crate::collection) next_row: u64,
    /// The last record that was given to the log.
    pub(in crate::collection) submitted: Seq,
}
