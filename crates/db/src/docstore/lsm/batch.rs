//! A batch as the trees take it, and its entry in both.

use std::collections::HashMap;
use std::ops::Range;

use lsm_tree::{AbstractTree, AnyTree};

use crate::docstore::changes::NewRow;
use crate::docstore::key_bytes::{
    ROW_BYTES, decode_row, entry_bytes, key_entry, row_key, row_value,
};
use crate::ids::{RowId, Seq};

/// Memory of an entry of a write buffer beside its bytes: a node of the skip list with two
/// slices, a number and a tower.
const ENTRY_OVERHEAD_BYTES: u64 = 112;

/// A row as it was before the batch.
pub(super) struct RowBefore {
    pub(super) partition: u32,
    pub(super) key: Vec<u8>,
}

/// Rows that were read before the batch that deletes them comes.
pub(super) struct RowsAhead {
    /// Up to where the log was applied then.
    pub(super) applied: Seq,
    pub(super) rows: HashMap<RowId, Option<RowBefore>>,
}

/// What a batch writes to the trees.
pub(super) struct TreeBatch {
    /// Its number there.
    pub(super) number: u64,
    /// Values of rows, and keys that are gone.
    bytes: Vec<u8>,
    /// Rows and where their values stand, ascending.
    puts: Vec<(RowId, Range<usize>)>,
    gone: Vec<RowId>,
    /// Keys that rows do not have any more.
    keys_gone: Vec<(RowId, Range<usize>)>,
    /// Whether the tree of keys takes part.
    with_keys: bool,
    /// Bytes of write buffers that it will take, estimated.
    pub(super) buffer_bytes: u64,
}

impl TreeBatch {
    pub(super) fn new(number: u64, rows: usize, with_keys: bool) -> Self {
        let (bytes, gone, keys_gone) = (Vec::new(), Vec::new(), Vec::new());
        let puts = Vec::with_capacity(rows);
        Self { number, bytes, puts, gone, keys_gone, with_keys, buffer_bytes: 0 }
    }

    /// Adds a row, in ascending order: as it was, and as it is.
    pub(super) fn push(
        &mut self,
        row: RowId,
        before: Option<&RowBefore>,
        after: Option<NewRow<'_>>,
    ) {
        match after {
            Some(after) => {
                let from = self.bytes.len();
                row_value(after.partition, after.key, after.blob, &mut self.bytes);
                let value = from..self.bytes.len();
                self.count(value.len());
                self.puts.push((row, value));
                self.count_key(after.key);
            }
            None if before.is_some() || !self.with_keys => {
                self.count(0);
                self.gone.push(row);
            }
            None => {}
        }
        if let Some(before) = before
            && after.is_none_or(|after| after.key != before.key)
        {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(&before.key);
            self.keys_gone.push((row, from..self.bytes.len()));
            self.count_key(&before.key);
        }
    }

    fn count(&mut self, value_bytes: usize) {
        self.buffer_bytes += (ROW_BYTES + value_bytes) as u64 + ENTRY_OVERHEAD_BYTES;
    }

    fn count_key(&mut self, key: &[u8]) {
        if self.with_keys {
            self.buffer_bytes += entry_bytes(key) as u64 + ENTRY_OVERHEAD_BYTES;
        }
    }

    /// The value of a row that it puts.
    pub(super) fn value(&self, row: RowId) -> Option<&[u8]> {
        let at = self.puts.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        Some(&self.bytes[self.puts[at].1.clone()])
    }

    /// The rows that it deletes.
    pub(super) fn gone(&self) -> &[RowId] {
        &self.gone
    }

    /// Writes it to the trees, whose buffers are in memory: that cannot fail.
    pub(super) fn write(&self, rows: &AnyTree, keys: &AnyTree) {
        let mut entry = Vec::new();
        for row in &self.gone {
            rows.remove(row_key(*row), self.number);
        }
        for (row, value) in &self.puts {
            rows.insert(row_key(*row), &self.bytes[value.clone()], self.number);
        }
        if !self.with_keys {
            return;
        }
        for (row, key) in &self.keys_gone {
            key_entry(&self.bytes[key.clone()], *row, &mut entry);
            keys.remove(entry.as_slice(), self.number);
        }
        for (row, value) in &self.puts {
            let put = decode_row(*row, &self.bytes[value.clone()]);
            key_entry(put.expect("it was spelled above").key, *row, &mut entry);
            keys.insert(entry.as_slice(), [], self.number);
        }
    }
}
