//! What an index that changes needs from time to time, and when.
//!
//! Who changes rows calls [`LiveIndex::upkeep`] after every few of them, and mostly nothing is
//! due. `docs/decisions/0013` says what the defaults rest on.

use std::sync::atomic::Ordering;

use super::checkpoint::CheckpointReport;
use super::error::UpdateError;
use super::live::LiveIndex;
use super::retrain::code_drift;
use super::rewrite::Rewrite;

/// When upkeep is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpkeepOptions {
    /// A checkpoint, when pending changes hold so many bytes of memory.
    pub dirty_bytes: u64,
    /// A consolidation, when there are so many deleted nodes for each live row.
    pub tombstones: f64,
    /// A rewrite, when so many of the rows came after the last one. What came before the index
    /// was opened is not known and counts as laid out well.
    pub strewn: f64,
    /// Another codebook with a rewrite, when the error of codes is so many times that of their
    /// training.
    pub code_drift: f32,
}

impl Default for UpkeepOptions {
    fn default() -> Self {
        Self { dirty_bytes: 64 << 20, tombstones: 0.2, strewn: 0.2, code_drift: 1.03 }
    }
}

/// What an index needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// [`LiveIndex::checkpoint`].
    Checkpoint,
    /// [`LiveIndex::consolidate`], then a checkpoint, which frees the slots.
    Consolidation,
    /// [`LiveIndex::consolidate`], then [`LiveIndex::rewrite`].
    Rewrite,
}

/// What upkeep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepReport {
    /// What was due.
    pub due: Option<Due>,
    /// Whether a codebook was trained.
    pub retrained: bool,
    /// Nodes that left the graph.
    pub removed: u64,
    /// Nodes whose edges to these were replaced.
    pub repaired: u64,
    /// Checkpoints, a rewrite counted as one, and what they wrote.
    pub checkpoints: u64,
    /// Bytes written by all of them.
    pub bytes_written: u64,
    /// Bytes of all files after the last of them.
    pub disk_bytes: u64,
}

/// Pages consolidated before it is looked whether memory is short.
const PAGES: u32 = 4096;

impl LiveIndex {
    /// What is due.
    pub fn due(&self, options: &UpkeepOptions) -> Option<Due> {
        let rows = self.rows().max(1) as f64;
        let strewn = self.fragmented.load(Ordering::Relaxed) + self.linked();
        if strewn as f64 >= options.strewn * rows {
            Some(Due::Rewrite)
        } else if self.tombstones() as f64 >= options.tombstones * rows {
            Some(Due::Consolidation)
        } else if self.pending_bytes() >= options.dirty_bytes {
            Some(Due::Checkpoint)
        } else {
            None
        }
    }

    /// Whether the codes of the rows of now are so far from their vectors that another codebook
    /// should be trained. Reads some pages.
    ///
    /// # Errors
    /// Unreadable pages.
    pub fn retrain_due(&self, options: &UpkeepOptions) -> Result<bool, UpdateError> {
        Ok(self.code_drift()?.is_some_and(|drift| drift >= options.code_drift))
    }

    /// How many times larger the error of codes is on the rows of now than on those that the
    /// codebook was trained on; 1 where it is not larger. `None` where that is not known: the
    /// index was built by an older version, or holds no rows.
    ///
    /// # Errors
    /// Unreadable pages.
    pub fn code_drift(&self) -> Result<Option<f32>, UpdateError> {
        code_drift(&self.current())
    }

    /// Does what is due; see [`checkpoint`](Self::checkpoint) for `applied`.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint), [`consolidate`](Self::consolidate) and
    /// [`rewrite`](Self::rewrite).
    pub fn upkeep(
        &self,
        applied: u64,
        options: &UpkeepOptions,
    ) -> Result<UpkeepReport, UpdateError> {
        let due = self.due(options);
        let mut report = UpkeepReport { due, ..UpkeepReport::default() };
        match due {
            None => {}
            Some(Due::Checkpoint) => report.add(self.checkpoint(applied)?),
            Some(Due::Consolidation) => {
                self.consolidate_all(applied, options, &mut report)?;
                report.add(self.checkpoint(applied)?);
            }
            Some(Due::Rewrite) => {
                self.consolidate_all(applied, options, &mut report)?;
                let (rewritten, retrained) = self.reorder(applied, options)?;
                report.retrained = retrained;
                report.add(rewritten);
            }
        }
        Ok(report)
    }

    /// Rewrites the index, with a new codebook where one is due, and says whether it was; a
    /// checkpoint where memory leaves no room for that, which is tried again when as many rows
    /// have come. Best done when a consolidation has just ended.
    ///
    /// # Errors
    /// As [`rewrite`](Self::rewrite).
    pub fn reorder(
        &self,
        applied: u64,
        options: &UpkeepOptions,
    ) -> Result<(CheckpointReport, bool), UpdateError> {
        let retrain = self.retrain_due(options)?;
        match self.rewrite(applied, Rewrite { retrain }) {
            Ok(report) => Ok((report, retrain)),
            Err(UpdateError::Memory(_)) => {
                let report = self.checkpoint(applied)?;
                self.fragmented.store(0, Ordering::Relaxed);
                Ok((report, false))
            }
            Err(e) => Err(e),
        }
    }

    /// Consolidates to the end, with checkpoints where memory is short.
    fn consolidate_all(
        &self,
        applied: u64,
        options: &UpkeepOptions,
        report: &mut UpkeepReport,
    ) -> Result<(), UpdateError> {
        loop {
            match self.consolidate(PAGES) {
                Ok(step) => {
                    report.removed += step.removed;
                    report.repaired += step.repaired;
                    if step.finished {
                        return Ok(());
                    }
                }
                Err(UpdateError::Memory(e)) if self.pending_bytes() == 0 => return Err(e.into()),
                Err(UpdateError::Memory(_)) => report.add(self.checkpoint(applied)?),
                Err(e) => return Err(e),
            }
            if self.pending_bytes() >= 2 * options.dirty_bytes {
                report.add(self.checkpoint(applied)?);
            }
        }
    }
}

impl UpkeepReport {
    fn add(&mut self, checkpoint: CheckpointReport) {
        self.checkpoints += 1;
        self.bytes_written += checkpoint.bytes_written;
        self.disk_bytes = checkpoint.disk_bytes;
    }
}
