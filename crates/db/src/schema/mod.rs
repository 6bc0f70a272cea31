//! What a collection looks like, and whether what is written fits.
//!
//! A [`Schema`] is valid by construction: it has one primary key, at least one vector, and every
//! field keeps the [`limits`]. It only ever grows by fields, each under the next version and the
//! next id. [`Schema::check_batch`] takes columns and gives a [`CheckedBatch`], in which every
//! field has a value in every row: defaults and nulls are resolved, automatic keys are assigned.
//! Errors name the field, the row and the rule. No I/O; ids come from the caller.

mod batch;
mod check;
mod definition;
mod error;
mod field;
mod key;
pub mod limits;
mod name;
mod partition;
mod row_format;
mod rules;

#[cfg(test)]
mod tests;

pub use batch::{Batch, CheckedBatch, WriteKind};
pub use definition::{Schema, SchemaBuilder};
pub use error::{BatchError, FieldRule, SchemaError, ValueFault};
pub use field::{DYNAMIC_FIELD, Field, FieldAlteration, FieldId, FieldSpec};
pub use key::{KeyError, KeyType, PrimaryKey, PrimaryKeyRef};
pub use name::{NameError, check_name, check_partition_name};
pub use partition::partition_number;
pub use row_format::{RowFormat, VectorPlacement};
