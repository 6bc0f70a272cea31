//! Which batches fit, and what they are completed to.

use super::{BOOL, FLOAT, INT8, INT64, TEXT, batch, floats, ids, schema, texts, vector, vectors};
use crate::schema::{
    Batch, BatchError, CheckedBatch, FieldSpec, PrimaryKeyRef, Schema, VectorPlacement, WriteKind,
    partition_number,
};
use crate::value::{
    Array, Arrays, Blobs, Column, ColumnValues, DataType, DenseVectors, ScalarType, Value,
    ValueRef, VectorKind,
};

fn no_ids() -> i64 {
    panic!("no id is needed");
}

fn check(schema: &Schema, batch: Batch) -> Result<CheckedBatch<'_>, BatchError> {
    schema.check_batch(batch, WriteKind::Insert, no_ids)
}

/// The message for a batch of three rows with this column.
fn refusal(spec: FieldSpec, column: ColumnValues) -> String {
    let column = Column::new(spec.name.clone(), column);
    check(&schema([spec]), batch(3, [column])).unwrap_err().to_string()
}

fn field(data_type: DataType) -> FieldSpec {
    FieldSpec::new("f", data_type)
}

#[test]
fn values_come_back_by_field_and_row() {
    let schema = schema([field(TEXT).max_bytes(5)]);
    let column = Column::new("f", ColumnValues::VarChar(texts(&["a", "", "ääb"])));
    let checked = check(&schema, batch(3, [column])).unwrap();
    assert_eq!(checked.value(2, 2), ValueRef::VarChar("ääb"));
    assert_eq!(checked.key(1), PrimaryKeyRef::Int64(1));
    assert_eq!(checked.vectors(1).unwrap().len(), 3 * 2 * 4);
    assert_eq!(checked.vectors(0), None);
}

#[test]
fn a_batch_has_the_columns_of_its_schema() {
    let schema = schema([field(BOOL)]);
    let of =
        |columns: Vec<Column>| check(&schema, Batch { rows: 1, columns }).unwrap_err().to_string();
    let flag = || Column::new("f", ColumnValues::Bool(vec![true]));
    assert_eq!(
        of(vec![ids(1), flag()]),
        "field `vector` is missing; it is not nullable and has no default"
    );
    assert_eq!(
        of(vec![vectors(1), flag()]),
        "field `id` is missing; it is not nullable and has no default"
    );
    assert_eq!(of(vec![ids(1), vectors(1), flag(), flag()]), "field `f` is given twice");
    let other = Column::new("$meta", ColumnValues::Json(texts(&["{}"])));
    assert_eq!(of(vec![ids(1), vectors(1), other]), "the schema has no field `$meta`");
    let none = Batch { rows: 0, columns: vec![] };
    assert_eq!(check(&schema, none).unwrap_err(), BatchError::Empty);
}

#[test]
fn columns_are_as_long_as_the_batch() {
    let two = ColumnValues::Bool(vec![true; 2]);
    assert_eq!(refusal(field(BOOL), two), "field `f` has 2 values, the batch has 3 rows");
    let schema = schema([field(BOOL).nullable()]);
    let column = Column::new("f", ColumnValues::Bool(vec![true; 3])).with_validity(vec![true; 4]);
    let error = check(&schema, batch(3, [column])).unwrap_err();
    assert_eq!(error.to_string(), "field `f` has 4 marks, the batch has 3 rows");
}

#[test]
fn a_column_of_another_type_is_refused() {
    let text = ColumnValues::VarChar(texts(&["1", "2", "3"]));
    assert_eq!(refusal(field(INT8), text), "field `f` is of type int8, varchar was given");
    let stamps = ColumnValues::Timestamptz(vec![1; 3]);
    assert_eq!(refusal(field(INT64), stamps), "field `f` is of type int64, timestamptz was given");
    let bytes = DenseVectors::new(VectorKind::UInt8, 2, vec![0; 6]).unwrap();
    let found = refusal(vector_field(VectorKind::Float), ColumnValues::Dense(bytes));
    assert_eq!(found, "field `f` is of type float_vector, uint8_vector was given");
    let array = Arrays::new(ScalarType::Int8);
    let found = refusal(field(BOOL), ColumnValues::Array(array));
    assert_eq!(found, "field `f` has 0 values, the batch has 3 rows");
}

