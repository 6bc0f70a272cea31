//! Rows by row id, and row ids by primary key, in an embedded store: state derived from the log.
//!
//! A row is a partition, a primary key and a blob, all opaque here. [`RowStore`] is the seam:
//! [`LsmRows`] keeps rows on disk, [`MemoryRows`] in memory; the second is the model that tests
//! compare the first with, and serves collections that are never saved.
//!
//! The log is the only thing that makes a write durable. A store therefore has no journal of its
//! own: what it has not flushed is lost with the process, and replayed from the log.
//!
//! Invariants, of every implementation:
//! - a batch is visible as a whole or not at all, and once: a batch at or below
//!   [`applied`](RowStore::applied) is skipped;
//! - after reopening, `applied` is the number that the last successful
//!   [`flush`](RowStore::flush) returned, so the log may be cut behind it and nowhere later;
//! - a key lists exactly the live rows that were put with it, and the counters count exactly the
//!   live rows;
//! - a row id is never handed out twice: [`next_row`](RowStore::next_row) only grows.
//!
//! Deliberately absent: fields, the log, threads. Flushing and compacting happen when called.

mod changes;
mod error;
mod key_bytes;
mod lsm;
mod memory;
mod row_cache;
mod state_file;
mod store_files;
#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use key_bytes::MAX_KEY_BYTES;
pub use lsm::{LsmRows, RowStoreOptions};
pub use memory::MemoryRows;
pub use row_cache::RowCache;
pub use store_files::{current_files, damaged_files, decodes};

use std::ops::Bound;
use std::sync::Arc;

use crate::ids::{RowId, Seq};

/// One change to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange<'a> {
    /// The row exists from now on. A live row with this id is replaced.
    Put {
        /// Its id.
        row: RowId,
        /// The partition that counts it.
        partition: u32,
        /// Its primary key, at most [`MAX_KEY_BYTES`]; several rows may have the same. Keys are
        /// ordered bytewise.
        key: &'a [u8],
        /// Everything else, less than 4 GiB.
        blob: &'a [u8],
    },
    /// The row is gone: its blob, its key entry and its place in the counters. Nothing happens
    /// where there is no such row.
    Delete {
        /// Its id.
        row: RowId,
    },
}

impl RowChange<'_> {
    /// The row that is changed.
    pub fn row(&self) -> RowId {
        match *self {
            RowChange::Put { row, .. } | RowChange::Delete { row } => row,
        }
    }
}

/// A stored row, as a scan shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its id.
    pub row: RowId,
    /// Its partition.
    pub partition: u32,
    /// Its primary key.
    pub key: &'a [u8],
    /// Everything else.
    pub blob: &'a [u8],
}

/// What the caller of [`RowStore::apply`] should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPressure {
    /// Nothing.
    Low,
    /// Flush soon. When the buffer is full, `apply` refuses.
    Flush,
}

