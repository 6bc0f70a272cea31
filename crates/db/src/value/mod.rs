//! What a field can hold: types, single values, columns of values, and rows as bytes.
//!
//! Requests come in columns ([`Column`]: one typed column per field, with validity); rows are
//! stored as blobs ([`RowLayout`]), so that a few fixed-width fields are read out of a blob
//! without touching the rest. Nothing here knows limits or rules of a schema; what is checked
//! here is only what bytes must be to be a value at all: text is UTF-8, JSON parses, an array
//! holds elements of its type, a vector has whole components. No I/O. A decoder accepts any
//! bytes: what is not valid becomes an error, never a panic, and no decoder allocates.

mod array;
mod column;
mod constants;
mod elements;
mod json;
mod row;
mod single;
mod texts;
mod types;
mod vector;

#[cfg(test)]
mod tests;

pub use array::{Array, ArrayError, ArrayRef};
pub use column::{Arrays, Column, ColumnValues, DenseVectors, RaggedVectors};
pub use constants::{MAX_ROW_BYTES, MAX_ROW_COLUMNS, ROW_FORMAT, row_header};
pub use json::{JsonError, check_json, check_json_object, merge_json_objects, without_json_keys};
pub use row::{RowColumn, RowError, RowLayout, RowView};
pub use single::{Value, ValueRef};
pub use texts::{Blobs, Texts};
pub use types::{DataType, ScalarType, UnknownType, VectorKind};
pub use vector::{SparseError, check_sparse, to_halves, unfit};