fn vector_field(kind: VectorKind) -> FieldSpec {
    field(DataType::Vector(kind)).dim(2)
}

#[test]
fn a_vector_of_another_dimension_is_refused() {
    let bytes = DenseVectors::new(VectorKind::Float, 3, vec![0; 36]).unwrap();
    let found = refusal(vector_field(VectorKind::Float), ColumnValues::Dense(bytes));
    assert_eq!(found, "field `f` has dimension 2, vectors of 3 were given");
}

#[test]
fn integers_of_another_width_are_taken_where_they_fit() {
    let narrow = schema([field(INT8)]);
    let column = |values: &[i64]| Column::new("f", ColumnValues::Int64(values.to_vec()));
    let checked = check(&narrow, batch(2, [column(&[-128, 127])])).unwrap();
    assert_eq!(checked.value(2, 0), ValueRef::Int8(-128));
    let found = refusal(field(INT8), ColumnValues::Int64(vec![0, 128, -129]));
    assert_eq!(found, "field `f`, row 1: 128 is out of the range of int8");
    let wide = schema([field(INT64)]);
    let column = Column::new("f", ColumnValues::Int8(vec![-1]));
    let checked = check(&wide, batch(1, [column])).unwrap();
    assert_eq!(checked.value(2, 0), ValueRef::Int64(-1));
}

#[test]
fn each_value_that_does_not_fit_is_named() {
    let json = |third: &str| ColumnValues::Json(texts(&["1", "{}", third]));
    let long = format!("\"{}\"", "x".repeat(65_535));
    let mut arrays = Arrays::new(ScalarType::VarChar);
    for array in [&["a"][..], &[], &["b", "ccc"]] {
        let values = array.iter().map(|t| ValueRef::VarChar(t));
        arrays.push(&Array::collect(ScalarType::VarChar, values).unwrap());
    }
    let of_texts = field(DataType::Array(ScalarType::VarChar));
    let sparse: Blobs = [&[][..], &[0; 8], &[0; 9]].into_iter().collect();
    for (spec, column, expected) in [
        (
            field(TEXT).max_bytes(3),
            ColumnValues::VarChar(texts(&["abc", "ää", "é"])),
            "field `f`, row 1: the text has 4 bytes, the field takes 3",
        ),
        (
            field(FLOAT),
            ColumnValues::Float(vec![0.0, f32::NEG_INFINITY, f32::NAN]),
            "field `f`, row 1: NaN and infinity are not accepted",
        ),
        (
            field(DataType::Scalar(ScalarType::Double)),
            ColumnValues::Double(vec![0.0, 1.0, f64::NAN]),
            "field `f`, row 2: NaN and infinity are not accepted",
        ),
        (
            vector_field(VectorKind::Float),
            floats(&[0.0, 1.0, 2.0, f32::NAN, 3.0, 4.0]),
            "field `f`, row 1: NaN and infinity are not accepted",
        ),
        (
            field(DataType::Json),
            json("{"),
            "field `f`, row 2: not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            field(DataType::Json),
            json(&long),
            "field `f`, row 2: the JSON text has 65537 bytes, 65536 are possible",
        ),
        (
            of_texts.clone().max_bytes(2).max_capacity(2),
            ColumnValues::Array(arrays.clone()),
            "field `f`, row 2: element 1: the text has 3 bytes, the field takes 2",
        ),
        (
            of_texts.max_bytes(3).max_capacity(1),
            ColumnValues::Array(arrays),
            "field `f`, row 2: the array has 2 elements, the field takes 1",
        ),
        (
            field(DataType::Vector(VectorKind::Sparse)),
            ColumnValues::Sparse(sparse),
            "field `f`, row 2: 9 bytes are no whole number of pairs of 4-byte index and 4-byte value",
        ),
    ] {
        assert_eq!(refusal(spec, column), expected);
    }
}

