//! How far a load is, who watches it, and what it did.

use std::ops::ControlFlow;
use std::time::Duration;

/// How far the index of a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// Name of the index.
    pub index: String,
    /// Rows in it so far.
    pub rows: u64,
    /// Rows there will be.
    pub total: u64,
}

/// How far a load has come.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadProgress {
    /// Rows of the source that are in the collection, those of earlier attempts included.
    pub rows: u64,
    /// Of these, rows that earlier attempts loaded.
    pub resumed_at: u64,
    /// Rows of the source, where that is known.
    pub total: Option<u64>,
    /// Rows a second of this attempt so far.
    pub rows_per_second: f64,
    /// Time left for the rows, where their number is known.
    pub left: Option<Duration>,
    /// The index that is being built, when all rows are there.
    pub index: Option<IndexProgress>,
}

/// Who watches a load: its clock and its reader.
pub trait LoadWatch {
    /// Time since some moment; never less than before.
    fn elapsed(&self) -> Duration;

    /// Is told how far the load has come, after each batch and while an index is built. It breaks
    /// off where it should end.
    fn progress(&mut self, progress: &LoadProgress) -> ControlFlow<()>;

    /// Waits a moment, some tenths of a second, before it is told again how far an index is.
    fn pause(&mut self);
}

/// What a load did.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// Rows of the source, all of them in the collection.
    pub rows: u64,
    /// Of these, rows that earlier attempts loaded; as many as `rows` where the load had ended
    /// before.
    pub resumed_at: u64,
    /// Bytes that this attempt wrote to the log.
    pub logged_bytes: u64,
    /// Time that this attempt took for the rows.
    pub rows_time: Duration,
    /// Time that this attempt took for the indexes.
    pub index_time: Duration,
    /// Names of the indexes whose builds were begun or waited for.
    pub indexes: Vec<String>,
}
