//! What is derived from the log: rows, vectors by field, scalar indexes, and which rows live.
//!
//! Invariants:
//! - each component includes the log up to a number of its own; applying a record again changes
//!   nothing in those that include it;
//! - vectors and scalar indexes are applied before rows, and rows and live rows change together under `view`, so
//!   that whoever holds it for reading sees a record in both or in neither, and finds
//!   every row it sees among the vectors and in the indexes.

use std::sync::{Arc, PoisonError, RwLock};

use super::CollectionError;
use super::derived::Derived;
use super::field_vectors::FieldVectors;
use super::formats::Formats;
use super::live::LiveRows;
use super::write_buffers::WriteBuffers;
use crate::docstore::{self, RowChange, RowSnapshot, RowStore, StoreError};
use crate::ids::{RowId, Seq};
use crate::scalar::{self, ScalarBatch, ScalarError, ScalarIndexes, ScalarView};
use crate::wal::{PutRow, Record};

/// See the module's description.
pub(super) struct Components {
    pub(super) rows: Arc<dyn RowStore>,
    pub(super) fields: Vec<FieldVectors>,
    pub(super) scalars: ScalarIndexes,
    /// Memory for what waits for a flush.
    pub(super) buffers: WriteBuffers,
    pub(super) view: RwLock<Arc<LiveRows>>,
}

/// One moment, for reading.
pub(super) struct ReadSnapshot<'c> {
    pub(super) live: Arc<LiveRows>,
    pub(super) rows: Box<dyn RowSnapshot + 'c>,
    /// Where rows are looked for by filter.
    pub(super) scalars: Option<ScalarView>,
}

/// What components take of the rows of one record.
pub(super) struct RecordParts {
    ids: Vec<RowId>,
    /// What the row store holds of each, back to back, and where each ends.
    blobs: Vec<u8>,
    ends: Vec<usize>,
    /// By field.
    vectors: Vec<Vec<u8>>,
    scalars: ScalarBatch,
}

/// Whether the row store has to be done with a record when it is applied.
#[derive(Clone, Copy)]
enum ApplyMode {
    Now,
    Later,
}

