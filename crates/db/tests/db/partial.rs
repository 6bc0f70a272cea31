//! Upserts of some fields.

use std::sync::Arc;

use pipeann_db::catalog::{EntryChange, NewCollection};
use pipeann_db::collection::{Collection, CollectionError, RowOrder, RowQuery};
use pipeann_db::database::Database;
use pipeann_db::schema::{Batch, BatchError, FieldSpec, Schema};
use pipeann_db::value::{
    Array, Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, Value, ValueRef,
    VectorKind,
};

use crate::data::{bytes, load, open, place, vector};

fn longs(name: &str, values: &[i64]) -> Column {
    Column::new(name, ColumnValues::Int64(values.to_vec()))
}

fn json(values: &[&str]) -> Column {
    Column::new("$meta", ColumnValues::Json(values.iter().collect::<Texts>()))
}

fn vectors(seeds: &[u32]) -> Column {
    let all: Vec<_> = seeds.iter().map(|seed| vector(*seed)).collect();
    let dense = DenseVectors::new(VectorKind::Float, 4, bytes(&all)).unwrap();
    Column::new("v", ColumnValues::Dense(dense))
}

/// Three rows of keys 1 to 3 with every kind of field that may be kept.
fn filled(database: &Database) -> Arc<Collection> {
    let scalar = |name: &str, scalar| FieldSpec::new(name, DataType::Scalar(scalar));
    let tags = FieldSpec::new("tags", DataType::Array(ScalarType::Int64)).max_capacity(4);
    let schema = Schema::builder()
        .field(scalar("id", ScalarType::Int64).primary_key())
        .field(scalar("n", ScalarType::Int64).nullable())
        .field(scalar("kind", ScalarType::Int64).default_value(Value::Int64(7)))
        .field(tags)
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4))
        .dynamic(true)
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    load(database);
    database
        .apply(EntryChange::CreatePartition { place: place(), partition: "p".to_owned() })
        .unwrap();
    let array = |n| Array::collect(ScalarType::Int64, [ValueRef::Int64(n)]).unwrap();
    let values: Vec<Array> = (1..4).map(array).collect();
    let values: Vec<ValueRef<'_>> =
        values.iter().map(|array| ValueRef::Array(array.as_ref())).collect();
    let tags = ColumnValues::collect(DataType::Array(ScalarType::Int64), 0, &values);
    let columns = vec![
        longs("id", &[1, 2, 3]),
        longs("n", &[10, 20, 30]),
        Column::new("tags", tags),
        vectors(&[1, 2, 3]),
        json(&[r#"{"a":1,"b":{"c":1.0}}"#, "{}", "{}"]),
    ];
    c.insert(Batch { rows: 3, columns }, Some("p")).unwrap();
    c
}

fn row(c: &Collection, id: i64) -> Vec<Value> {
    let key = crate::data::keys(&[id]);
    c.get(&key, &["n", "kind", "tags", "v", "$meta"]).unwrap().remove(0).values
}

#[test]
fn fields_that_are_not_given_stay() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    let before = [row(&c, 1), row(&c, 2), row(&c, 3)];
    let batch = Batch { rows: 2, columns: vec![longs("id", &[3, 1]), longs("kind", &[70, 71])] };
    let outcome = c.upsert_some(batch, None).unwrap();
    assert_eq!((outcome.keys, outcome.replaced), (crate::data::keys(&[3, 1]), 2));
    let with = |row: &[Value], at: usize, value: Value| {
        let mut row = row.to_vec();
        row[at] = value;
        row
    };
    assert_eq!(row(&c, 1), with(&before[0], 1, Value::Int64(71)));
    assert_eq!(row(&c, 2), before[1]);
    assert_eq!(row(&c, 3), with(&before[2], 1, Value::Int64(70)));
    assert_eq!(c.count(Some("p")).unwrap(), 3, "rows stay in their partition");
    // A vector, and a null.
    let null = longs("n", &[0]).with_validity(vec![false]);
    let batch = Batch { rows: 1, columns: vec![vectors(&[9]), longs("id", &[2]), null] };
    c.upsert_some(batch, Some("_default")).unwrap();
    let expected = with(&before[1], 0, Value::Null);
    assert_eq!(row(&c, 2), with(&expected, 3, Value::Vector(bytes(&[vector(9)]))));
    assert_eq!(c.count(Some("p")).unwrap(), 2, "another partition was named");
    assert_eq!(c.count(None).unwrap(), 3);
}

