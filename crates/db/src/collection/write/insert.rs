//! Inserts and upserts, and how every write comes into the log.
//!
//! A write is checked, gets row ids and a place in the log under `order`, waits there for its
//! sync together with others, and is applied and made visible when its turn comes; then it is
//! answered. Upserts and deletes look keys up, so they first wait until all writes before them
//! are applied, and hold back later ones until they have their own place in the log.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::assigned::automatic_key;
use super::prepare::Prepared;
use super::state::WriterState;
use crate::collection::{Collection, CollectionError};
use crate::disk::{Action, DiskError};
use crate::ids::{RowId, Seq};
use crate::replication::requests::{self, RequestAnswer};
use crate::schema::{Batch, PrimaryKey, WriteKind};
use crate::wal::{Record, WalError};

/// Rows that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertOutcome {
    /// Their primary keys, in the order of the batch.
    pub keys: Vec<PrimaryKey>,
    /// Their row ids, in the order of the batch.
    pub rows: Range<u64>,
    /// Rows that were replaced.
    pub replaced: u64,
    /// The record of the log that made them.
    pub seq: Seq,
    /// Bytes of the record.
    pub logged_bytes: u64,
}

/// Is told the row ids of a write before the log has it, and may keep it from being made. No other
/// write has a place between.
pub(in crate::collection) type Announce<'a> = &'a dyn Fn(Range<u64>) -> Result<(), CollectionError>;

/// How many rows a record adds, and how many its request has removed with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowCounts {
    pub(super) added: u64,
    pub(super) removed: u64,
}

impl Collection {
    /// Adds rows, to the named partition, the default one, or where the partition key says. Keys
    /// may be there already: each row stays one of its own. All rows become visible at once.
    ///
    /// # Errors
    /// [`CollectionError::Batch`] with field and row, [`CollectionError::Catalog`] for a
    /// partition that there is not, [`CollectionError::Log`] where the disk is full,
    /// [`CollectionError::Index`] and [`CollectionError::Gone`] where too many rows wait to enter a
    /// graph: nothing was changed. [`CollectionError::Stopped`]: the rows may be there or not when the collection is
    /// opened again.
    pub fn insert(
        &self,
        batch: Batch,
        partition: Option<&str>,
    ) -> Result<InsertOutcome, CollectionError> {
        self.insert_announced(batch, partition, None)
    }

    /// As [`insert`](Self::insert), announced.
    pub(in crate::collection) fn insert_announced(
        &self,
        batch: Batch,
        partition: Option<&str>,
        announce: Option<Announce<'_>>,
    ) -> Result<InsertOutcome, CollectionError> {
        self.before_write()?;
        let collection = self.entry()?;
        let formats = self.formats(&collection);
        if formats.schema.primary_key().spec.auto_id {
            let mut order = self.order();
            self.pass_taken_keys(&mut order, &formats.schema, &batch)?;
            let mut next = order.next_row..;
            let assign = || automatic_key(next.next().expect("2^63 rows are never reached"));
            let prepared =
                Prepared::new(&formats, &collection, batch, WriteKind::Insert, partition, assign)?;
            return self.put(order, prepared, Vec::new(), announce);
        }
        let no_ids = || unreachable!("keys are given");
        let prepared =
            Prepared::new(&formats, &collection, batch, WriteKind::Insert, partition, no_ids)?;
        self.put(self.order(), prepared, Vec::new(), announce)
    }

    /// Replaces all rows that have the keys of these, in whatever partition, and adds those that
    /// are new. At once: no reader sees neither or both.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`CollectionError::DuplicateKey`].
    pub fn upsert(
        &self,
        batch: Batch,
        partition: Option<&str>,
    ) -> Result<InsertOutcome, CollectionError> {
        self.before_write()?;
        let collection = self.entry()?;
        let formats = self.formats(&collection);
        let no_ids = || unreachable!("an upsert names its keys");
        let prepared =
            Prepared::new(&formats, &collection, batch, WriteKind::Upsert, partition, no_ids)?;
        prepared.check_distinct()?;
        let mut order = self.order_when_applied()?;
        if formats.schema.primary_key().spec.auto_id {
            order.note_given(&prepared.keys);
        }
        let deleted = self.rows_of_keys(prepared.key_bytes())?;
        self.put(order, prepared, deleted, None)
    }

    pub(in crate::collection) fn put(
        &self,
        order: MutexGuard<'_, WriterState>,
        prepared: Prepared,
        deleted: Vec<RowId>,
        announce: Option<Announce<'_>>,
    ) -> Result<InsertOutcome, CollectionError> {
        prepared.check_partitions(&*self.entry()?)?;
        let first = order.next_row;
        let rows = prepared.rows(RowId(first));
        let (count, replaced) = (rows.len() as u64, deleted.len() as u64);
        let record = match deleted.is_empty() {
            true => Record::Put(rows),
            false => Record::Upsert { deleted, rows },
        };
        let counts = RowCounts { added: count, removed: replaced };
        let (seq, logged_bytes) = self.commit(order, &record, counts, announce)?;
        drop(record);
        let (keys, rows) = (prepared.keys, first..first + count);
        Ok(InsertOutcome { keys, rows, replaced, seq, logged_bytes })
    }

