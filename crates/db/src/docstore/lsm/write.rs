//! Applying batches: reads first, then writes to memory, which cannot fail, then publication.

use std::collections::HashMap;
use std::sync::MutexGuard;

use super::batch::{RowBefore, RowsAhead, TreeBatch};
use super::{LsmRows, TreeWriter};
use crate::docstore::changes::{Net, net};
use crate::docstore::{RowChange, RowPressure, StoreError};
use crate::ids::{RowId, Seq};

/// Whether a batch has to be in the trees when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// It may come to them later.
    Later,
}

impl LsmRows {
    pub(super) fn read_rows_ahead(&self, deleted: &[RowId]) -> Result<(), StoreError> {
        if deleted.is_empty() {
            return Ok(());
        }
        let applied = self.published.applied();
        let read = |row: &RowId| Ok::<_, StoreError>((*row, self.row_before(*row)?));
        let rows = deleted.iter().map(read).collect::<Result<_, _>>()?;
        self.writer().ahead = Some(RowsAhead { applied, rows });
        Ok(())
    }

    pub(super) fn apply_batch(
        &self,
        seq: Seq,
        changes: &[RowChange<'_>],
        when: When,
    ) -> Result<RowPressure, StoreError> {
        let net = net(changes)?;
        let mut writer = self.writer();
        if seq <= self.published.applied() {
            return Ok(self.pressure(writer.active_bytes));
        }
        let buffered = writer.buffered_bytes();
        if buffered >= self.buffer_bytes && !changes.is_empty() {
            return Err(StoreError::BufferFull { buffered, limit: self.buffer_bytes });
        }
        // Up to `counted`, keys and counters were on disk when the store was opened.
        let rows_only = seq <= writer.counted;
        let first = self.published.next_row();
        let only_new = net.iter().all(|(row, after)| after.is_none() || *row >= first);
        let later = when == When::Later && only_new && !rows_only;
        if !later {
            self.write_late(&writer, usize::MAX);
        }
        let ahead = writer.ahead.take();
        let ahead = ahead.filter(|ahead| ahead.applied == self.published.applied());
        let ahead = ahead.map_or_else(HashMap::new, |ahead| ahead.rows);
        let before = self.rows_before(&net, rows_only, first, ahead)?;

        let mut batch = TreeBatch::new(self.batches.next(), net.len(), !rows_only);
        let (mut next_row, mut moves) = (first, Vec::with_capacity(net.len()));
        for (&(row, after), before) in net.iter().zip(&before) {
            batch.push(row, before.as_ref(), after);
            if after.is_some() {
                let next = row.0.checked_add(1).expect("2^64 rows are never reached");
                next_row = next_row.max(RowId(next));
            }
            if !rows_only {
                moves.push((before.as_ref().map(|b| b.partition), after.map(|a| a.partition)));
            }
        }
        writer.active_bytes += batch.buffer_bytes;
        let visible = batch.number + 1;
        if later {
            self.late.push(first, batch);
        } else {
            batch.write(&self.rows, &self.keys);
        }
        // None of those that are new can have been kept.
        let changed = net.iter().map(|(row, _)| *row).take_while(|row| *row < first);
        self.published.show(visible, seq, next_row, &moves, || self.cache.forget(changed));
        Ok(self.pressure(writer.active_bytes))
    }

    /// The rows of a batch as they were, of which some were read ahead. None is there from `first` on.
    fn rows_before(
        &self,
        net: &Net<'_>,
        rows_only: bool,
        first: RowId,
        mut ahead: HashMap<RowId, Option<RowBefore>>,
    ) -> Result<Vec<Option<RowBefore>>, StoreError> {
        let before = |&(row, _): &(RowId, _)| {
            if rows_only || row >= first {
                return Ok(None);
            }
            ahead.remove(&row).map_or_else(|| self.row_before(row), Ok)
        };
        net.iter().map(before).collect()
    }

    fn pressure(&self, active_bytes: u64) -> RowPressure {
        if active_bytes >= self.buffer_bytes / 2 { RowPressure::Flush } else { RowPressure::Low }
    }

    fn row_before(&self, row: RowId) -> Result<Option<RowBefore>, StoreError> {
        let view = self.view();
        let mut before = None;
        view.row(row, |stored| {
            before = Some(RowBefore { partition: stored.partition, key: stored.key.to_vec() });
        })?;
        Ok(before)
    }

    /// Writes so many of the batches that wait to the trees, in their order; `true` where others
    /// are left.
    pub(super) fn write_late(&self, _writer: &MutexGuard<'_, TreeWriter>, batches: usize) -> bool {
        for _ in 0..batches {
            let Some(batch) = self.late.first() else { return false };
            batch.write(&self.rows, &self.keys);
            self.late.pop();
        }
        !self.late.is_empty()
    }

    /// Writes all batches that wait to the trees.
    pub(super) fn write_all_late(&self) {
        if !self.late.is_empty() {
            self.write_late(&self.writer(), usize::MAX);
        }
    }
}
