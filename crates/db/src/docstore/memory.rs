//! The row store in memory: the model for tests, and rows that need not outlive the process.
//!
//! Nothing here is durable: after a crash `applied` starts at 0 again, and the whole log is
//! replayed. `flush` therefore never lets the log be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::changes::{Counts, net};
use super::{Row, RowChange, RowPressure, RowSnapshot, RowStore, StoreError};
use crate::ids::{RowId, Seq};

#[derive(Clone, Debug)]
struct Stored {
    partition: u32,
    key: Arc<[u8]>,
    blob: Arc<[u8]>,
}

#[derive(Clone, Debug, Default)]
struct MemoryRowsState {
    applied: Seq,
    next_row: RowId,
    counts: Counts,
    rows: BTreeMap<RowId, Stored>,
    keys: BTreeSet<(Arc<[u8]>, RowId)>,
}

/// Rows in ordered maps. A snapshot copies the maps, but no row, if a write comes meanwhile.
#[derive(Debug, Default)]
pub struct MemoryRows {
    state: Mutex<Arc<MemoryRowsState>>,
}

impl MemoryRows {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, Arc<MemoryRowsState>> {
        self.state.lock().expect("no panic while the state is locked")
    }
}

impl RowStore for MemoryRows {
    fn apply(&self, seq: Seq, changes: &[RowChange<'_>]) -> Result<RowPressure, StoreError> {
        let net = net(changes)?;
        let mut state = self.state();
        if seq <= state.applied {
            return Ok(RowPressure::Low);
        }
        let state = Arc::make_mut(&mut state);
        for (row, after) in net {
            let before = match after {
                None => state.rows.remove(&row),
                Some(new) => {
                    let (key, blob) = (Arc::from(new.key), Arc::from(new.blob));
                    state.next_row = state.next_row.max(RowId(row.0 + 1));
                    state.keys.insert((Arc::clone(&key), row));
                    state.rows.insert(row, Stored { partition: new.partition, key, blob })
                }
            };
            if let Some(before) = &before
                && after.is_none_or(|new| *new.key != *before.key)
            {
                state.keys.remove(&(Arc::clone(&before.key), row));
            }
            state.counts.moved(before.map(|b| b.partition), after.map(|a| a.partition));
        }
        state.applied = seq;
        Ok(RowPressure::Low)
    }

    fn applied(&self) -> Seq {
        self.state().applied
    }

    fn durable(&self) -> Seq {
        Seq(0)
    }

    fn flush(&self) -> Result<Seq, StoreError> {
        Ok(Seq(0))
    }

    fn compact(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn RowSnapshot + '_> {
        Box::new(MemorySnapshot(Arc::clone(&self.state())))
    }

    fn held_snapshot(self: Arc<Self>) -> Box<dyn RowSnapshot> {
        Box::new(MemorySnapshot(Arc::clone(&self.state())))
    }

    fn next_row(&self) -> RowId {
        self.state().next_row
    }
}

struct MemorySnapshot(Arc<MemoryRowsState>);

impl RowSnapshot for MemorySnapshot {
    fn applied(&self) -> Seq {
        self.0.applied
    }

    fn count(&self) -> u64 {
        self.0.counts.total()
    }

    fn count_in(&self, partition: u32) -> u64 {
        self.0.counts.of(partition)
    }

    fn get(
        &self,
        rows: &[RowId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        for (i, row) in rows.iter().enumerate() {
            each(i, self.0.rows.get(row).map(|stored| &*stored.blob));
        }
        Ok(())
    }

    fn rows_of_key(&self, key: &[u8]) -> Result<Vec<RowId>, StoreError> {
        let key: Arc<[u8]> = Arc::from(key);
        let entries = self.0.keys.range((Arc::clone(&key), RowId(0))..=(key, RowId(u64::MAX)));
        Ok(entries.map(|(_, row)| *row).collect())
    }

    fn scan_rows(
        &self,
        start: Bound<RowId>,
        limit: usize,
        each: &mut dyn FnMut(Row<'_>),
    ) -> Result<(), StoreError> {
        for (&row, s) in self.0.rows.range((start, Bound::Unbounded)).take(limit) {
            each(Row { row, partition: s.partition, key: &s.key, blob: &s.blob });
        }
        Ok(())
    }

    fn scan_keys(
        &self,
        start: Bound<(&[u8], RowId)>,
        limit: usize,
        each: &mut dyn FnMut(&[u8], RowId),
    ) -> Result<(), StoreError> {
        let start = start.map(|(key, row)| (Arc::from(key), row));
        for (key, row) in self.0.keys.range((start, Bound::Unbounded)).take(limit) {
            each(key, *row);
        }
        Ok(())
    }
}
