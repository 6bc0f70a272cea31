//! How rows of the schema at hand are written, in the log and in the row store.
//!
//! The log holds rows whole. The row store holds them without the vectors that the engine can
//! index, which stand by row id in the vectors of their field.

use std::sync::Arc;

use super::CollectionError;
use crate::ids::RowId;
use crate::scalar::{ScalarBatch, ScalarColumn};
use crate::schema::{RowFormat, Schema, VectorPlacement};
use crate::value::{RowError, RowView, ValueRef};

/// The formats of one version of a schema.
#[derive(Clone, Debug)]
pub(super) struct Formats {
    pub(super) schema: Arc<Schema>,
    /// Rows with everything in them.
    pub(super) logged: RowFormat,
    /// Rows without what stands elsewhere.
    pub(super) stored: RowFormat,
    /// What is indexed of a row.
    pub(super) scalars: Arc<[ScalarColumn]>,
    /// Positions in the schema of what is indexed.
    scalar_positions: Vec<usize>,
}

impl Formats {
    pub(super) fn new(schema: Arc<Schema>) -> Self {
        let logged = schema.row_format(VectorPlacement::InRow);
        let stored = schema.row_format(VectorPlacement::Apart);
        let fields = schema.fields().iter().enumerate();
        let indexed = fields
            .filter_map(|(at, field)| Some((at, ScalarColumn::of(field.id, &field.spec)?)))
            .collect::<Vec<_>>();
        let scalar_positions = indexed.iter().map(|(at, _)| *at).collect();
        let scalars = indexed.into_iter().map(|(_, column)| column).collect();
        Self { schema, logged, stored, scalars, scalar_positions }
    }

    /// A row of the log.
    pub(super) fn open_logged<'a>(
        &'a self,
        row: RowId,
        blob: &'a [u8],
    ) -> Result<RowView<'a>, CollectionError> {
        let bad = |source| CollectionError::Row { row, source };
        self.logged.layout().open(blob).map_err(bad)
    }

    /// A row of the row store.
    pub(super) fn open_stored<'a>(
        &'a self,
        row: RowId,
        blob: &'a [u8],
    ) -> Result<RowView<'a>, CollectionError> {
        let bad = |source| CollectionError::Row { row, source };
        self.stored.layout().open(blob).map_err(bad)
    }

    /// Appends to `out` the bytes that the row store holds of a row of the log; after an error what
    /// was appended is of no use.
    pub(super) fn stored_bytes(
        &self,
        row: RowId,
        logged: &RowView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CollectionError> {
        let bad = |source| CollectionError::Row { row, source };
        let columns = self.stored.fields().iter();
        let columns = columns.map(|&at| self.logged.column_of(at).expect("all fields are logged"));
        let mut failed = None;
        let values = columns.map(|at| or_null(logged.get(at), &mut failed));
        self.stored.layout().encode(values, out).map_err(bad)?;
        failed.map_or(Ok(()), |source| Err(bad(source)))
    }

    /// Adds what is indexed of a row in this format to `batch`, which is of no use after an error.
    pub(super) fn push_scalars(
        &self,
        row: RowId,
        format: &RowFormat,
        view: &RowView<'_>,
        batch: &mut ScalarBatch,
    ) -> Result<(), CollectionError> {
        let bad = |source| CollectionError::Row { row, source };
        let columns = self.scalar_positions.iter().map(|at| format.column_of(*at));
        let values = columns.map(|at| view.get(at.expect("scalars stand in every row")));
        let mut failed = None;
        batch.push(row, values.map(|value| or_null(value, &mut failed)));
        failed.map_or(Ok(()), |source| Err(bad(source)))
    }

    /// The vector of the field at `position` in a row of the log.
    pub(super) fn vector<'a>(
        &self,
        row: RowId,
        logged: &RowView<'a>,
        position: usize,
    ) -> Result<&'a [u8], CollectionError> {
        let column = self.logged.column_of(position).expect("all fields are logged");
        match logged.get(column).map_err(|source| CollectionError::Row { row, source })? {
            ValueRef::Vector(bytes) => Ok(bytes),
            other => unreachable!("vectors are never null and have their type, not {other:?}"),
        }
    }
}

/// The value, or null in its place and `failed` noted, so that rows are copied without a list of
/// their values.
fn or_null<'v>(
    value: Result<ValueRef<'v>, RowError>,
    failed: &mut Option<RowError>,
) -> ValueRef<'v> {
    value.unwrap_or_else(|error| {
        failed.get_or_insert(error);
        ValueRef::Null
    })
}
