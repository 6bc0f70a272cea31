//! What is derived from the log: rows, vectors by field, scalar indexes, and which rows live.
//!
//! Invariants:
//! - each component includes the log up to a number of its own; applying a record again changes
//!   nothing in those that include it;
//! - vectors and scalar indexes are applied before rows, and rows and live rows change together under `view`, so
//!   that whoever holds it for reading sees a record in both or in neither, and finds
//!   every row it sees among the vectors and in the indexes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use pipeann_engine::types::VectorSet;

use super::CollectionError;
use super::derived::Derived;
use super::formats::Formats;
use super::live::LiveRows;
use super::write_buffers::WriteBuffers;
use crate::docstore::{self, RowChange, RowSnapshot, RowStore, StoreError};
use crate::field_index::FieldIndex;
use crate::flat::{self, FlatError, FlatVectors};
use crate::ids::{RowId, Seq, VectorType};
use crate::scalar::{self, ScalarBatch, ScalarError, ScalarIndexes, ScalarView};
use crate::schema::{Field, FieldId};
use crate::wal::{PutRow, Record};

/// The vectors of one field.
pub(super) struct FieldVectors {
    pub(super) id: FieldId,
    pub(super) name: String,
    /// Position of the field in the schema.
    pub(super) position: usize,
    pub(super) dim: usize,
    pub(super) vector_type: VectorType,
    pub(super) vectors: FlatVectors,
    /// The graph that is searched, where one is open, and whether the one before is open still.
    graph: RwLock<(Option<Arc<FieldIndex>>, Weak<()>)>,
    /// The record from which on the log may have links that the graph lacks; 0 where it has none.
    pub(super) links_from: AtomicU64,
    /// Live rows when a build found that none of them can be in a graph.
    fruitless: AtomicU64,
    /// Rows that were pending when a build that should have taken them failed.
    refused: AtomicU64,
}

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

/// Dimension and type of vectors.
type VectorShape = (usize, VectorType);

impl FieldVectors {
    pub(super) fn new(
        field: &Field,
        position: usize,
        shape: VectorShape,
        vectors: FlatVectors,
    ) -> Self {
        let (id, name) = (field.id, field.spec.name.clone());
        let (dim, vector_type) = shape;
        Self {
            id,
            name,
            position,
            dim,
            vector_type,
            vectors,
            graph: RwLock::default(),
            links_from: AtomicU64::new(0),
            fruitless: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Bytes of one vector.
    pub(super) fn vector_bytes(&self) -> usize {
        self.vector_type.vector_bytes(self.dim)
    }

    /// The graph that is searched, where one is open.
    pub(super) fn graph(&self) -> Option<Arc<FieldIndex>> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Opens or closes a graph for searches.
    pub(super) fn set_graph(&self, graph: Option<Arc<FieldIndex>>) {
        let mut slot = self.graph.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut slot.0, graph) {
            slot.1 = before.while_open();
        }
    }

    /// Whether a graph that was closed is still being searched, and so open.
    pub(super) fn is_closing(&self) -> bool {
        self.graph.read().unwrap_or_else(PoisonError::into_inner).1.strong_count() > 0
    }

    /// A build of `rows` live rows found `found` that can be in a graph.
    pub(super) fn note_built(&self, rows: u64, found: u64) {
        self.fruitless.store(if found == 0 { rows } else { 0 }, Ordering::Relaxed);
    }

    /// A build that should have taken so many pending rows failed.
    pub(super) fn note_refused(&self, pending: u64) {
        self.refused.store(pending, Ordering::Relaxed);
    }

    /// Whether so many pending rows are worth another build.
    pub(super) fn may_build(&self, pending: u64) -> bool {
        pending / 2 >= self.refused.load(Ordering::Relaxed)
    }

    /// Whether there are rows enough for a graph, and more than when none was found for it.
    pub(super) fn has_grown(&self, rows: u64, least: u64) -> bool {
        rows >= least && rows / 2 >= self.fruitless.load(Ordering::Relaxed)
    }

    pub(super) fn append(
        &self,
        seq: Seq,
        rows: &[RowId],
        bytes: &[u8],
        make_room: &dyn Fn() -> Result<(), CollectionError>,
    ) -> Result<bool, CollectionError> {
        let set = VectorSet::new(bytes, self.dim, self.vector_type);
        let set = set.expect("the schema checked the dimension of every vector");
        let pressure = match self.vectors.append(seq, rows, set) {
            Err(FlatError::TailFull { .. }) => {
                make_room()?;
                self.vectors.append(seq, rows, set)
            }
            other => other,
        };
        let pressure = pressure.map_err(CollectionError::vectors(&self.name))?;
        Ok(pressure == flat::VectorPressure::Flush)
    }
}
