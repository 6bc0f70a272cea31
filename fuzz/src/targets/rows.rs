//! Rows as bytes, and what the row store keeps them in. The first byte of an input says which:
//! 0 a row, 1 an entry of the key tree, 2 a row of the row tree, 3 the file `STATE`.

use std::sync::LazyLock;

use pipeann_db::docstore;
use pipeann_db::value::{DataType, RowColumn, RowLayout, ScalarType, Value, ValueRef, VectorKind};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] =
    &["whole row", "null", "older row", "text", "array", "json", "vector", "key", "row", "state"];

/// A column of every type, twice: the second half was added later.
pub(crate) fn layout() -> &'static RowLayout {
    static LAYOUT: LazyLock<RowLayout> = LazyLock::new(|| older_layout(usize::MAX));
    &LAYOUT
}

/// The layout while there were only so many columns.
pub(crate) fn older_layout(columns: usize) -> RowLayout {
    let scalars = ScalarType::ALL.into_iter().map(DataType::Scalar);
    let arrays = ScalarType::ALL.into_iter().filter(|s| *s != ScalarType::Timestamptz);
    let types = scalars.chain(arrays.map(DataType::Array));
    let types = types.chain([DataType::Json, DataType::Vector(VectorKind::Float)]);
    let types: Vec<DataType> = types.collect();
    let column = |data_type: &DataType| RowColumn { data_type: *data_type, absent: Value::Null };
    RowLayout::new(7, types.iter().chain(&types).map(column).take(columns).collect())
}

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((part, bytes)) = data.split_first() else { return };
    let decodes = |part: &str| bounded(bytes.len(), || docstore::decodes(part, bytes));
    match part {
        1 => reached.mark("key", decodes("key")),
        2 => reached.mark("row", decodes("row")),
        3 => reached.mark("state", decodes("state")),
        _ => read_row(bytes, reached),
    }
}

fn read_row(bytes: &[u8], reached: &mut ReachedSections) {
    let layout = layout();
    let Ok(row) = bounded(bytes.len(), || layout.open(bytes)) else { return };
    let whole = bounded(bytes.len(), || row.verify()).is_ok();
    reached.mark("whole row", whole);
    reached.mark("older row", whole && usize::from(bytes[2]) < layout.columns());
    for column in 0..layout.columns() {
        let read = bounded(bytes.len(), || row.get(column));
        let Ok(value) = read else {
            assert!(!whole, "column {column} of a row that is whole cannot be read");
            continue;
        };
        match value {
            ValueRef::Null => reached.mark("null", true),
            ValueRef::VarChar(_) => reached.mark("text", true),
            ValueRef::Json(_) => reached.mark("json", true),
            ValueRef::Vector(_) => reached.mark("vector", true),
            ValueRef::Array(array) => {
                reached.mark("array", array.iter().len() == array.len());
            }
            _ => {}
        }
    }
}
