//! The indexes as of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use roaring::RoaringTreemap;

use super::ScalarError;
use super::pending::PendingRows;
use super::run::{OpenRun, SignatureColumn};

/// The indexes as of one moment, immutable and cheap to keep; what it keeps alive of replaced
/// files is free when it goes. Rows that were deleted before may be among its answers: they are
/// passed over by the live rows of the same moment.
#[derive(Clone, Debug)]
pub struct ScalarView {
    /// In ascending order of their rows.
    pub(super) runs: Arc<Vec<OpenRun>>,
    /// Behind all runs.
    pub(super) newest: Arc<PendingRows>,
    pub(super) damaged: Arc<AtomicBool>,
}

impl ScalarView {
    /// Rows that stand here, deleted ones among them.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let runs = self.runs.iter().map(|open| u64::from(open.run.map().rows()));
        runs.sum::<u64>() + self.newest.len() as u64
    }

    /// The rows among these that stand nowhere here.
    #[must_use]
    pub fn missing(&self, rows: &RoaringTreemap) -> RoaringTreemap {
        let all = self.runs.iter().map(|open| (open.run.map().high(), open.run.map().all()));
        let mut missing = rows.clone();
        all.for_each(|run| missing -= RoaringTreemap::from_bitmaps([run]));
        for row in self.newest.rows() {
            missing.remove(*row);
        }
        missing
    }

    /// Number of runs, those in memory among them.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Bytes of the runs on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let on_disk = self.runs.iter().filter(|open| open.run.is_on_disk());
        on_disk.map(|open| open.run.length()).sum()
    }

    /// Bytes that the accountant granted for runs on disk: signatures, and what finds entries.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let on_disk = self.runs.iter().filter(|open| open.run.is_on_disk());
        let signatures = |open: &OpenRun| open.signatures.as_ref().map_or(0, |s| s.charged_bytes());
        on_disk.map(|open| open.run.directory_bytes() + signatures(open)).sum()
    }

    /// Remembers that something cannot be read, so that the next opening makes it anew.
    pub(super) fn noting_damage<T>(
        &self,
        result: Result<T, ScalarError>,
    ) -> Result<T, ScalarError> {
        result.inspect_err(|error| {
            if error.is_damage() {
                self.damaged.store(true, Ordering::Relaxed);
            }
        })
    }
}

impl OpenRun {
    /// Calls `with` with the signatures of a column, from memory or else from the file.
    pub(super) fn with_signatures<T>(
        &self,
        column: usize,
        with: impl FnOnce(&SignatureColumn) -> T,
    ) -> Result<T, ScalarError> {
        Ok(match &self.signatures {
            Some(signatures) => with(&signatures.columns[column]),
            None => with(&self.run.read_signatures(column)?),
        })
    }
}
