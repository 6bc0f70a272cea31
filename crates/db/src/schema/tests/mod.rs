//! Tests of the room `schema`: which schemas there are, which batches fit them.

mod batch;
mod definition;
mod random;

use super::{Batch, FieldSpec, Schema};
use crate::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, VectorKind};

const BOOL: DataType = DataType::Scalar(ScalarType::Bool);
const INT8: DataType = DataType::Scalar(ScalarType::Int8);
const INT64: DataType = DataType::Scalar(ScalarType::Int64);
const FLOAT: DataType = DataType::Scalar(ScalarType::Float);
const TEXT: DataType = DataType::Scalar(ScalarType::VarChar);
const VECTOR: DataType = DataType::Vector(VectorKind::Float);

fn id() -> FieldSpec {
    FieldSpec::new("id", INT64).primary_key()
}

fn vector() -> FieldSpec {
    FieldSpec::new("vector", VECTOR).dim(2)
}

/// A schema of `id`, `vector` and these fields.
fn schema(more: impl IntoIterator<Item = FieldSpec>) -> Schema {
    let start = Schema::builder().field(id()).field(vector());
    more.into_iter().fold(start, super::SchemaBuilder::field).build().unwrap()
}

fn ids(rows: usize) -> Column {
    Column::new("id", ColumnValues::Int64((0..).take(rows).collect()))
}

fn floats(values: &[f32]) -> ColumnValues {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    ColumnValues::Dense(DenseVectors::new(VectorKind::Float, 2, bytes).unwrap())
}

fn vectors(rows: usize) -> Column {
    Column::new("vector", floats(&vec![0.5; rows * 2]))
}

fn texts(values: &[&str]) -> Texts {
    values.iter().collect()
}

/// A batch of `rows` rows with `id`, `vector` and these columns.
fn batch(rows: usize, more: impl IntoIterator<Item = Column>) -> Batch {
    Batch { rows, columns: [ids(rows), vectors(rows)].into_iter().chain(more).collect() }
}