#[test]
fn nulls_and_missing_fields_take_the_default_or_stay_null() {
    let default = || Value::Int8(9);
    let named = |name: &str| FieldSpec::new(name, INT8);
    let specs = [
        named("null").nullable(),
        named("both").nullable().default_value(default()),
        named("only_default").default_value(default()),
    ];
    let schema = schema(specs);
    let given = |name: &str| {
        Column::new(name, ColumnValues::Int8(vec![1, 2])).with_validity(vec![true, false])
    };
    let columns = ["null", "both", "only_default"].map(given);
    let values = |checked: &CheckedBatch<'_>, row| {
        [2, 3, 4].map(|field| checked.value(field, row).integer())
    };
    let checked = check(&schema, batch(2, columns)).unwrap();
    assert_eq!(values(&checked, 0), [Some(1), Some(1), Some(1)]);
    assert_eq!(values(&checked, 1), [None, Some(9), Some(9)]);
    let checked = check(&schema, batch(2, [])).unwrap();
    assert_eq!(values(&checked, 0), [None, Some(9), Some(9)]);
}

#[test]
fn a_null_where_a_value_is_needed_is_named() {
    let schema = schema([field(INT8)]);
    let column = Column::new("f", ColumnValues::Int8(vec![0; 3]));
    let column = column.with_validity(vec![true, true, false]);
    let error = check(&schema, batch(3, [column])).unwrap_err();
    assert_eq!(error, BatchError::Null { field: "f".into(), row: 2 });
    let null_key = Batch { rows: 1, columns: vec![ids(1).with_validity(vec![false]), vectors(1)] };
    let error = check(&schema, null_key).unwrap_err();
    assert_eq!(error, BatchError::Null { field: "id".into(), row: 0 });
}

#[test]
fn what_stands_where_there_is_no_value_is_not_looked_at() {
    let schema = schema([field(TEXT).max_bytes(1).nullable()]);
    let column = Column::new("f", ColumnValues::VarChar(texts(&["a", "too long"])));
    let checked = check(&schema, batch(2, [column.with_validity(vec![true, false])])).unwrap();
    assert_eq!(checked.value(2, 1), ValueRef::Null);
}

