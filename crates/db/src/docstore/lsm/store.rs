//! The store on disk as a [`RowStore`].

use std::sync::Arc;

use super::LsmRows;
use super::read::LsmSnapshot;
use super::write::When;
use crate::docstore::{RowChange, RowPressure, RowSnapshot, RowStore, StoreError};
use crate::ids::{RowId, Seq};

/// Batches that wait for the trees and are written to them at once. Whoever writes meanwhile waits.
const LATE_AT_ONCE: usize = 4;

impl RowStore for LsmRows {
    fn apply(&self, seq: Seq, changes: &[RowChange<'_>]) -> Result<RowPressure, StoreError> {
        self.apply_batch(seq, changes, When::Now)
    }

    fn apply_late(&self, seq: Seq, changes: &[RowChange<'_>]) -> Result<RowPressure, StoreError> {
        self.apply_batch(seq, changes, When::Later)
    }

    fn read_ahead(&self, deleted: &[RowId]) -> Result<(), StoreError> {
        self.read_rows_ahead(deleted)
    }

    fn is_behind(&self) -> bool {
        !self.late.is_empty()
    }

    fn catch_up(&self) -> bool {
        self.is_behind() && self.write_late(&self.writer(), LATE_AT_ONCE)
    }

    fn is_full(&self) -> bool {
        self.writer().buffered_bytes() >= self.buffer_bytes
    }

    fn applied(&self) -> Seq {
        self.published.applied()
    }

    fn durable(&self) -> Seq {
        self.published.durable()
    }

    fn flush(&self) -> Result<Seq, StoreError> {
        self.flush_trees()
    }

    fn compact(&self) -> Result<bool, StoreError> {
        self.compact_trees()
    }

    fn snapshot(&self) -> Box<dyn RowSnapshot + '_> {
        Box::new(self.view())
    }

    fn held_snapshot(self: Arc<Self>) -> Box<dyn RowSnapshot> {
        Box::new(LsmSnapshot::new(self))
    }

    fn get(
        &self,
        rows: &[RowId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.view().get(rows, each)
    }

    fn next_row(&self) -> RowId {
        self.published.next_row()
    }
}
