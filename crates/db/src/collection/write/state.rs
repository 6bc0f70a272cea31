//! What only writers know.

use crate::ids::Seq;

/// What only writers know.
#[derive(Debug)]
pub(in crate::collection) struct WriterState {
    /// The next row id that is given out.
    pub(in crate::collection) next_row: u64,
    /// Where keys are assigned: no row has the key of a row from the next one to before this one. 0
    /// where nobody has looked.
    pub(in crate::collection) free_until: u64,
    /// The last record that was given to the log.
    pub(in crate::collection) submitted: Seq,
}
