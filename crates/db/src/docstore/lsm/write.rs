//! Applying batches: reads first, then writes to memory, which cannot fail, then publication.

use lsm_tree::AbstractTree;

use super::LsmRows;
use crate::docstore::changes::net;
use crate::docstore::key_bytes::{ROW_BYTES, key_entry, row_key, row_value};
use crate::docstore::{Change, Pressure, StoreError};
use crate::ids::{RowId, Seq};

/// Memory of an entry of a write buffer beside its bytes: a node of the skip list with two
/// slices, a number and a tower.
const ENTRY_OVERHEAD_BYTES: u64 = 112;

/// A row as it was before the batch.
struct Before {
    partition: u32,
    key: Vec<u8>,
}

impl LsmRows {
    pub(super) fn apply_batch(
        &self,
        seq: Seq,
        changes: &[Change<'_>],
    ) -> Result<Pressure, StoreError> {
        let net = net(changes)?;
        let mut writer = self.writer();
        if seq <= self.published.applied() {
            return Ok(self.pressure(writer.active_bytes));
        }
        let buffered = writer.active_bytes + writer.sealed_bytes;
        if buffered >= self.buffer_bytes && !changes.is_empty() {
            return Err(StoreError::BufferFull { buffered, limit: self.buffer_bytes });
        }
        // Up to `counted`, keys and counters were on disk when the store was opened.
        let rows_only = seq <= writer.counted;
        let mut next_row = self.published.next_row();
        let mut before = Vec::with_capacity(net.len());
        for &(row, _) in &net {
            let new = rows_only || row >= next_row;
            before.push(if new { None } else { self.row_before(row)? });
        }

        let batch = self.batches.next();
        let (mut bytes, mut moves) = (0, Vec::with_capacity(net.len()));
        let mut entry = Vec::new();
        for (&(row, after), before) in net.iter().zip(&before) {
            let key = row_key(row);
            match after {
                Some(after) => {
                    row_value(after.partition, after.key, after.blob, &mut entry);
                    bytes += (ROW_BYTES + entry.len()) as u64 + ENTRY_OVERHEAD_BYTES;
                    self.rows.insert(key, entry.as_slice(), batch);
                    let next = row.0.checked_add(1).expect("2^64 rows are never reached");
                    next_row = next_row.max(RowId(next));
                }
                None if before.is_some() || rows_only => {
                    bytes += ROW_BYTES as u64 + ENTRY_OVERHEAD_BYTES;
                    self.rows.remove(key, batch);
                }
                None => {}
            }
            if rows_only {
                continue;
            }
            if let Some(before) = before
                && after.is_none_or(|after| after.key != before.key)
            {
                key_entry(&before.key, row, &mut entry);
                bytes += entry.len() as u64 + ENTRY_OVERHEAD_BYTES;
                self.keys.remove(entry.as_slice(), batch);
            }
            if let Some(after) = after {
                key_entry(after.key, row, &mut entry);
                bytes += entry.len() as u64 + ENTRY_OVERHEAD_BYTES;
                self.keys.insert(entry.as_slice(), [], batch);
            }
            moves.push((before.as_ref().map(|b| b.partition), after.map(|a| a.partition)));
        }
        writer.active_bytes += bytes;
        self.published.show(batch + 1, seq, next_row, &moves);
        Ok(self.pressure(writer.active_bytes))
    }

    fn pressure(&self, active_bytes: u64) -> Pressure {
        if active_bytes >= self.buffer_bytes / 2 { Pressure::Flush } else { Pressure::Low }
    }

    fn row_before(&self, row: RowId) -> Result<Option<Before>, StoreError> {
        let view = self.view();
        let mut before = None;
        view.row(row, |stored| {
            before = Some(Before { partition: stored.partition, key: stored.key.to_vec() });
        })?;
        Ok(before)
    }
}