#[test]
fn dynamic_keys_are_an_object_that_shadows_no_field() {
    let schema =
        Schema::builder().field(super::id()).field(vector()).dynamic(true).build().unwrap();
    let check = |text: &str| {
        let column = Column::new("$meta", ColumnValues::Json(texts(&["{}", text])));
        check(&schema, batch(2, [column])).map(|checked| checked.value(2, 1).to_value())
    };
    let kept = r#"{"b":1.0, "a":{"id":1}}"#;
    assert_eq!(check(kept), Ok(Value::Json(kept.into())));
    for (text, expected) in [
        (r#"{"\u0069d":1}"#, "the dynamic key `id` is the name of a field; give it as that field"),
        (r#"{"$meta":1}"#, "the dynamic key `$meta` is the name of a field; give it as that field"),
        ("[]", "a JSON object is needed, not another JSON value"),
    ] {
        let error = check(text).unwrap_err().to_string();
        assert_eq!(error, format!("field `$meta`, row 1: {expected}"));
    }
}

#[test]
fn rows_without_dynamic_keys_hold_an_empty_object() {
    let schema =
        Schema::builder().field(super::id()).field(vector()).dynamic(true).build().unwrap();
    let checked = check(&schema, batch(1, [])).unwrap();
    assert_eq!(checked.value(2, 0), ValueRef::Json("{}"));
    let null = Column::new("$meta", ColumnValues::Json(texts(&["1"]))).with_validity(vec![false]);
    let checked = check(&schema, batch(1, [null])).unwrap();
    assert_eq!(checked.value(2, 0), ValueRef::Json("{}"));
}

#[test]
fn automatic_keys_come_from_the_caller_in_order() {
    let key = FieldSpec::new("key", TEXT).auto_id().max_bytes(20);
    let schema = Schema::builder().field(key).field(vector()).build().unwrap();
    let batch = || Batch { rows: 2, columns: vec![vectors(2)] };
    let mut next = 40..;
    let checked = schema.check_batch(batch(), WriteKind::Insert, || next.next().unwrap()).unwrap();
    assert_eq!(checked.key(0), PrimaryKeyRef::VarChar("40"));
    assert_eq!(checked.key(1), PrimaryKeyRef::VarChar("41"));
    let error = schema.check_batch(batch(), WriteKind::Upsert, no_ids).unwrap_err();
    assert_eq!(error, BatchError::MissingField { field: "key".into() });
}

#[test]
fn automatic_keys_are_given_in_an_upsert_only() {
    let key = FieldSpec::new("key", INT64).auto_id();
    let schema = Schema::builder().field(key).field(vector()).build().unwrap();
    let keys = Column::new("key", ColumnValues::Int64(vec![7]));
    let batch = Batch { rows: 1, columns: vec![keys, vectors(1)] };
    let error = schema.check_batch(batch.clone(), WriteKind::Insert, no_ids).unwrap_err();
    assert_eq!(error, BatchError::AssignedKey { field: "key".into() });
    let checked = schema.check_batch(batch, WriteKind::Upsert, no_ids).unwrap();
    assert_eq!(checked.key(0), PrimaryKeyRef::Int64(7));
}

#[test]
fn a_refused_batch_uses_no_ids() {
    let key = FieldSpec::new("key", INT64).auto_id();
    let schema = Schema::builder().field(key).field(vector()).build().unwrap();
    let bad = Column::new("vector", floats(&[f32::NAN, 0.0]));
    let batch = Batch { rows: 1, columns: vec![bad] };
    assert!(schema.check_batch(batch, WriteKind::Insert, no_ids).is_err());
}

#[test]
fn rows_have_the_partition_of_their_key() {
    let schema = schema([field(INT64).partition_key()]);
    let column = Column::new("f", ColumnValues::Int64(vec![5, 6]));
    let checked = check(&schema, batch(2, [column])).unwrap();
    let expected = partition_number(PrimaryKeyRef::Int64(6), 16);
    assert_eq!(checked.partition(1, 16), Some(expected));
    assert_eq!(check(&super::schema([]), batch(1, [])).unwrap().partition(0, 16), None);
}

#[test]
fn a_row_reads_back_under_a_later_schema() {
    let first = schema([field(TEXT).max_bytes(9)]);
    let column = Column::new("f", ColumnValues::VarChar(texts(&["x", "y"])));
    let checked = check(&first, batch(2, [column])).unwrap();
    let mut bytes = Vec::new();
    checked.encode_row(&first.row_format(VectorPlacement::Apart), 1, &mut bytes).unwrap();
    let added = FieldSpec::new("added", INT8).default_value(Value::Int8(3));
    let second = first.with_field(added).unwrap().with_dynamic_field().unwrap();
    let format = second.row_format(VectorPlacement::Apart);
    let row = format.layout().open(&bytes).unwrap();
    let value = |name| row.get(format.column_of(second.position(name).unwrap()).unwrap()).unwrap();
    assert_eq!(value("id"), ValueRef::Int64(1));
    assert_eq!(value("f"), ValueRef::VarChar("y"));
    assert_eq!(value("added"), ValueRef::Int8(3));
    assert_eq!(value("$meta"), ValueRef::Json("{}"));
}
