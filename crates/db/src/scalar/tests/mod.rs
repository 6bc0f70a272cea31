//! Tests of the room as a whole.

mod charge;
mod damage;
mod documentation;
mod model;
mod opening;
mod readers;

use std::path::Path;
use std::sync::Arc;

use pipeann_engine::memory::Accountant;
use roaring::RoaringTreemap;

use super::{Judged, ScalarBatch, ScalarColumn, ScalarError, ScalarIndexes, ScalarOptions};
use crate::ids::{RowId, Seq};
use crate::schema::FieldId;
use crate::value::{Array, ScalarType, Value};

const COLLECTION: [u8; 16] = *b"a collection id.";

const ID: usize = 0;
const PRICE: usize = 1;
const NAME: usize = 2;
const TAGS: usize = 3;
const FLAG: usize = 4;

/// An integer, a float, a text, an array of integers, and a bool that may be null.
fn columns() -> Arc<[ScalarColumn]> {
    let column = |field, scalar, array| {
        let field = FieldId(field);
        ScalarColumn { field, scalar, array, absent: Value::Null }
    };
    Arc::new([
        column(100, ScalarType::Int64, false),
        column(101, ScalarType::Float, false),
        column(102, ScalarType::VarChar, false),
        column(103, ScalarType::Int32, true),
        column(104, ScalarType::Bool, false),
    ])
}

fn options() -> ScalarOptions {
    let accountant = Accountant::new(None);
    ScalarOptions { collection: COLLECTION, buffer_bytes: 64 << 20, accountant }
}

fn open(dir: &Path) -> Result<ScalarIndexes, ScalarError> {
    let opened = ScalarIndexes::open(dir, columns(), options())?;
    opened.load()?;
    Ok(opened)
}

/// A row of the columns above.
type Row = Vec<Value>;

fn tags(values: impl IntoIterator<Item = i32>) -> Value {
    let values: Vec<_> = values.into_iter().map(Value::Int32).collect();
    Value::Array(Array::collect(ScalarType::Int32, values.iter().map(Value::as_ref)).unwrap())
}

/// A row that is told by its number: some values are frequent, some rare, some null.
fn row(number: u64) -> Row {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let text = match mix % 7 {
        0 => "common".to_owned(),
        1 => format!("{}{}", "long".repeat(16), mix % 3),
        _ => format!("name-{}", mix % 1000),
    };
    let first = i32::try_from(mix % 3).unwrap();
    let some = (0..mix % 6).map(|i| i32::try_from((mix >> i) % 900).unwrap());
    vec![
        Value::Int64(i64::try_from(number).unwrap() - 500),
        if mix.is_multiple_of(11) {
            Value::Null
        } else {
            Value::Float((mix % 500) as f32 / 4.0 - 20.0)
        },
        Value::VarChar(text),
        if mix.is_multiple_of(13) { Value::Null } else { tags(some.chain([first, first])) },
        if mix.is_multiple_of(5) { Value::Null } else { Value::Bool(mix.is_multiple_of(2)) },
    ]
}

fn batch(rows: impl IntoIterator<Item = u64>) -> ScalarBatch {
    let mut batch = ScalarBatch::new(columns());
    for number in rows {
        batch.push(RowId(number), row(number).iter().map(Value::as_ref));
    }
    batch
}

/// All rows below `next`, none of them gone.
fn all(next: u64) -> RoaringTreemap {
    (0..next).collect()
}

fn flush(indexes: &ScalarIndexes, live: &RoaringTreemap, next: u64) -> Seq {
    indexes.flush(Judged { live, next_row: RowId(next) }).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
