//! Rows that wait for a flush, and the run in memory that they are to readers.
//!
//! A flush takes the rows as they came, all at once. So the run of a chunk is made when a view first
//! wants it, and never where rows are only written.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::pending::PendingRows;
use super::run::{OpenRun, Run};
use super::write::{RunPlan, RunSource};

/// See the module's description. It has one row at least.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) rows: Arc<PendingRows>,
    run: OnceLock<OpenRun>,
}

impl Chunk {
    pub(super) fn new(rows: Arc<PendingRows>) -> Self {
        Self { rows, run: OnceLock::new() }
    }

    /// Bytes of memory, those of its run included where there is one.
    pub(super) fn bytes(&self) -> u64 {
        let run = self.run.get().map_or(0, |open| {
            open.run.length() + open.run.directory_bytes() + open.run.signature_bytes()
        });
        self.rows.bytes() + run
    }

    /// Its rows as a run.
    pub(super) fn run(&self) -> &OpenRun {
        self.run.get_or_init(|| {
            // It never leaves the process, and so is nobody's.
            let collection = [0; 16];
            let plan = RunPlan {
                sources: vec![RunSource::Pending(&self.rows)],
                columns: Arc::clone(&self.rows.columns),
                high: self.rows.high().expect("a chunk has rows"),
                lows: self.rows.lows(),
                collection,
                number: 0,
            };
            let mut bytes = Vec::new();
            let written = plan.write(&mut bytes, Path::new("memory"));
            let (directory, signatures) = written.expect("writing to memory does not fail");
            let run = Arc::new(Run::in_memory(directory, collection, bytes));
            OpenRun { run, signatures: Some(Arc::new(signatures)) }
        })
    }
}
