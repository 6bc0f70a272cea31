//! What Milvus Lite 2 keeps in the tables of its file: the wire's own messages, and two more.
//!
//! A row of a collection is a record of one value a field, two fields of the server's own among them,
//! and an index a message of its own. See `docs/decisions/0034-milvus-lite.md`.

use pipeann_db::schema::{DYNAMIC_FIELD, Schema};
use pipeann_db::value::VectorKind;
use prost::Message;

use super::types::dim;
use crate::proto::common::KeyValuePair;
use crate::proto::schema::field_data::Field;
use crate::proto::schema::scalar_field::Data;
use crate::proto::schema::vector_field::Data as Vectors;
use crate::proto::schema::{CollectionSchema, FieldData};
use crate::status::CallFailure;

/// Fields that Milvus Lite adds to each collection: a number and a time for each row.
const SYSTEM_FIELDS: [&str; 2] = ["RowID", "Timestamp"];
/// Parameters that stand with those of an index and are none.
const OF_FIELD: [&str; 3] = ["dim", "max_length", "max_capacity"];
const OF_AUTOMATIC: [&str; 2] = ["index_type", "metric_type"];

#[derive(Clone, PartialEq, Message)]
struct LiteRecord {
    #[prost(message, repeated, tag = "1")]
    fields: Vec<FieldData>,
    #[prost(int64, tag = "2")]
    rows: i64,
}

#[derive(Clone, PartialEq, Message)]
struct IndexRecord {
    #[prost(int64, tag = "1")]
    field_id: i64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    parameters: Vec<KeyValuePair>,
    #[prost(bool, tag = "6")]
    automatic: bool,
}

/// An index as it was asked for.
pub(crate) struct LiteIndex {
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) parameters: Vec<KeyValuePair>,
}

/// The schema of a collection, without what Milvus Lite has added.
pub(crate) fn schema(bytes: &[u8]) -> Result<CollectionSchema, CallFailure> {
    let mut schema = CollectionSchema::decode(bytes).map_err(malformed("schema"))?;
    schema.fields.retain(|field| !SYSTEM_FIELDS.contains(&field.name.as_str()));
    for field in &mut schema.fields {
        field.is_dynamic |= schema.enable_dynamic_field && field.name == DYNAMIC_FIELD;
    }
    Ok(schema)
}

/// An index of a collection with this schema.
pub(crate) fn index(bytes: &[u8], schema: &CollectionSchema) -> Result<LiteIndex, CallFailure> {
    let record = IndexRecord::decode(bytes).map_err(malformed("index"))?;
    let field = schema.fields.iter().find(|field| field.field_id == record.field_id);
    let field = field.ok_or_else(|| {
        let IndexRecord { name, field_id, .. } = &record;
        CallFailure::parameter(format!(
            "the index {name} is of field {field_id}, which is not there"
        ))
    })?;
    let mut parameters = record.parameters;
    // What Milvus Lite has chosen by itself says nothing about a graph of ours.
    parameters.retain(|pair| match record.automatic {
        true => OF_AUTOMATIC.contains(&pair.key.as_str()),
        false => !OF_FIELD.contains(&pair.key.as_str()),
    });
    let field = field.name.clone();
    let name = if record.name.is_empty() { field.clone() } else { record.name };
    Ok(LiteIndex { field, name, parameters })
}

/// The fields of one row.
pub(crate) fn row(bytes: &[u8]) -> Result<Vec<FieldData>, CallFailure> {
    let record = LiteRecord::decode(bytes).map_err(malformed("row"))?;
    if record.rows != 1 {
        return Err(CallFailure::parameter(format!(
            "a record of {} rows instead of one",
            record.rows
        )));
    }
    let mut fields = record.fields;
    fields.retain(|field| !SYSTEM_FIELDS.contains(&field.field_name.as_str()));
    for field in &mut fields {
        field.is_dynamic |= field.field_name == DYNAMIC_FIELD;
    }
    Ok(fields)
}

/// Refuses a row that has not one value of each of its fields: put behind others, it would shift those
/// of the rows after it.
pub(crate) fn check_values(fields: &[FieldData], schema: &Schema) -> Result<(), CallFailure> {
    for field in fields {
        let name = &field.field_name;
        let Some(known) = schema.field(name) else { continue };
        let values = match &field.field {
            Some(Field::Scalars(scalars)) => scalars.data.as_ref().map_or(0, scalar_count),
            Some(Field::Vectors(vectors)) => {
                vectors.data.as_ref().map_or(0, |data| vector_count(data, dim(&known.spec)))
            }
            None => 0,
        };
        let fits = match field.valid_data[..] {
            [] | [true] => values == 1,
            [false] => values <= 1,
            _ => false,
        };
        if !fits {
            let reason = format!("a record of one row that has not one value of the field {name}");
            return Err(CallFailure::parameter(reason));
        }
    }
    Ok(())
}

