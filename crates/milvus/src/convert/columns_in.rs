//! Rows as clients write them: a column for each field.
//!
//! Of a nullable field only the values that are there are sent, with a mark for each row; some clients
//! send a value for each row all the same. Fields of halves take floats too. The dynamic field comes under its name, or under none.

use pipeann_db::schema::{Batch, DYNAMIC_FIELD, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Array, Arrays, Blobs, Column, ColumnValues, DenseVectors, ScalarType, Texts, ValueRef,
    VectorKind, to_halves,
};

use super::instants;
use super::types::dim;
use crate::proto::schema::field_data::Field;
use crate::proto::schema::i_ds::IdField;
use crate::proto::schema::scalar_field::Data;
use crate::proto::schema::vector_field::Data as Vectors;
use crate::proto::schema::{FieldData, IDs, ScalarField, VectorField};
use crate::status::CallFailure;

/// The rows of a request, of which it says that they are so many.
pub(crate) fn batch(
    schema: &Schema,
    fields: Vec<FieldData>,
    rows: u32,
) -> Result<Batch, CallFailure> {
    let rows = rows as usize;
    let column = |field: FieldData| {
        let name = match field.is_dynamic {
            true => DYNAMIC_FIELD,
            false => field.field_name.as_str(),
        };
        let known = schema.field(name).filter(|known| known.spec.is_dynamic() == field.is_dynamic);
        let Some(known) = known else {
            return Err(CallFailure::parameter(format!("field {name} not exist in the schema")));
        };
        column(&known.spec, field, rows)
    };
    let columns = fields.into_iter().map(column).collect::<Result<_, _>>()?;
    Ok(Batch { rows, columns })
}

fn column(spec: &FieldSpec, data: FieldData, rows: usize) -> Result<Column, CallFailure> {
    let valid = data.valid_data;
    let values = match data.field {
        Some(Field::Scalars(scalars)) => scalar_values(spec, scalars)?,
        Some(Field::Vectors(vectors)) => vector_values(spec, vectors)?,
        None => return Err(wrong_type(spec)),
    };
    if valid.is_empty() {
        if values.rows() != rows {
            return Err(CallFailure::parameter(format!(
                "the num_rows ({}) of field ({}) is not equal to passed num_rows ({rows})",
                values.rows(),
                spec.name
            )));
        }
        return Ok(Column::new(spec.name.clone(), values));
    }
    if valid.len() != rows {
        return Err(CallFailure::parameter(format!(
            "the length of valid_data of field({}) is {}, not the number of rows {rows}",
            spec.name,
            valid.len()
        )));
    }
    let there = valid.iter().filter(|valid| **valid).count();
    let values = match values.rows() == there && there < rows {
        true => spread(values, &valid),
        false => values,
    };
    Ok(Column::new(spec.name.clone(), values).with_validity(valid))
}

/// How many primary keys there are: each takes several times what it took in the message.
pub(crate) fn count_keys(ids: &IDs) -> usize {
    match &ids.id_field {
        Some(IdField::IntId(ids)) => ids.data.len(),
        Some(IdField::StrId(ids)) => ids.data.len(),
        None => 0,
    }
}

/// Primary keys.
pub(crate) fn keys(ids: IDs) -> Vec<PrimaryKey> {
    match ids.id_field {
        Some(IdField::IntId(ids)) => ids.data.into_iter().map(PrimaryKey::Int64).collect(),
        Some(IdField::StrId(ids)) => ids.data.into_iter().map(PrimaryKey::VarChar).collect(),
        None => Vec::new(),
    }
}

fn wrong_type(spec: &FieldSpec) -> CallFailure {
    CallFailure::parameter(format!(
        "field {} is of type {}, and the data that was sent for it is not",
        spec.name, spec.data_type
    ))
}

fn scalar_values(spec: &FieldSpec, scalars: ScalarField) -> Result<ColumnValues, CallFailure> {
    use pipeann_db::value::DataType as Type;
    Ok(match (spec.data_type, scalars.data) {
        (Type::Array(element), Some(Data::ArrayData(arrays))) => {
            let mut all = Arrays::new(element);
            for row in arrays.data {
                all.push(&array(spec, element, row)?);
            }
            ColumnValues::Array(all)
        }
        (Type::Scalar(ScalarType::Timestamptz), Some(Data::StringData(texts))) => {
            let instant = |text: &String| {
                instants::parse(text).ok_or_else(|| {
                    CallFailure::parameter(format!("field {}: `{text}` is no instant", spec.name))
                })
            };
            ColumnValues::Timestamptz(texts.data.iter().map(instant).collect::<Result<_, _>>()?)
        }
        (Type::Scalar(ScalarType::Timestamptz), Some(Data::LongData(numbers))) => {
            ColumnValues::Timestamptz(numbers.data)
        }
        (Type::Json, Some(Data::StringData(texts))) => {
            ColumnValues::Json(texts.data.iter().collect())
        }
        (_, Some(Data::BoolData(values))) => ColumnValues::Bool(values.data),
        (_, Some(Data::IntData(values))) => ColumnValues::Int32(values.data),
        (_, Some(Data::LongData(values))) => ColumnValues::Int64(values.data),
        (_, Some(Data::FloatData(values))) => ColumnValues::Float(values.data),
        (_, Some(Data::DoubleData(values))) => ColumnValues::Double(values.data),
        (_, Some(Data::StringData(texts))) => ColumnValues::VarChar(texts.data.iter().collect()),
        (_, Some(Data::TimestamptzData(values))) => ColumnValues::Timestamptz(values.data),
        (_, Some(Data::JsonData(texts))) => {
            let mut all = Texts::default();
            for text in &texts.data {
                all.push_bytes(text).map_err(|_| {
                    CallFailure::parameter(format!("field {}: JSON that is not UTF-8", spec.name))
                })?;
            }
            ColumnValues::Json(all)
        }
        (_, Some(Data::ArrayData(_) | Data::BytesData(_)) | None) => return Err(wrong_type(spec)),
    })
}

