//! Whether a batch fits its schema.

use super::batch::{Batch, CheckedBatch, WriteKind, check_length};
use super::definition::Schema;
use super::error::{BatchError, ValueFault};
use super::field::FieldSpec;
use super::key::{KeyType, PrimaryKeyRef};
use super::limits::MAX_KEY_BYTES;
use super::rules::{check_json_length, check_value};
use crate::value::{
    Column, ColumnValues, DataType, ScalarType, Texts, ValueRef, VectorKind, check_json_object,
};

impl Schema {
    /// Checks `batch`, and completes it: fields that are not given take their default, or null;
    /// the dynamic field takes `{}`; automatic keys are asked of `next_id`, once per row and in
    /// order, after everything else was found in order (as text where the key is varchar).
    /// A null takes the default where there is one. Integer columns of another width than their
    /// field are taken where the values fit.
    ///
    /// # Errors
    /// [`BatchError`] with the first field, and its first row, that does not fit. Then `next_id`
    /// was not called.
    pub fn check_batch(
        &self,
        batch: Batch,
        kind: WriteKind,
        mut next_id: impl FnMut() -> i64,
    ) -> Result<CheckedBatch<'_>, BatchError> {
        let Batch { rows, columns: given } = batch;
        if rows == 0 {
            return Err(BatchError::Empty);
        }
        let mut columns: Vec<Option<Column>> = vec![None; self.fields().len()];
        for column in given {
            let Some(at) = self.position(&column.field) else {
                return Err(BatchError::UnknownField { field: column.field });
            };
            if columns[at].is_some() {
                return Err(BatchError::DuplicateField { field: column.field });
            }
            columns[at] = Some(column);
        }
        let assigned = self.primary_key().spec.auto_id && kind == WriteKind::Insert;
        for (at, (field, column)) in self.fields().iter().zip(&columns).enumerate() {
            let spec = &field.spec;
            let is_assigned = assigned && at == self.primary_key_position();
            match column {
                Some(_) if is_assigned => {
                    return Err(BatchError::AssignedKey { field: spec.name.clone() });
                }
                Some(column) => self.check_column(spec, column, rows, kind)?,
                None if is_assigned || !spec.is_required() => {}
                None => return Err(BatchError::MissingField { field: spec.name.clone() }),
            }
        }
        if assigned {
            let ids = (0..rows).map(|_| next_id());
            let values = match self.key_type() {
                KeyType::Int64 => ColumnValues::Int64(ids.collect()),
                KeyType::VarChar => {
                    ColumnValues::VarChar(ids.map(|id| id.to_string()).collect::<Texts>())
                }
            };
            let name = self.primary_key().spec.name.clone();
            columns[self.primary_key_position()] = Some(Column::new(name, values));
        }
        Ok(CheckedBatch { schema: self, rows, columns })
    }

    fn check_column(
        &self,
        spec: &FieldSpec,
        column: &Column,
        rows: usize,
        kind: WriteKind,
    ) -> Result<(), BatchError> {
        let field = || spec.name.clone();
        let (values, valid) = (&column.values, &column.valid);
        check_length(column, rows)?;
        check_type(spec, values)?;
        if let Some(row) = valid.iter().flatten().position(|&valid| !valid)
            && spec.is_required()
        {
            return Err(BatchError::Null { field: field(), row });
        }
        if is_always_valid(spec.data_type, values.data_type()) {
            return Ok(());
        }
        for row in 0..rows {
            let value = column.get(row);
            if value.is_null() {
                continue;
            }
            self.check_row(spec, value, kind).map_err(|fault| BatchError::Value {
                field: field(),
                row,
                fault,
            })?;
        }
        Ok(())
    }

    /// Whether values of the dynamic field that are given name no key that is a field.
    ///
    /// # Errors
    /// As [`check_batch`](Self::check_batch).
    pub fn check_dynamic_keys(&self, given: &Column) -> Result<(), BatchError> {
        let values = (0..given.values.rows()).map(|row| given.get(row)).enumerate();
        for (row, value) in values {
            if let ValueRef::Json(text) = value {
                let field = || given.field.clone();
                self.check_dynamic(text).map_err(|fault| BatchError::Value {
                    field: field(),
                    row,
                    fault,
                })?;
            }
        }
        Ok(())
    }

    fn check_row(
        &self,
        spec: &FieldSpec,
        value: ValueRef<'_>,
        kind: WriteKind,
    ) -> Result<(), ValueFault> {
        match (spec.data_type, value) {
            (DataType::Scalar(wanted), value) if value.with_type(wanted).is_none() => {
                let found = value.integer().expect("other types were refused");
                Err(ValueFault::Range { found, wanted })
            }
            (_, ValueRef::Json(text))
                if spec.is_dynamic() && kind != WriteKind::CompletedUpsert =>
            {
                self.check_dynamic(text)
            }
            (_, value) => {
                check_value(spec, value)?;
                if spec.primary_key { check_key(value) } else { Ok(()) }
            }
        }
    }

    /// The dynamic field is an object, and its keys are no fields, itself included.
    fn check_dynamic(&self, text: &str) -> Result<(), ValueFault> {
        check_json_length(text)?;
        let mut shadowed = None;
        check_json_object(text, |key| {
            if shadowed.is_none() && self.position(key).is_some() {
                shadowed = Some(key.to_owned());
            }
        })?;
        shadowed.map_or(Ok(()), |key| Err(ValueFault::ShadowedField { key }))
    }
}

/// Whether the bytes of a primary key fit the row store, which every key has to.
fn check_key(value: ValueRef<'_>) -> Result<(), ValueFault> {
    let ValueRef::VarChar(text) = value else { return Ok(()) };
    let bytes = PrimaryKeyRef::VarChar(text).encoded_bytes();
    let most = MAX_KEY_BYTES;
    if bytes > most { Err(ValueFault::KeyTooLong { bytes, most }) } else { Ok(()) }
}

fn check_type(spec: &FieldSpec, values: &ColumnValues) -> Result<(), BatchError> {
    let (expected, found) = (spec.data_type, values.data_type());
    let field = || spec.name.clone();
    if expected != found && !(is_integer(expected) && is_integer(found)) {
        return Err(BatchError::Type { field: field(), expected, found });
    }
    if let (ColumnValues::Dense(vectors), Some(expected)) = (values, spec.dim)
        && vectors.dim() != expected as usize
    {
        return Err(BatchError::Dimension { field: field(), expected, found: vectors.dim() });
    }
    Ok(())
}

fn is_integer(data_type: DataType) -> bool {
    matches!(data_type, DataType::Scalar(scalar) if scalar.integer_range().is_some())
}

/// Whether values of one type fit a field of the other whatever they are, so that nobody has to
/// look at them.
fn is_always_valid(wanted: DataType, found: DataType) -> bool {
    match (wanted, found) {
        (DataType::Scalar(wanted), DataType::Scalar(found)) => {
            match (wanted.integer_range(), found.integer_range()) {
                (Some((_, wanted)), Some((_, found))) => found <= wanted,
                _ => matches!(found, ScalarType::Bool | ScalarType::Timestamptz),
            }
        }
        (_, DataType::Vector(kind)) => {
            matches!(kind, VectorKind::UInt8 | VectorKind::Int8 | VectorKind::Binary)
        }
        _ => false,
    }
}
