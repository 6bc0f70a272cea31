//! Upserts of some fields: what is not given stays as it is.
//!
//! The newest row of each key gives what is missing; rows of new keys need what an insert needs.
//! Keys of the dynamic field are taken one by one: those that are not given stay. A row stays in its
//! partition unless another one is named, or its partition key changes.

use super::insert::InsertOutcome;
use super::prepare::Prepared;
use crate::collection::components::ReadSnapshot;
use crate::collection::formats::Formats;
use crate::collection::read::rows::RowReading;
use crate::collection::{Collection, CollectionError};
use crate::ids::RowId;
use crate::schema::{Batch, BatchError, Field, PrimaryKeyRef, WriteKind};
use crate::value::{Column, ColumnValues, Value, ValueRef, merge_json_objects};

/// Of each row of a batch, the row that it changes, if there is one.
type Changed = Vec<Option<RowId>>;

impl Collection {
    /// Replaces the given fields of the rows that have the keys of these, in whatever partition, and
    /// adds those that are new. At once: no reader sees a row in between, and no write comes between
    /// reading what stays and writing it.
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert); a field that a new row needs is missing with it.
    pub fn upsert_some(
        &self,
        batch: Batch,
        partition: Option<&str>,
    ) -> Result<InsertOutcome, CollectionError> {
        self.before_write()?;
        // What stays is looked for row by row.
        batch.check_lengths()?;
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let mut order = self.order_when_applied()?;
        let moment = self.moment_for(&entry, None);
        let changed = changed_rows(&formats, &moment, &batch)?;
        let batch = self.completed(&formats, &moment, &changed, batch)?;
        let no_ids = || unreachable!("an upsert names its keys");
        let mut prepared =
            Prepared::new(&formats, &entry, batch, WriteKind::CompletedUpsert, partition, no_ids)?;
        prepared.check_distinct()?;
        if formats.schema.primary_key().spec.auto_id {
            order.note_given(&prepared.keys);
        }
        if partition.is_none() && !entry.has_partition_key() {
            let home = |row: &Option<RowId>| row.and_then(|row| moment.live.partition_of(row));
            prepared.stay(changed.iter().map(home));
        }
        drop(moment);
        let deleted = self.rows_of_keys(prepared.key_bytes())?;
        self.put(order, prepared, deleted, None)
    }

    /// The batch with the values that stay.
    fn completed(
        &self,
        formats: &Formats,
        moment: &ReadSnapshot<'_>,
        changed: &Changed,
        batch: Batch,
    ) -> Result<Batch, CollectionError> {
        let Batch { rows, mut columns } = batch;
        let given = |field: &&Field| columns.iter().any(|c| c.field == field.spec.name);
        let is_read = |field: &&Field| !given(field) || field.spec.is_dynamic();
        let fields: Vec<&Field> = formats.schema.fields().iter().filter(is_read).collect();
        let names: Vec<&str> = fields.iter().map(|field| field.spec.name.as_str()).collect();
        let sources = self.sources(formats, &names)?;
        let there: Vec<RowId> = changed.iter().flatten().copied().collect();
        let reading = RowReading { formats, moment, sources: &sources };
        let mut found = self.read(&reading, &there)?.into_iter();
        let mut next = |row: &Option<RowId>| row.and_then(|_| found.next()).map(|row| row.values);
        let stored: Vec<Option<Vec<Value>>> = changed.iter().map(&mut next).collect();
        for (at, field) in fields.into_iter().enumerate() {
            let stored = stored.iter().map(|row| row.as_ref().map(|row| row[at].as_ref()));
            match columns.iter_mut().find(|column| column.field == field.spec.name) {
                Some(dynamic) => {
                    formats.schema.check_dynamic_keys(dynamic)?;
                    merge(dynamic, stored);
                }
                None => columns.push(kept(field, stored)),
            }
        }
        Ok(Batch { rows, columns })
    }
}

/// The column of a field that was not given. Rows that are new have its default, or no value.
fn kept<'v>(field: &'v Field, stored: impl Iterator<Item = Option<ValueRef<'v>>>) -> Column {
    let spec = &field.spec;
    let values: Vec<ValueRef<'_>> = stored.map(|v| v.unwrap_or(spec.fallback())).collect();
    let valid: Vec<bool> = values.iter().map(|value| !value.is_null()).collect();
    let dim = spec.dim.map_or(0, |dim| dim as usize);
    let column = Column::new(&spec.name, ColumnValues::collect(spec.data_type, dim, &values));
    if valid.iter().all(|valid| *valid) { column } else { column.with_validity(valid) }
}

/// Adds the dynamic keys that rows have to those that are given. What is no object is left to the
/// check of the batch.
fn merge<'v>(given: &mut Column, stored: impl Iterator<Item = Option<ValueRef<'v>>>) {
    let merged = stored.enumerate().map(|(row, stored)| match (stored, given.get(row)) {
        (Some(ValueRef::Json(base)), ValueRef::Json(over)) => {
            merge_json_objects(base, over).unwrap_or_else(|_| over.to_owned())
        }
        (Some(ValueRef::Json(base)), ValueRef::Null) => base.to_owned(),
        (_, ValueRef::Json(over)) => over.to_owned(),
        _ => "{}".to_owned(),
    });
    if let ColumnValues::Json(_) = given.values {
        let merged = ColumnValues::Json(merged.collect::<Vec<_>>().iter().collect());
        (given.values, given.valid) = (merged, None);
    }
}

/// Of each row of a batch, whose columns have its length, the newest row with its key.
fn changed_rows(
    formats: &Formats,
    moment: &ReadSnapshot<'_>,
    batch: &Batch,
) -> Result<Changed, CollectionError> {
    let spec = &formats.schema.primary_key().spec;
    let column = batch.columns.iter().find(|column| column.field == spec.name);
    let missing = || BatchError::MissingField { field: spec.name.clone() };
    let column = column.ok_or_else(missing)?;
    let key_type = formats.schema.key_type();
    (0..batch.rows)
        .map(|row| {
            let key = match column.get(row) {
                ValueRef::VarChar(text) => Some(PrimaryKeyRef::VarChar(text)),
                value => value.integer().map(PrimaryKeyRef::Int64),
            };
            // Keys of another type are refused with the batch.
            let Some(key) = key.filter(|key| key.key_type() == key_type) else { return Ok(None) };
            let found = moment.rows.rows_of_key(&key.to_bytes())?;
            Ok(found.last().copied().filter(|row| moment.live.contains(*row)))
        })
        .collect()
}