/// The elements of one row of an array field.
fn array(spec: &FieldSpec, element: ScalarType, row: ScalarField) -> Result<Array, CallFailure> {
    let collected = match row.data {
        None => Array::collect(element, []),
        Some(Data::BoolData(v)) => Array::collect(element, v.data.into_iter().map(ValueRef::Bool)),
        Some(Data::IntData(v)) => Array::collect(element, v.data.into_iter().map(ValueRef::Int32)),
        Some(Data::LongData(v)) => Array::collect(element, v.data.into_iter().map(ValueRef::Int64)),
        Some(Data::FloatData(v)) => {
            Array::collect(element, v.data.into_iter().map(ValueRef::Float))
        }
        Some(Data::DoubleData(v)) => {
            Array::collect(element, v.data.into_iter().map(ValueRef::Double))
        }
        Some(Data::StringData(v)) => {
            Array::collect(element, v.data.iter().map(|text| ValueRef::VarChar(text)))
        }
        Some(_) => return Err(wrong_type(spec)),
    };
    collected.map_err(|error| CallFailure::parameter(format!("field {}: {error}", spec.name)))
}

fn vector_values(spec: &FieldSpec, vectors: VectorField) -> Result<ColumnValues, CallFailure> {
    let given = usize::try_from(vectors.dim).unwrap_or(0);
    let (kind, bytes) = match vectors.data {
        None => return Err(wrong_type(spec)),
        Some(Vectors::SparseFloatVector(sparse)) => {
            return Ok(ColumnValues::Sparse(sparse.contents.iter().collect()));
        }
        Some(Vectors::FloatVector(floats)) => {
            let wanted = spec.data_type.vector_kind().unwrap_or(VectorKind::Float);
            match to_halves(&floats.data, wanted) {
                Some(halves) => (wanted, halves),
                None => (VectorKind::Float, floats.data),
            }
        }
        Some(Vectors::BinaryVector(bytes)) => (VectorKind::Binary, bytes),
        Some(Vectors::Float16Vector(bytes)) => (VectorKind::Float16, bytes),
        Some(Vectors::Bfloat16Vector(bytes)) => (VectorKind::BFloat16, bytes),
        Some(Vectors::Int8Vector(bytes)) => (VectorKind::Int8, bytes),
    };
    let expected = dim(spec);
    if given != expected {
        return Err(CallFailure::parameter(format!(
            "the dim ({given}) of field data({}) is not equal to schema dim ({expected})",
            spec.name
        )));
    }
    let dense = DenseVectors::new(kind, given, bytes)
        .map_err(|error| CallFailure::parameter(format!("field {}: {error}", spec.name)))?;
    Ok(ColumnValues::Dense(dense))
}

/// Puts values behind each other where there are marks, and any others between them.
fn spread(values: ColumnValues, valid: &[bool]) -> ColumnValues {
    fn all<T: Default>(values: Vec<T>, valid: &[bool]) -> Vec<T> {
        let mut values = values.into_iter();
        let mut next = |valid: &bool| match valid {
            true => values.next().unwrap_or_default(),
            false => T::default(),
        };
        valid.iter().map(&mut next).collect()
    }
    fn texts(texts: &Texts, valid: &[bool]) -> Texts {
        let mut at = 0;
        let mut next = |valid: &bool| {
            let text = if *valid { texts.get(at) } else { "" };
            at += usize::from(*valid);
            text
        };
        valid.iter().map(&mut next).collect()
    }
    match values {
        ColumnValues::Bool(v) => ColumnValues::Bool(all(v, valid)),
        ColumnValues::Int8(v) => ColumnValues::Int8(all(v, valid)),
        ColumnValues::Int16(v) => ColumnValues::Int16(all(v, valid)),
        ColumnValues::Int32(v) => ColumnValues::Int32(all(v, valid)),
        ColumnValues::Int64(v) => ColumnValues::Int64(all(v, valid)),
        ColumnValues::Timestamptz(v) => ColumnValues::Timestamptz(all(v, valid)),
        ColumnValues::Float(v) => ColumnValues::Float(all(v, valid)),
        ColumnValues::Double(v) => ColumnValues::Double(all(v, valid)),
        ColumnValues::VarChar(v) => ColumnValues::VarChar(texts(&v, valid)),
        ColumnValues::Json(v) => ColumnValues::Json(texts(&v, valid)),
        ColumnValues::Array(v) => ColumnValues::Array(v.spread(valid)),
        ColumnValues::Sparse(v) => {
            let mut at = 0;
            let mut all = Blobs::default();
            for valid in valid {
                all.push(if *valid { v.get(at) } else { &[] });
                at += usize::from(*valid);
            }
            ColumnValues::Sparse(all)
        }
        // The database has no vectors that may be missing, and says so.
        dense @ ColumnValues::Dense(_) => dense,
    }
}

#[cfg(test)]
#[path = "columns_in_tests.rs"]
mod tests;
