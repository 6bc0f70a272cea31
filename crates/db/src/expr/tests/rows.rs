//! A schema with a field of every kind, and rows for it.

use std::collections::BTreeMap;

use crate::expr::{BoundFilter, RowValues, Templates, Ternary, compile};
use crate::schema::{FieldSpec, Schema};
use crate::value::{Array, DataType, RowError, ScalarType, Value, ValueRef, VectorKind};

pub(super) fn schema(dynamic: bool) -> Schema {
    let scalar = |name: &str, kind| FieldSpec::new(name, DataType::Scalar(kind)).nullable();
    let array = |name: &str, kind| {
        FieldSpec::new(name, DataType::Array(kind)).max_capacity(8).max_bytes(32).nullable()
    };
    let plain =
        |name: &str, kind| FieldSpec::new(name, DataType::Array(kind)).max_capacity(8).nullable();
    Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .field(scalar("a", ScalarType::Int64))
        .field(scalar("b", ScalarType::Int64))
        .field(scalar("tiny", ScalarType::Int8))
        .field(scalar("f", ScalarType::Float))
        .field(scalar("d", ScalarType::Double))
        .field(scalar("flag", ScalarType::Bool))
        .field(scalar("s", ScalarType::VarChar).max_bytes(100))
        .field(scalar("ts", ScalarType::Timestamptz))
        .field(plain("ints", ScalarType::Int64))
        .field(array("texts", ScalarType::VarChar))
        .field(FieldSpec::new("j", DataType::Json).nullable())
        .dynamic(dynamic)
        .build()
        .unwrap()
}

/// Values by name of the field; null where there is none.
pub(super) struct TestRow {
    schema: Schema,
    values: BTreeMap<usize, Value>,
}

impl TestRow {
    pub(super) fn new(values: &[(&str, Value)]) -> Self {
        let schema = schema(true);
        let at = |name: &str| schema.position(name).unwrap();
        let values = values.iter().map(|(name, value)| (at(name), value.clone())).collect();
        Self { schema, values }
    }

    pub(super) fn truth(&self, expression: &str) -> Ternary {
        self.truth_with(expression, &Templates::new())
    }

    pub(super) fn truth_with(&self, expression: &str, templates: &Templates) -> Ternary {
        let bound = compile(expression, &self.schema, templates);
        let bound = bound.unwrap_or_else(|error| panic!("{error}"));
        bound.predicate.evaluate(self).unwrap()
    }
}

impl RowValues for TestRow {
    fn value(&self, field: usize) -> Result<ValueRef<'_>, RowError> {
        Ok(self.values.get(&field).map_or(ValueRef::Null, Value::as_ref))
    }
}

pub(super) fn bound(expression: &str) -> BoundFilter {
    let bound = compile(expression, &schema(true), &Templates::new());
    bound.unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn text(text: &str) -> Value {
    Value::VarChar(text.to_owned())
}

pub(super) fn json(text: &str) -> Value {
    Value::Json(text.to_owned())
}

pub(super) fn ints(values: &[i64]) -> Value {
    let values = values.iter().map(|value| ValueRef::Int64(*value));
    Value::Array(Array::collect(ScalarType::Int64, values).unwrap())
}

pub(super) fn texts(values: &[&str]) -> Value {
    let values = values.iter().map(|value| ValueRef::VarChar(value));
    Value::Array(Array::collect(ScalarType::VarChar, values).unwrap())
}

/// A row with a value of every kind.
pub(super) fn row() -> TestRow {
    TestRow::new(&[
        ("id", Value::Int64(1)),
        ("a", Value::Int64(7)),
        ("b", Value::Int64(-3)),
        ("tiny", Value::Int8(5)),
        ("f", Value::Float(0.1)),
        ("d", Value::Double(2.5)),
        ("flag", Value::Bool(true)),
        ("s", text("blue cheese")),
        ("ts", Value::Timestamptz(86_400_000_000)),
        ("ints", ints(&[4, 5, 6])),
        ("texts", texts(&["x", "y"])),
        (
            "j",
            json(
                r#"{"n": 5, "x": 1.5, "t": "hi", "o": {"k": null}, "l": [1, "a", [2, 3], null], "z": true, "big": 18446744073709551615, "e": {}}"#,
            ),
        ),
        ("$meta", json(r#"{"color": "red", "size": 12, "tags": ["a", "b"]}"#)),
    ])
}

/// Checks what expressions are, and that their negations are the opposite.
#[track_caller]
pub(super) fn check(row: &TestRow, expected: Option<bool>, expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(row.truth(expression), expected, "{expression}");
        let negated = format!("not ({expression})");
        assert_eq!(row.truth(&negated), expected.map(|truth| !truth), "{negated}");
    }
}
