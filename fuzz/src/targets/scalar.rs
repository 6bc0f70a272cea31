//! Scalar indexes with at most one run: their list of runs, and the run.
//!
//! An input is the list behind its length in two bytes, then the run. The fields are those of
//! [`columns`], whatever the run says of them.

use std::ops::Bound;
use std::sync::Arc;

use pipeann_db::scalar::{
    Condition, KeyPredicate, ScalarColumn, ScalarIndexes, ScalarOptions, ScalarView, Sketch,
};
use pipeann_db::schema::FieldId;
use pipeann_db::value::{ScalarType, Value};
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::RowId;
use roaring::RoaringTreemap;

use super::scratch::{dir_with, split};
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] =
    &["empty", "run", "signatures", "integers", "texts", "floats", "elements", "nulls", "bitmap"];

/// An integer, a text, a float, and an array of integers, the first never null.
pub(crate) fn columns() -> Arc<[ScalarColumn]> {
    let column = |field, scalar, array| ScalarColumn {
        field: FieldId(field),
        scalar,
        array,
        absent: Value::Null,
    };
    Arc::new([
        column(100, ScalarType::Int64, false),
        column(101, ScalarType::VarChar, false),
        column(102, ScalarType::Float, false),
        column(103, ScalarType::Int32, true),
    ])
}

/// What is asked of each column.
fn conditions() -> [(&'static str, usize, Condition); 6] {
    let text = |text: &str| Value::VarChar(text.to_owned());
    [
        ("integers", 0, Condition::Within(Bound::Included(Value::Int64(3)), Bound::Unbounded)),
        ("bitmap", 0, Condition::Within(Bound::Unbounded, Bound::Unbounded)),
        ("texts", 1, Condition::OneOf(vec![text("common"), text("name-1")])),
        ("floats", 2, Condition::Within(Bound::Unbounded, Bound::Excluded(Value::Float(2.0)))),
        ("elements", 3, Condition::ContainsAny(vec![Value::Int32(1), Value::Int32(2)])),
        ("nulls", 3, Condition::IsNull),
    ]
}

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((list, run)) = split(data) else { return };
    let Some(collection) = list.get(16..32).and_then(|id| id.first_chunk().copied()) else {
        return;
    };
    let number = list.get(64..72).and_then(|n| n.first_chunk().copied()).map(u64::from_le_bytes);
    let files = [("SCALARS".to_owned(), list), (format!("run-{:06}", number.unwrap_or(1)), run)];
    let dir = dir_with("scalar", &files[..1 + usize::from(number.is_some())]);
    let options =
        ScalarOptions { collection, buffer_bytes: 1 << 20, accountant: Accountant::new(None) };
    let columns = columns();
    bounded(data.len(), || {
        let Ok(indexes) = ScalarIndexes::open(&dir, Arc::clone(&columns), options) else { return };
        let view = indexes.view();
        reached.mark("empty", view.runs() == 0);
        reached.mark("run", view.runs() == 1);
        ask(&view, &columns, reached);
        if indexes.load().is_ok() {
            reached.mark("signatures", view.runs() == 1);
            ask(&indexes.view(), &columns, reached);
        }
    });
}

/// Every condition, in all the ways that there are.
fn ask(view: &ScalarView, columns: &[ScalarColumn], reached: &mut ReachedSections) {
    let mut live = RoaringTreemap::new();
    live.insert_range(0..2000);
    for (name, column, condition) in conditions() {
        let Some(predicate) = KeyPredicate::new(&columns[column], &condition) else { continue };
        if let Ok(found) = view.postings(&predicate, &live) {
            reached
                .mark(name, !found.rows.is_empty() && (name != "bitmap" || found.rows.len() > 256));
        }
        drop(view.estimate(&predicate, &live));
        let sketch = Sketch::Is(predicate);
        let test = view.signature_test(&sketch);
        (0..50).for_each(|row| _ = test.verdict(RowId(row)));
    }
}
