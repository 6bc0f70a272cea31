//! Rows: what goes in comes out, older rows are read, one column touches no other.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{encode, layout, layout_and_row, same};
use crate::value::{
    Array, DataType, MAX_ROW_BYTES, RowColumn, RowError, RowLayout, ScalarType, Value, ValueRef,
    row_header,
};

const INT64: DataType = DataType::Scalar(ScalarType::Int64);
const TEXT: DataType = DataType::Scalar(ScalarType::VarChar);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

#[test]
fn golden_row() {
    let types = [INT64, TEXT, DataType::Scalar(ScalarType::Bool), DataType::Json];
    let types = [&types[..], &[DataType::Array(ScalarType::VarChar), TEXT]].concat();
    let texts = Array::collect(ScalarType::VarChar, ["x", "yz"].map(ValueRef::VarChar)).unwrap();
    let row = [
        Value::Int64(-2),
        Value::VarChar("abc".into()),
        Value::Bool(true),
        Value::Null,
        Value::Array(texts),
        Value::VarChar(String::new()),
    ];
    let expected = [
        "01000600",         // format 1, six columns
        "07000000",         // schema version 7
        "08",               // the fourth is null
        "feffffffffffffff", // -2
        "03000000",         // the first text ends at 3
        "01",               // true
        "03000000",         // null: ends where it begins
        "12000000",         // the array ends at 18
        "12000000",         // the empty text too
        "616263",           // abc
        "02000000",         // two texts
        "01000000",         // of which one ends at 1
        "03000000",         // the other at 3
        "78797a",           // x, yz
    ];
    assert_eq!(hex(&encode(&layout(&types), &row)), expected.concat());
}

#[test]
fn a_row_of_an_older_schema_reads_with_the_values_named_for_later_columns() {
    let old = layout(&[INT64, TEXT]);
    let bytes = encode(&old, &[Value::Int64(5), Value::VarChar("old".into())]);
    let column = |data_type, absent| RowColumn { data_type, absent };
    let new = RowLayout::new(
        8,
        // More than eight columns, so that the bitmap is longer than the old one.
        [column(INT64, Value::Null), column(TEXT, Value::Null)]
            .into_iter()
            .chain((0..8).map(|i| column(INT64, Value::Int64(i))))
            .chain([column(TEXT, Value::Null)])
            .collect(),
    );
    let row = new.open(&bytes).unwrap();
    row.verify().unwrap();
    assert_eq!(row.schema_version(), 7);
    assert_eq!(row.get(0), Ok(ValueRef::Int64(5)));
    assert_eq!(row.get(1), Ok(ValueRef::VarChar("old")));
    assert_eq!(row.get(9), Ok(ValueRef::Int64(7)));
    assert_eq!(row.get(10), Ok(ValueRef::Null));
}

#[test]
fn a_row_of_a_newer_schema_is_refused_by_name() {
    let bytes = encode(&layout(&[INT64, INT64]), &[Value::Int64(1), Value::Int64(2)]);
    let found = layout(&[INT64]).open(&bytes).unwrap_err();
    assert_eq!(found, RowError::Newer { found: 2, found_version: 7, known: 1, known_version: 7 });
}

#[test]
fn another_format_is_refused_by_name() {
    let layout = layout(&[INT64]);
    let mut bytes = encode(&layout, &[Value::Int64(1)]);
    bytes[0] = 2;
    assert_eq!(layout.open(&bytes).unwrap_err(), RowError::Format { found: 2 });
}

#[test]
fn fixed_columns_are_read_out_of_a_row_whose_variable_parts_are_damaged() {
    let layout = layout(&[TEXT, INT64, DataType::Json, INT64]);
    let text = |t: &str| Value::VarChar(t.into());
    let row = [text("abc"), Value::Int64(3), Value::Json("{}".into()), Value::Int64(4)];
    let mut bytes = encode(&layout, &row);
    let end = bytes.len();
    bytes[end - 5..].fill(0xff);
    let row = layout.open(&bytes).unwrap();
    assert_eq!((row.get(1), row.get(3)), (Ok(ValueRef::Int64(3)), Ok(ValueRef::Int64(4))));
    assert_eq!(row.get(0), Err(RowError::Value { column: 0, data_type: TEXT }));
    assert_eq!(row.get(2), Err(RowError::Value { column: 2, data_type: DataType::Json }));
}

#[test]
fn what_hides_in_a_row_is_found_by_verifying() {
    let layout = layout(&[TEXT, INT64]);
    let text = Value::VarChar("abc".into());
    let whole = encode(&layout, &[text, Value::Int64(1)]);
    let verify = |bytes: &[u8]| layout.open(bytes).and_then(|row| row.verify());
    assert_eq!(verify(&whole), Ok(()));
    let longer = [&whole[..], b"x"].concat();
    assert_eq!(verify(&longer), Err(RowError::Surplus));
    let bitmap = row_header::BYTES;
    let mut surplus_bit = whole.clone();
    surplus_bit[bitmap] = 0b100;
    assert_eq!(verify(&surplus_bit), Err(RowError::Surplus));
    let mut text_behind_a_null = whole;
    text_behind_a_null[bitmap] = 0b001;
    let hidden = Err(RowError::Value { column: 0, data_type: TEXT });
    assert_eq!(verify(&text_behind_a_null), hidden);
}

#[test]
fn a_row_that_is_too_large_leaves_nothing_behind() {
    let layout = layout(&[TEXT, TEXT]);
    let half = "x".repeat(MAX_ROW_BYTES / 2);
    let mut out = b"before".to_vec();
    let found = layout.encode([ValueRef::VarChar(&half), ValueRef::VarChar(&half)], &mut out);
    assert!(matches!(found, Err(RowError::TooLarge { bytes }) if bytes > MAX_ROW_BYTES));
    assert_eq!(out, b"before");
}

#[test]
#[should_panic(expected = "a column of int64 was given Bool(true)")]
fn a_value_of_another_type_is_a_programmers_mistake() {
    encode(&layout(&[INT64]), &[Value::Bool(true)]);
}

#[test]
#[should_panic(expected = "one value per column")]
fn a_missing_value_is_a_programmers_mistake() {
    encode(&layout(&[INT64]), &[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn values_come_back((layout, row) in layout_and_row(), before in 0usize..3) {
        let mut bytes = vec![0xaa; before];
        layout.encode(row.iter().map(Value::as_ref), &mut bytes).unwrap();
        let read = layout.open(&bytes[before..]).unwrap();
        read.verify().unwrap();
        for (i, value) in row.iter().enumerate() {
            let found = read.get(i).unwrap().to_value();
            prop_assert!(same(&found, value), "column {}: {:?} is not {:?}", i, found, value);
        }
    }
}