    /// Logs a record, which gives out a row id for each row that it adds, waits until it may be answered,
    /// and applies it. Returns the record's number and its bytes.
    pub(super) fn commit(
        &self,
        mut order: MutexGuard<'_, WriterState>,
        record: &Record<'_>,
        RowCounts { added: rows, removed }: RowCounts,
        announce: Option<Announce<'_>>,
    ) -> Result<(Seq, u64), CollectionError> {
        if let Some(why) = self.turns.stopped() {
            return Err(CollectionError::Stopped { why });
        }
        if self.log.follows() {
            return Err(self.not_leading());
        }
        let stop = |why: String| {
            self.turns.stop(&why);
            CollectionError::Stopped { why }
        };
        self.components.buffers.hold()?;
        let payload = record.encode().map_err(WalError::from)?;
        // Nothing has happened yet where the disk is full.
        self.log.make_room(payload.len()).map_err(|error| match error {
            WalError::Poisoned { .. } => stop(error.to_string()),
            other => other.into(),
        })?;
        if let Some(announce) = announce {
            announce(order.next_row..order.next_row + rows).map_err(|error| match error {
                // What was announced before stands. Only when the new one may have its name is it
                // unknown which of them an opening would find.
                CollectionError::Disk(DiskError::NoSpace { action, .. })
                    if action != Action::SyncDir =>
                {
                    error
                }
                other => stop(other.to_string()),
            })?;
        }
        let logged_bytes = payload.len() as u64;
        let first = order.next_row;
        self.note_age(&*self.entry()?, (RowId(first), RowId(first + rows)), (self.now)());
        let request = requests::current()
            .map(|request| request.applied(RequestAnswer { first_row: first, rows, removed }));
        // Until it can be read here: others may read it as soon as it is in the log that they share.
        let _under_way = self.log.begin_change();
        let ticket = self.log.submit_for(record.kind(), &payload, request);
        let ticket = ticket.map_err(|e| stop(e.to_string()))?;
        order.submitted = ticket.seq();
        order.next_row += rows;
        let place = self.turns.place(ticket.seq());
        drop(order);
        drop(payload);
        let seq = self.log.wait(ticket).map_err(|e| stop(e.to_string()))?;
        place.wait().map_err(stop)?;
        let formats = self.current_formats().map_err(|e| stop(e.to_string()))?;
        let make_room = || self.flush_components().map(drop);
        match self.components.apply(&formats, seq, record, &make_room) {
            Ok(soon) => {
                self.note_written(logged_bytes, soon);
                place.done();
                self.signal.wake();
                Ok((seq, logged_bytes))
            }
            Err(error) => Err(stop(error.to_string())),
        }
    }

    /// Counts a record that was applied; `soon` says that a flush should come soon.
    pub(in crate::collection) fn note_written(&self, logged_bytes: u64, soon: bool) {
        self.logged_bytes.fetch_add(logged_bytes, Ordering::Relaxed);
        if soon {
            self.pressed.store(true, Ordering::Relaxed);
        }
    }

    /// Refuses early, while nothing has happened: after a failed write, and where a flush that is
    /// due fails, so that buffers do not fill up behind the log.
    pub(in crate::collection) fn before_write(&self) -> Result<(), CollectionError> {
        self.check_takes_writes()?;
        self.wait_for_links()?;
        self.flush_if_pressed()
    }

    /// As [`before_write`](Self::before_write), for a write that adds no row, and so waits for none to
    /// enter a graph: where rows cannot do so, deleting them may be what helps.
    pub(in crate::collection) fn before_delete(&self) -> Result<(), CollectionError> {
        self.check_takes_writes()?;
        self.flush_if_pressed()
    }

    fn check_takes_writes(&self) -> Result<(), CollectionError> {
        if self.pin.is_some() {
            return Err(CollectionError::ReadOnly);
        }
        if self.log.follows() {
            return Err(self.not_leading());
        }
        if let Some(why) = self.turns.stopped() {
            return Err(CollectionError::Stopped { why });
        }
        Ok(())
    }

    pub(in crate::collection) fn order(&self) -> MutexGuard<'_, WriterState> {
        // Whoever panics under it has changed nothing, or has left a place that stops the queue.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The order, when all that was submitted is applied.
    pub(in crate::collection) fn order_when_applied(
        &self,
    ) -> Result<MutexGuard<'_, WriterState>, CollectionError> {
        let order = self.order();
        let applied = self.turns.wait_applied(order.submitted);
        applied.map_err(|why| CollectionError::Stopped { why })?;
        Ok(order)
    }

    pub(in crate::collection) fn rows_of_keys<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Vec<RowId>, CollectionError> {
        let rows = self.components.rows.snapshot();
        let mut found = Vec::new();
        for key in keys {
            found.extend(rows.rows_of_key(key)?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}