fn scalar_count(data: &Data) -> usize {
    match data {
        Data::BoolData(values) => values.data.len(),
        Data::IntData(values) => values.data.len(),
        Data::LongData(values) => values.data.len(),
        Data::FloatData(values) => values.data.len(),
        Data::DoubleData(values) => values.data.len(),
        Data::StringData(values) => values.data.len(),
        Data::BytesData(values) => values.data.len(),
        Data::ArrayData(values) => values.data.len(),
        Data::JsonData(values) => values.data.len(),
        Data::TimestamptzData(values) => values.data.len(),
    }
}

/// How many vectors of so many components there are; a part of one counts as too many.
fn vector_count(data: &Vectors, dim: usize) -> usize {
    let (kind, bytes) = match data {
        Vectors::SparseFloatVector(sparse) => return sparse.contents.len(),
        Vectors::FloatVector(floats) => (VectorKind::Float, floats.data.len()),
        Vectors::BinaryVector(bytes) => (VectorKind::Binary, bytes.len()),
        Vectors::Float16Vector(bytes) => (VectorKind::Float16, bytes.len()),
        Vectors::Bfloat16Vector(bytes) => (VectorKind::BFloat16, bytes.len()),
        Vectors::Int8Vector(bytes) => (VectorKind::Int8, bytes.len()),
    };
    match bytes {
        0 => 0,
        bytes if kind.row_bytes(dim) == Some(bytes) => 1,
        _ => 2,
    }
}

/// Whether rows of these fields can stand in the same columns.
pub(crate) fn alike(a: &[FieldData], b: &[FieldData]) -> bool {
    let kinds = |field: &FieldData| {
        let values = field.field.as_ref().map(|field| match field {
            Field::Scalars(scalars) => scalars.data.as_ref().map(std::mem::discriminant).map(Ok),
            Field::Vectors(vectors) => vectors.data.as_ref().map(std::mem::discriminant).map(Err),
        });
        (values, field.valid_data.is_empty())
    };
    let same =
        |(a, b): (&FieldData, &FieldData)| a.field_name == b.field_name && kinds(a) == kinds(b);
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// Puts the values of rows that are [`alike`] behind others.
pub(crate) fn append(to: &mut [FieldData], from: Vec<FieldData>) {
    for (to, from) in to.iter_mut().zip(from) {
        to.valid_data.extend(from.valid_data);
        match (&mut to.field, from.field) {
            (Some(Field::Scalars(to)), Some(Field::Scalars(from))) => {
                if let (Some(to), Some(from)) = (&mut to.data, from.data) {
                    append_scalars(to, from);
                }
            }
            (Some(Field::Vectors(to)), Some(Field::Vectors(from))) => {
                if let (Some(to), Some(from)) = (&mut to.data, from.data) {
                    append_vectors(to, from);
                }
            }
            _ => {}
        }
    }
}

fn append_scalars(to: &mut Data, from: Data) {
    match (to, from) {
        (Data::BoolData(to), Data::BoolData(from)) => to.data.extend(from.data),
        (Data::IntData(to), Data::IntData(from)) => to.data.extend(from.data),
        (Data::LongData(to), Data::LongData(from)) => to.data.extend(from.data),
        (Data::FloatData(to), Data::FloatData(from)) => to.data.extend(from.data),
        (Data::DoubleData(to), Data::DoubleData(from)) => to.data.extend(from.data),
        (Data::StringData(to), Data::StringData(from)) => to.data.extend(from.data),
        (Data::BytesData(to), Data::BytesData(from)) => to.data.extend(from.data),
        (Data::ArrayData(to), Data::ArrayData(from)) => to.data.extend(from.data),
        (Data::JsonData(to), Data::JsonData(from)) => to.data.extend(from.data),
        (Data::TimestamptzData(to), Data::TimestamptzData(from)) => to.data.extend(from.data),
        _ => unreachable!("rows that are put together are alike"),
    }
}

fn append_vectors(to: &mut Vectors, from: Vectors) {
    match (to, from) {
        (Vectors::FloatVector(to), Vectors::FloatVector(from)) => to.data.extend(from.data),
        (Vectors::BinaryVector(to), Vectors::BinaryVector(from))
        | (Vectors::Float16Vector(to), Vectors::Float16Vector(from))
        | (Vectors::Bfloat16Vector(to), Vectors::Bfloat16Vector(from))
        | (Vectors::Int8Vector(to), Vectors::Int8Vector(from)) => to.extend(from),
        (Vectors::SparseFloatVector(to), Vectors::SparseFloatVector(from)) => {
            to.contents.extend(from.contents);
            to.dim = to.dim.max(from.dim);
        }
        _ => unreachable!("rows that are put together are alike"),
    }
}

fn malformed(what: &'static str) -> impl Fn(prost::DecodeError) -> CallFailure {
    move |error| CallFailure::parameter(format!("its {what} cannot be read: {error}"))
}

/// A record as Milvus Lite writes it.
#[cfg(test)]
pub(crate) fn record(fields: Vec<FieldData>) -> Vec<u8> {
    LiteRecord { fields, rows: 1 }.encode_to_vec()
}