/// Rows by row id and by primary key. See the [module](self) for what always holds.
pub trait RowStore: Send + Sync {
    /// Applies a batch atomically and notes `seq`, the number of its last log record; an empty
    /// batch only moves the number. At or below [`applied`](Self::applied) nothing happens.
    /// Of several changes to one row the last one counts.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`] and [`StoreError::BlobTooLong`] for rows that cannot be stored,
    /// [`StoreError::BufferFull`] where a flush has to come first, or a failed read. Nothing of
    /// the batch is applied then.
    fn apply(&self, seq: Seq, changes: &[RowChange<'_>]) -> Result<RowPressure, StoreError>;

    /// As [`apply`](Self::apply), for whoever brings the store to the end of a log and wants an
    /// answer soon: the rows are there at once, and the work of finding them by key or in order may
    /// be left for [`catch_up`](Self::catch_up), or for whoever asks for that first.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn apply_late(&self, seq: Seq, changes: &[RowChange<'_>]) -> Result<RowPressure, StoreError> {
        self.apply(seq, changes)
    }

    /// Reads what deleting these rows has to know of them, so that the batch that does it next need not,
    /// for whoever has others wait while he applies it.
    ///
    /// # Errors
    /// A failed read.
    fn read_ahead(&self, _deleted: &[RowId]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether [`apply_late`](Self::apply_late) has left work.
    fn is_behind(&self) -> bool {
        false
    }

    /// Does a part of what [`apply_late`](Self::apply_late) has left; `true` where more is left.
    fn catch_up(&self) -> bool {
        false
    }

    /// Whether a flush has to come before more changes.
    fn is_full(&self) -> bool {
        false
    }

    /// The number up to which the log is applied, and visible to readers.
    fn applied(&self) -> Seq;

    /// The number up to which the store would survive the process.
    fn durable(&self) -> Seq;

    /// Puts what is applied on stable storage and returns its number: the log may be cut behind
    /// it. The log itself has to be durable up to [`applied`](Self::applied) before, or the store
    /// would be ahead of it after a power cut. Readers and `apply` go on meanwhile.
    ///
    /// # Errors
    /// A failed write or sync. Everything applied stays visible, the last durable number stays
    /// valid, and the call may be repeated.
    fn flush(&self) -> Result<Seq, StoreError>;

    /// Does one step of background tidying; `true` where another may be due. To be called after
    /// flushes, by a thread that has time.
    ///
    /// # Errors
    /// A failed read or write. Nothing is lost, and the call may be repeated.
    fn compact(&self) -> Result<bool, StoreError>;

    /// A consistent view of now, to read as often as wanted. It keeps old data alive: drop it.
    fn snapshot(&self) -> Box<dyn RowSnapshot + '_>;

    /// [`snapshot`](Self::snapshot) for whoever keeps it longer than a call; it keeps the store too.
    fn held_snapshot(self: Arc<Self>) -> Box<dyn RowSnapshot>;

    /// [`RowSnapshot::get`] of now.
    ///
    /// # Errors
    /// A failed read.
    fn get(
        &self,
        rows: &[RowId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.snapshot().get(rows, each)
    }

    /// [`RowSnapshot::rows_of_key`] of now.
    ///
    /// # Errors
    /// A failed read.
    fn rows_of_key(&self, key: &[u8]) -> Result<Vec<RowId>, StoreError> {
        self.snapshot().rows_of_key(key)
    }

    /// Live rows.
    fn count(&self) -> u64 {
        self.snapshot().count()
    }

    /// Live rows of one partition.
    fn count_in(&self, partition: u32) -> u64 {
        self.snapshot().count_in(partition)
    }

    /// One more than the largest row id that was ever put; row ids start at 0.
    fn next_row(&self) -> RowId;
}

/// A consistent view of a [`RowStore`].
pub trait RowSnapshot: Send + Sync {
    /// The number up to which the log is applied in this view.
    fn applied(&self) -> Seq;

    /// Live rows.
    fn count(&self) -> u64;

    /// Live rows of one partition.
    fn count_in(&self, partition: u32) -> u64;

    /// Calls `each` once for every position of `rows`, in that order, with the position and the
    /// row's blob, `None` where there is no such row.
    ///
    /// # Errors
    /// A failed read; `each` has seen the positions before it.
    fn get(
        &self,
        rows: &[RowId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError>;

    /// The live rows with this primary key, the newest (the largest id) last; empty where there
    /// are none.
    ///
    /// # Errors
    /// A failed read.
    fn rows_of_key(&self, key: &[u8]) -> Result<Vec<RowId>, StoreError>;

    /// Calls `each` with rows in the order of their ids, from `start` on, at most `limit`.
    ///
    /// # Errors
    /// A failed read; `each` has seen the rows before it.
    fn scan_rows(
        &self,
        start: Bound<RowId>,
        limit: usize,
        each: &mut dyn FnMut(Row<'_>),
    ) -> Result<(), StoreError>;

    /// Calls `each` with primary keys and row ids in the order of keys, then of ids, from
    /// `start` on, at most `limit`. A key that several rows have comes as often.
    /// To go on after a page, exclude the last key and id seen.
    ///
    /// # Errors
    /// A failed read; `each` has seen the entries before it.
    fn scan_keys(
        &self,
        start: Bound<(&[u8], RowId)>,
        limit: usize,
        each: &mut dyn FnMut(&[u8], RowId),
    ) -> Result<(), StoreError>;
}
