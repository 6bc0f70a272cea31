//! Tests of the room `value`: arrays and rows, on valid and on hostile bytes.

mod array;
mod documentation;
mod hostile;
mod row;

use proptest::prelude::*;

use super::{Array, DataType, RowColumn, RowLayout, ScalarType, Value, VectorKind};

/// A scalar of this type, extremes often.
fn scalar(scalar: ScalarType) -> BoxedStrategy<Value> {
    match scalar {
        ScalarType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ScalarType::Int8 => any::<i8>().prop_map(Value::Int8).boxed(),
        ScalarType::Int16 => any::<i16>().prop_map(Value::Int16).boxed(),
        ScalarType::Int32 => any::<i32>().prop_map(Value::Int32).boxed(),
        ScalarType::Int64 => any::<i64>().prop_map(Value::Int64).boxed(),
        ScalarType::Float => any::<f32>().prop_map(Value::Float).boxed(),
        ScalarType::Double => any::<f64>().prop_map(Value::Double).boxed(),
        ScalarType::Timestamptz => any::<i64>().prop_map(Value::Timestamptz).boxed(),
        ScalarType::VarChar => ".{0,9}".prop_map(Value::VarChar).boxed(),
    }
}

fn array_of(element: ScalarType) -> BoxedStrategy<Value> {
    prop::collection::vec(scalar(element), 0..5)
        .prop_map(move |values| {
            Value::Array(Array::collect(element, values.iter().map(Value::as_ref)).unwrap())
        })
        .boxed()
}

fn value_of(data_type: DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Scalar(ty) => scalar(ty),
        DataType::Json => "[a-zä{}]{0,9}".prop_map(Value::Json).boxed(),
        DataType::Array(element) => array_of(element),
        DataType::Vector(_) => {
            prop::collection::vec(any::<u8>(), 0..12).prop_map(Value::Vector).boxed()
        }
    }
}

fn data_type() -> impl Strategy<Value = DataType> {
    let scalars = prop::sample::select(&ScalarType::ALL[..]);
    prop_oneof![
        4 => scalars.clone().prop_map(DataType::Scalar),
        1 => Just(DataType::Json),
        2 => scalars.prop_map(DataType::Array),
        1 => prop::sample::select(&VectorKind::ALL[..]).prop_map(DataType::Vector),
    ]
}

/// A layout and a row of it, null now and then.
fn layout_and_row() -> impl Strategy<Value = (RowLayout, Vec<Value>)> {
    prop::collection::vec(data_type(), 0..20).prop_flat_map(|types| {
        let layout = layout(&types);
        let value = |ty: DataType| prop_oneof![1 => Just(Value::Null), 5 => value_of(ty)].boxed();
        let row: Vec<_> = types.into_iter().map(value).collect();
        (Just(layout), row)
    })
}

fn layout(types: &[DataType]) -> RowLayout {
    let column = |&data_type: &DataType| RowColumn { data_type, absent: Value::Null };
    RowLayout::new(7, types.iter().map(column).collect())
}

fn encode(layout: &RowLayout, row: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    layout.encode(row.iter().map(Value::as_ref), &mut bytes).unwrap();
    bytes
}

/// Equal, with NaN equal to itself: compared by their bytes.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}
