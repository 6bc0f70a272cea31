//! Deletes, by key and by filter.
//!
//! Readers wait while rows of a record go, and what is known of each is in memory then. So a filter that
//! matches more than [`ROWS_OF_RECORD`] rows has them deleted by several records, one after the other.

use std::sync::MutexGuard;

use roaring::RoaringTreemap;

use super::insert::RowCounts;
use super::state::WriterState;
use crate::asker;
use crate::collection::filter::matching::Filter;
use crate::collection::{Collection, CollectionError};
use crate::ids::{RowId, Seq};
use crate::replication::requests;
use crate::schema::PrimaryKey;
use crate::wal::Record;

/// The most rows that a record deletes, where nobody names them by their keys.
pub(in crate::collection) const ROWS_OF_RECORD: usize = 1 << 16;

/// Rows that were deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// How many.
    pub rows: u64,
    /// The record of the log that deleted them, the last one of several; the last one so far where
    /// there was nothing to delete.
    pub seq: Seq,
}

impl Collection {
    /// Deletes all rows that have one of these keys. Keys that no row has are passed over.
    ///
    /// # Errors
    /// [`CollectionError::KeyType`]: nothing was changed. [`CollectionError::Stopped`].
    pub fn delete(&self, keys: &[PrimaryKey]) -> Result<DeleteOutcome, CollectionError> {
        self.before_delete()?;
        let collection = self.entry()?;
        self.check_keys(&collection.schema, keys)?;
        let order = self.order_when_applied()?;
        let bytes: Vec<_> = keys.iter().map(|key| key.as_ref().to_bytes()).collect();
        let deleted = self.rows_of_keys(bytes.iter().map(Vec::as_slice))?;
        self.delete_rows(order, deleted)
    }

    /// Deletes all rows that match a filter, of the named partitions or of all. Rows that are written
    /// meanwhile come before or after. Up to 65,536 rows go at once; more go in pieces of so many,
    /// which readers see one after the other.
    ///
    /// # Errors
    /// [`CollectionError::Filter`], [`CollectionError::Catalog`] for a partition that there is
    /// not, [`CollectionError::BlankDelete`]: nothing was changed. [`CollectionError::Stopped`],
    /// [`CollectionError::Gone`], and what else a write may fail with: pieces before stay deleted.
    pub fn delete_matching(
        &self,
        filter: Filter<'_>,
        partitions: Option<&[&str]>,
    ) -> Result<DeleteOutcome, CollectionError> {
        if filter.expression.trim().is_empty() {
            return Err(CollectionError::BlankDelete);
        }
        self.before_delete()?;
        // Most rows are looked at while other writes go on.
        let early = self.matched(&filter, partitions, (None, None))?;
        let first = self.delete_but_last_piece(&early.rows)?;
        let order = self.order_when_applied()?;
        let early_left = &*early.rows & &*self.components.live().among(None);
        let now = self.matched(&filter, partitions, (Some(early), None))?;
        // So many came meanwhile: they come after.
        let too_many = now.rows.len() > ROWS_OF_RECORD as u64;
        let last = if too_many { &early_left } else { &*now.rows };
        let last = last.iter().map(RowId).collect();
        let DeleteOutcome { rows, seq } = self.delete_rows_behind(order, last, first)?;
        Ok(DeleteOutcome { rows: first + rows, seq })
    }

    /// Deletes rows in pieces until one piece is left, and tells how many there were. They are noted for
    /// no request, which ends with the last piece: until then it is to be done by whoever gets it again.
    fn delete_but_last_piece(&self, rows: &RoaringTreemap) -> Result<u64, CollectionError> {
        let pieces = rows.len().saturating_sub(1) / ROWS_OF_RECORD as u64;
        let mut rows = rows.iter().map(RowId);
        let mut deleted = 0;
        for _ in 0..pieces {
            asker::go_on()?;
            self.before_delete()?;
            let order = self.order_when_applied()?;
            let live = self.components.live();
            let piece = rows.by_ref().take(ROWS_OF_RECORD).filter(|row| live.contains(*row));
            let piece = piece.collect();
            drop(live);
            deleted += requests::within(None, || self.delete_rows(order, piece))?.rows;
        }
        Ok(deleted)
    }

    /// Deletes these live rows.
    pub(in crate::collection) fn delete_rows(
        &self,
        order: MutexGuard<'_, WriterState>,
        deleted: Vec<RowId>,
    ) -> Result<DeleteOutcome, CollectionError> {
        self.delete_rows_behind(order, deleted, 0)
    }

    /// Deletes these live rows, for a request that has deleted so many before.
    fn delete_rows_behind(
        &self,
        order: MutexGuard<'_, WriterState>,
        deleted: Vec<RowId>,
        before: u64,
    ) -> Result<DeleteOutcome, CollectionError> {
        let rows = deleted.len() as u64;
        if rows == 0 {
            // That there is nothing to delete is the leader's to say.
            if self.log.follows() {
                return Err(self.not_leading());
            }
            return Ok(DeleteOutcome { rows, seq: order.submitted });
        }
        let counts = RowCounts { added: 0, removed: before + rows };
        let (seq, _) = self.commit(order, &Record::Delete(deleted), counts, None)?;
        Ok(DeleteOutcome { rows, seq })
    }
}