#[test]
fn dynamic_keys_are_taken_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    let given = json(&[r#"{"b":2.50,"z":"ö"}"#, r#"{"q":null}"#]);
    c.upsert_some(Batch { rows: 2, columns: vec![longs("id", &[1, 2]), given] }, None).unwrap();
    assert_eq!(row(&c, 1)[4], Value::Json(r#"{"a":1,"b":2.50,"z":"ö"}"#.to_owned()));
    assert_eq!(row(&c, 2)[4], Value::Json(r#"{"q":null}"#.to_owned()));
    for wrong in ["[1]", "{", r#"{"kind":1}"#] {
        let batch = Batch { rows: 1, columns: vec![longs("id", &[1]), json(&[wrong])] };
        let error = c.upsert_some(batch, None).unwrap_err();
        assert!(matches!(error, CollectionError::Batch(BatchError::Value { .. })), "{error}");
    }
}

#[test]
fn rows_of_new_keys_need_what_an_insert_needs() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    let refused = |columns: Vec<Column>| {
        let rows = columns[0].values.rows();
        c.upsert_some(Batch { rows, columns }, None).unwrap_err().to_string()
    };
    let error = refused(vec![longs("id", &[1, 8]), longs("n", &[1, 2])]);
    assert!(error.contains("tags"), "{error}");
    assert!(refused(vec![longs("n", &[1])]).contains("id"));
    let error = refused(vec![longs("id", &[1, 1]), longs("n", &[1, 2])]);
    assert!(error.contains("same primary key"), "{error}");
    let texts = ColumnValues::VarChar(["1"].iter().collect());
    assert!(refused(vec![Column::new("id", texts)]).contains("id"));
    assert!(refused(vec![longs("id", &[1]), longs("none", &[1])]).contains("none"));
    let query = RowQuery { fields: &["n"], order: RowOrder::Key, ..RowQuery::default() };
    let found: Vec<_> = c.query(&query).unwrap().into_iter().map(|row| row.values).collect();
    assert_eq!(found, [[Value::Int64(10)], [Value::Int64(20)], [Value::Int64(30)]], "as before");
}

#[test]
fn lengths_are_looked_at_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    // Of such a dynamic key it would be said what is wrong with it.
    let wrong = r#"{"kind":1}"#;
    let columns = vec![longs("id", &[1]), json(&[wrong, wrong])];
    let error = c.upsert_some(Batch { rows: 2, columns }, None).unwrap_err();
    let CollectionError::Batch(BatchError::Length { field, expected, found, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!((field.as_str(), *expected, *found), ("id", 2, 1));
}

#[test]
fn updates_of_one_row_by_many_threads_are_all_there() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let c = &c;
            scope.spawn(move || {
                for round in 0..25 {
                    let given = format!(r#"{{"t{thread}r{round}":1}}"#);
                    let columns = vec![longs("id", &[1]), json(&[&given])];
                    c.upsert_some(Batch { rows: 1, columns }, None).unwrap();
                }
            });
        }
    });
    let Value::Json(text) = &row(&c, 1)[4] else { panic!("JSON") };
    assert_eq!(text.matches('t').count(), 100, "{text}");
    assert!(text.starts_with(r#"{"a":1,"b":{"c":1.0},"#), "{text}");
}

#[test]
fn dynamic_keys_stay_whose_name_a_field_has_taken_since() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database);
    let field = FieldSpec::new("a", DataType::Scalar(ScalarType::Int64)).nullable();
    database.apply(EntryChange::AddField { place: place(), field: Box::new(field) }).unwrap();
    let upsert = |columns| c.upsert_some(Batch { rows: 1, columns }, None);
    upsert(vec![longs("id", &[1]), longs("n", &[11])]).unwrap();
    upsert(vec![longs("id", &[1]), longs("a", &[5]), json(&[r#"{"z":2}"#])]).unwrap();
    let key = crate::data::keys(&[1]);
    let found = c.get(&key, &["n", "a", "$meta"]).unwrap().remove(0).values;
    assert_eq!(found[..2], [Value::Int64(11), Value::Int64(5)]);
    let Value::Json(meta) = &found[2] else { panic!("{found:?}") };
    assert!(meta.contains(r#""a":1"#) && meta.contains(r#""z":2"#), "{meta}");
    let error = upsert(vec![longs("id", &[1]), json(&[r#"{"a":3}"#])]).unwrap_err();
    assert!(error.to_string().contains("`a` is the name of a field"), "{error}");
    let long = json(&["{}", "{}"]).with_validity(vec![true]);
    let error = upsert(vec![longs("id", &[1]), long]).unwrap_err();
    assert!(matches!(error, CollectionError::Batch(BatchError::Length { .. })), "{error:?}");
}
