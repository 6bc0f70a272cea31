//! A batch of rows, before and after the check.

use super::definition::Schema;
use super::error::BatchError;
use super::key::PrimaryKeyRef;
use super::partition::partition_number;
use super::row_format::RowFormat;
use crate::value::{Column, ColumnValues, DataType, ValueRef};

/// Rows to be written, as columns in any order.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// One column per field that is given; the dynamic field under its name `$meta`.
    pub columns: Vec<Column>,
}

impl Batch {
    /// Whether each column has an entry for each row.
    ///
    /// # Errors
    /// [`BatchError::Length`].
    pub fn check_lengths(&self) -> Result<(), BatchError> {
        self.columns.iter().try_for_each(|column| check_length(column, self.rows))
    }
}

/// Whether a column has an entry for each of so many rows.
pub(super) fn check_length(column: &Column, rows: usize) -> Result<(), BatchError> {
    let marks = column.valid.as_ref().map(Vec::len);
    let field = || column.field.clone();
    for (entries, found) in [("values", Some(column.values.rows())), ("marks", marks)] {
        if let Some(found) = found.filter(|&found| found != rows) {
            return Err(BatchError::Length { field: field(), entries, expected: rows, found });
        }
    }
    Ok(())
}

/// What a batch is for: it decides about keys that are assigned automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// New rows. Where keys are assigned automatically, none can be given.
    Insert,
    /// Rows that replace those of the same key. Keys are always given, and kept.
    Upsert,
    /// The same, completed by what is stored of the rows. Among that may be dynamic keys with the name
    /// of a field that was added later: they stay.
    CompletedUpsert,
}

/// Rows that fit their schema: every field has a value in every row, or is nullable.
#[derive(Clone, Debug)]
pub struct CheckedBatch<'s> {
    pub(super) schema: &'s Schema,
    pub(super) rows: usize,
    /// By position of the field; `None` where nothing was given. Checked, but for integers of
    /// another width, which fit and are converted when they are read.
    pub(super) columns: Vec<Option<Column>>,
}

impl<'s> CheckedBatch<'s> {
    /// Number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The schema that it fits.
    pub fn schema(&self) -> &'s Schema {
        self.schema
    }

    /// The value of a field in a row; null only where the field is nullable.
    ///
    /// # Panics
    /// Where the schema has no field at this position, or the batch no such row.
    pub fn value(&self, field: usize, row: usize) -> ValueRef<'_> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let spec = &self.schema.fields()[field].spec;
        let given = self.columns[field].as_ref().map_or(ValueRef::Null, |column| column.get(row));
        match (given, spec.data_type) {
            (ValueRef::Null, _) => spec.fallback(),
            (given, DataType::Scalar(scalar)) => {
                given.with_type(scalar).expect("the check found it in range")
            }
            (given, _) => given,
        }
    }

    /// The primary key of a row.
    ///
    /// # Panics
    /// Where the batch has no such row.
    pub fn key(&self, row: usize) -> PrimaryKeyRef<'_> {
        as_key(self.value(self.schema.primary_key_position(), row))
    }

    /// The partition, from 0, of a row among `partitions`; `None` without a partition key.
    ///
    /// # Panics
    /// Where the batch has no such row, or `partitions` is 0.
    pub fn partition(&self, row: usize, partitions: u32) -> Option<u32> {
        let field = self.schema.partition_key_position()?;
        Some(partition_number(as_key(self.value(field, row)), partitions))
    }

    /// All vectors of a dense vector field, row after row; `None` of any other field.
    ///
    /// # Panics
    /// Where the schema has no field at this position.
    pub fn vectors(&self, field: usize) -> Option<&[u8]> {
        match self.columns[field].as_ref().map(|column| &column.values) {
            Some(ColumnValues::Dense(vectors)) => Some(vectors.bytes()),
            _ => None,
        }
    }

    /// Appends the bytes of a row to `out`.
    ///
    /// # Errors
    /// [`BatchError::Row`] where they are too many; then nothing is appended.
    ///
    /// # Panics
    /// Where the batch has no such row, or the format is of another schema.
    pub fn encode_row(
        &self,
        format: &RowFormat,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BatchError> {
        let values = format.fields().iter().map(|&field| self.value(field, row));
        format.layout().encode(values, out).map_err(|error| BatchError::Row { row, error })
    }
}

/// A value of a key field as a key.
fn as_key(value: ValueRef<'_>) -> PrimaryKeyRef<'_> {
    match value {
        ValueRef::Int64(key) => PrimaryKeyRef::Int64(key),
        ValueRef::VarChar(key) => PrimaryKeyRef::VarChar(key),
        other => unreachable!("a key is int64 or varchar and never null, not {other:?}"),
    }
}