/// Rows that a record deletes, and rows that it puts.
fn changes<'r, 'a>(record: &'r Record<'a>) -> (&'r [RowId], &'r [PutRow<'a>]) {
    match record {
        Record::Put(rows) => (&[], rows),
        Record::Delete(deleted) => (deleted, &[]),
        Record::Upsert { deleted, rows } => (deleted, rows),
        Record::Link(_) => (&[], &[]),
    }
}

impl Components {
    /// Now, the same in all components.
    pub(super) fn moment(&self) -> ReadSnapshot<'_> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        ReadSnapshot { live: Arc::clone(&view), rows: self.rows.snapshot(), scalars: None }
    }

    /// Now, with the scalar indexes.
    pub(super) fn moment_with_scalars(&self) -> ReadSnapshot<'_> {
        // The first view after many rows has work to do, for which no writer should wait.
        drop(self.scalars.view());
        // Under the latch, since a flush drops rows from the indexes that are gone by then.
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let scalars = Some(self.scalars.view());
        ReadSnapshot { live: Arc::clone(&view), rows: self.rows.snapshot(), scalars }
    }

    /// Now, with the scalar indexes, for whoever keeps it longer than a call.
    pub(super) fn held_moment(&self) -> ReadSnapshot<'static> {
        drop(self.scalars.view());
        // Under the latch, as above.
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let scalars = Some(self.scalars.view());
        let rows = Arc::clone(&self.rows).held_snapshot();
        ReadSnapshot { live: Arc::clone(&view), rows, scalars }
    }

    /// The rows that live now.
    pub(super) fn live(&self) -> Arc<LiveRows> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The scalar indexes, and the rows that live, at one moment.
    pub(super) fn scalar_view(&self) -> (Arc<LiveRows>, ScalarView) {
        // Under the latch, since a flush drops rows from the indexes that are gone by then.
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&view), self.scalars.view())
    }

    /// The field of this name, if its vectors stand here.
    pub(super) fn field(&self, name: &str) -> Option<&FieldVectors> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Whether a flush has to come before more rows.
    pub(super) fn is_full(&self) -> bool {
        self.derived().any(Derived::is_full)
    }

    /// What these components take of a record's rows. Looks at none of them, so that it can be made
    /// ahead.
    ///
    /// # Errors
    /// [`CollectionError::Row`].
    pub(super) fn parts(
        &self,
        formats: &Formats,
        record: &Record<'_>,
    ) -> Result<RecordParts, CollectionError> {
        let (_, rows) = changes(record);
        let mut parts = RecordParts {
            ids: rows.iter().map(|put| put.row).collect(),
            blobs: Vec::new(),
            ends: Vec::with_capacity(rows.len()),
            vectors: vec![Vec::new(); self.fields.len()],
            scalars: ScalarBatch::new(Arc::clone(&formats.scalars)),
        };
        for put in rows {
            let logged = formats.open_logged(put.row, put.blob)?;
            formats.stored_bytes(put.row, &logged, &mut parts.blobs)?;
            parts.ends.push(parts.blobs.len());
            formats.push_scalars(put.row, &formats.logged, &logged, &mut parts.scalars)?;
            for (field, vectors) in self.fields.iter().zip(&mut parts.vectors) {
                vectors.extend_from_slice(formats.vector(put.row, &logged, field.position)?);
            }
        }
        Ok(parts)
    }

    /// Whether all would survive the process up to this record.
    pub(super) fn is_flushed(&self, up_to: Seq) -> bool {
        self.flushed_through() >= up_to
    }

    /// The last record that all would still include after a power cut.
    pub(super) fn flushed_through(&self) -> Seq {
        self.derived().map(Derived::flushed_through).fold(Seq(u64::MAX), Seq::min)
    }

    /// Each of them.
    pub(super) fn derived(&self) -> impl Iterator<Item = &dyn Derived> {
        let fields = self.fields.iter().map(|field| field as &dyn Derived);
        [&self.rows as &dyn Derived, &self.scalars].into_iter().chain(fields)
    }

    /// Applies a record. `make_room` is called where a buffer is full, and the step is repeated
    /// once; `true` where a flush should come soon.
    ///
    /// # Errors
    /// What a component says. Some may include the record then and others not; replay settles it.
    pub(super) fn apply(
        &self,
        formats: &Formats,
        seq: Seq,
        record: &Record<'_>,
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<bool, CollectionError> {
        // Before the latch, for which searches wait.
        while self.rows.catch_up() {}
        self.rows.read_ahead(changes(record).0)?;
        self.apply_parts(seq, record, &self.parts(formats, record)?, ApplyMode::Now, make_room)
    }

    /// As [`apply`](Self::apply), while the log is replayed: with what [`parts`](Self::parts) has made of
    /// the record, and leaving to the background what the first answers do not need.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(super) fn replay(
        &self,
        seq: Seq,
        record: &Record<'_>,
        parts: &RecordParts,
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<(), CollectionError> {
        self.apply_parts(seq, record, parts, ApplyMode::Later, make_room).map(drop)
    }

    fn apply_parts(
        &self,
        seq: Seq,
        record: &Record<'_>,
        parts: &RecordParts,
        when: ApplyMode,
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<bool, CollectionError> {
        let (deleted, rows) = changes(record);
        let RecordParts { ids, blobs, ends, vectors, scalars } = parts;
        let mut soon = false;
        for (field, bytes) in self.fields.iter().zip(vectors) {
            soon |= field.append(seq, ids, bytes, make_room)?;
        }
        soon |= self.index(seq, scalars, make_room)?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let blobs = starts.zip(ends).map(|(start, &end)| &blobs[start..end]);
        let puts = rows.iter().zip(blobs).map(|(put, blob)| RowChange::Put {
            row: put.row,
            partition: put.partition,
            key: put.key,
            blob,
        });
        let changes: Vec<_> =
            deleted.iter().map(|&row| RowChange::Delete { row }).chain(puts).collect();
        let try_rows = || {
            let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
            let pressure = match when {
                ApplyMode::Now => self.rows.apply(seq, &changes)?,
                ApplyMode::Later => self.rows.apply_late(seq, &changes)?,
            };
            for graph in self.fields.iter().filter_map(FieldVectors::graph) {
                graph.add(ids.iter().copied());
            }
            Arc::make_mut(&mut view).apply(seq, record);
            Ok(pressure)
        };
        let pressure = match try_rows() {
            Err(StoreError::BufferFull { .. }) => {
                make_room()?;
                try_rows()?
            }
            other => other?,
        };
        for field in self.fields.iter().filter(|_| !deleted.is_empty()) {
            // Rows are invisible already, whatever the graph does about them.
            if let Some(Err(error)) = field.graph().map(|g| g.remove(deleted.iter().copied())) {
                tracing::debug!(field = field.name, "deleted rows stay in the graph: {error}");
            }
        }
        Ok(soon | (pressure == docstore::RowPressure::Flush))
    }

    fn index(
        &self,
        seq: Seq,
        batch: &ScalarBatch,
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<bool, CollectionError> {
        let pressure = match self.scalars.apply(seq, batch) {
            Err(ScalarError::BufferFull { .. }) => {
                make_room()?;
                self.scalars.apply(seq, batch)?
            }
            other => other?,
        };
        Ok(pressure == scalar::Pressure::Flush)
    }

    /// Includes a record that changes nothing here.
    ///
    /// # Errors
    /// What a component says.
    pub(super) fn pass(&self, seq: Seq) -> Result<(), CollectionError> {
        for field in &self.fields {
            field.pass(seq)?;
        }
        self.scalars.pass(seq)?;
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        self.rows.pass(seq)?;
        Arc::make_mut(&mut view).pass(seq);
        Ok(())
    }
}
