//! Reading a pinned view.

use std::ops::{Bound, Deref};
use std::sync::Arc;

use lsm_tree::{AbstractTree, Guard};

use super::late::LateRow;
use super::published::Pin;
use super::{LsmRows, tree};
use crate::docstore::key_bytes::{
    decode_entry, decode_row, entry_row, key_entry, key_prefix, row_key,
};
use crate::docstore::{MAX_KEY_BYTES, Row, RowSnapshot, StoreError};
use crate::ids::{RowId, Seq};

/// Of more rows than this that are read at once none is kept: they are looked through, not answers.
const MOST_KEPT: usize = 4096;

/// A view of a store on disk, which it borrows or keeps.
pub(super) struct LsmSnapshot<S: Deref<Target = LsmRows>> {
    store: S,
    pin: Pin,
}

impl LsmRows {
    /// Now.
    pub(super) fn view(&self) -> LsmSnapshot<&Self> {
        LsmSnapshot::new(self)
    }
}

impl<S: Deref<Target = LsmRows>> Drop for LsmSnapshot<S> {
    fn drop(&mut self) {
        self.store.published.unpin(&self.pin);
    }
}

impl<S: Deref<Target = LsmRows>> LsmSnapshot<S> {
    /// Now.
    pub(super) fn new(store: S) -> Self {
        let pin = store.published.pin();
        Self { store, pin }
    }

    /// Calls `each` with a row, where it exists.
    pub(super) fn row(&self, row: RowId, each: impl FnOnce(Row<'_>)) -> Result<bool, StoreError> {
        match self.store.late.find(row, self.pin.as_of) {
            LateRow::Put(batch) => {
                let value = batch.value(row).expect("it was found there");
                each(decode_row(row, value).ok_or_else(|| self.no_entry("row"))?);
                return Ok(true);
            }
            LateRow::Gone => return Ok(false),
            LateRow::Elsewhere => {}
        }
        let dir = &self.store.dir;
        let value = tree("read", dir, || self.store.rows.get(row_key(row), self.pin.as_of))?;
        let Some(value) = value else { return Ok(false) };
        each(decode_row(row, &value).ok_or_else(|| self.no_entry("row"))?);
        Ok(true)
    }

    fn no_entry(&self, what: &str) -> StoreError {
        StoreError::damaged(&self.store.dir, format!("an entry is no {what}"))
    }

    /// Runs `each` over the entries of one tree from `start` on, until it says stop.
    fn scan(
        &self,
        of: &lsm_tree::AnyTree,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.store.write_all_late();
        let dir = &self.store.dir;
        let mut entries =
            tree("scan", dir, || Ok(of.range::<&[u8], _>(bounds, self.pin.as_of, None)))?;
        loop {
            let next = tree("scan", dir, || entries.next().map(Guard::into_inner).transpose())?;
            match next {
                Some((key, value)) if each(&key, &value)? => {}
                _ => return Ok(()),
            }
        }
    }
}

impl<S: Deref<Target = LsmRows> + Send + Sync> RowSnapshot for LsmSnapshot<S> {
    fn applied(&self) -> Seq {
        self.pin.applied
    }

    fn count(&self) -> u64 {
        self.pin.counts.total()
    }

    fn count_in(&self, partition: u32) -> u64 {
        self.pin.counts.of(partition)
    }

    fn get(
        &self,
        rows: &[RowId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let (store, as_of) = (&*self.store, self.pin.as_of);
        let kept = store.cache.reading();
        let mut read = Vec::new();
        for (i, &row) in rows.iter().enumerate() {
            if let Some(blob) = kept.find(row, as_of) {
                each(i, Some(&blob));
                continue;
            }
            let found = self.row(row, |stored| {
                each(i, Some(stored.blob));
                if rows.len() <= MOST_KEPT && kept.takes(stored.blob.len()) {
                    read.push((row, Arc::from(stored.blob)));
                }
            })?;
            if !found {
                each(i, None);
            }
        }
        if !read.is_empty() {
            let keep = || read.drain(..).for_each(|(row, blob)| kept.keep(row, as_of, blob));
            store.published.if_newest(&self.pin, keep);
        }
        Ok(())
    }

    fn rows_of_key(&self, key: &[u8]) -> Result<Vec<RowId>, StoreError> {
        if key.len() > MAX_KEY_BYTES {
            // No row has it, and the store below takes none that long.
            return Ok(Vec::new());
        }
        let (mut prefix, mut rows) = (Vec::new(), Vec::new());
        key_prefix(key, &mut prefix);
        let mut last = prefix.clone();
        last.extend_from_slice(&row_key(RowId(u64::MAX)));
        let bounds = (Bound::Included(&prefix[..]), Bound::Included(&last[..]));
        self.scan(&self.store.keys, bounds, |entry, _| {
            rows.push(entry_row(entry).ok_or_else(|| self.no_entry("key"))?);
            Ok(true)
        })?;
        Ok(rows)
    }

    fn scan_rows(
        &self,
        start: Bound<RowId>,
        limit: usize,
        each: &mut dyn FnMut(Row<'_>),
    ) -> Result<(), StoreError> {
        let mut left = limit;
        if left == 0 {
            return Ok(());
        }
        let start = start.map(row_key);
        let bounds = (start.as_ref().map(|key| &key[..]), Bound::Unbounded);
        self.scan(&self.store.rows, bounds, |key, value| {
            let row = entry_row(key).filter(|row| key == row_key(*row));
            let row = row.ok_or_else(|| self.no_entry("row"))?;
            each(decode_row(row, value).ok_or_else(|| self.no_entry("row"))?);
            left -= 1;
            Ok(left > 0)
        })
    }

    fn scan_keys(
        &self,
        start: Bound<(&[u8], RowId)>,
        limit: usize,
        each: &mut dyn FnMut(&[u8], RowId),
    ) -> Result<(), StoreError> {
        let mut left = limit;
        if left == 0 {
            return Ok(());
        }
        let start = start.map(|(key, row)| {
            let mut entry = Vec::new();
            key_entry(key, row, &mut entry);
            entry
        });
        let bounds = (start.as_ref().map(|entry| &entry[..]), Bound::Unbounded);
        let mut key = Vec::new();
        self.scan(&self.store.keys, bounds, |entry, _| {
            let row = decode_entry(entry, &mut key).ok_or_else(|| self.no_entry("key"))?;
            each(&key, row);
            left -= 1;
            Ok(left > 0)
        })
    }
}
