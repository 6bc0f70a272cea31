//! Bad input changes nothing and is told by field and row.

use pipeann_db::catalog::NewCollection;
use pipeann_db::collection::{Collection, SearchRequest};
use pipeann_db::ids::{ErrorClass, Metric, VectorType};
use pipeann_db::schema::limits::MAX_KEY_BYTES;
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, VectorKind,
};
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, batch, bytes, create, keys, open, rows, vector};

fn with(field: &str, values: ColumnValues) -> Batch {
    let mut batch = batch(&[(1, 1), (2, 2)]);
    batch.columns.retain(|column| column.field != field);
    batch.columns.push(Column::new(field, values));
    batch
}

fn vectors(dim: usize, components: &[f32]) -> ColumnValues {
    let bytes = components.iter().flat_map(|c| c.to_le_bytes()).collect();
    ColumnValues::Dense(DenseVectors::new(VectorKind::Float, dim, bytes).unwrap())
}

/// The message for a batch, after it has been found to change nothing.
fn refused(c: &Collection, batch: Batch) -> String {
    let before = (rows(c), c.stats());
    let inserted = c.insert(batch.clone(), None).unwrap_err();
    let upserted = c.upsert(batch, None).unwrap_err();
    assert_eq!(inserted.to_string(), upserted.to_string());
    assert_eq!(inserted.class(), ErrorClass::FixInput);
    assert_eq!((rows(c), c.stats()), before);
    inserted.to_string()
}

#[test]
fn batches_that_do_not_fit_the_schema_are_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 5)]), None).unwrap();
    let nan = refused(&c, with("v", vectors(DIM, &[0.0, 1.0, 2.0, 3.0, 4.0, f32::NAN, 6.0, 7.0])));
    assert!(nan.starts_with("field `v`, row 1:"), "{nan}");
    let far = refused(&c, with("v", vectors(DIM, &[0.0, 1.0, 2.0, 3.0, 3e38, 5.0, 6.0, 7.0])));
    assert!(far.starts_with("field `v`, row 1: the squared norm"), "{far}");
    let dimension = refused(&c, with("v", vectors(2, &[0.0, 1.0, 2.0, 3.0])));
    assert!(dimension.contains("`v` has dimension 4, vectors of 2"), "{dimension}");
    let long = ["ok".to_owned(), "far too long for this".to_owned()];
    let long = refused(&c, with("note", ColumnValues::VarChar(long.into_iter().collect())));
    assert!(long.starts_with("field `note`, row 1:"), "{long}");
    let mut missing = batch(&[(1, 1)]);
    missing.columns.retain(|column| column.field != "note");
    let missing = refused(&c, missing);
    assert!(missing.starts_with("field `note` is missing"), "{missing}");
    let unknown = refused(&c, with("other", ColumnValues::Bool(vec![true, false])));
    assert!(unknown.contains("no field `other`"), "{unknown}");
    let kind = refused(&c, with("id", ColumnValues::Double(vec![1.0, 2.0])));
    assert!(kind.starts_with("field `id` is of type int64"), "{kind}");
    let ragged = refused(&c, with("id", ColumnValues::Int64(vec![1])));
    assert!(ragged.contains("the batch has 2 rows"), "{ragged}");
    let empty = refused(&c, Batch { rows: 0, columns: Vec::new() });
    assert_eq!(empty, "the batch has no rows");
    let nowhere = c.insert(batch(&[(3, 3)]), Some("nowhere")).unwrap_err();
    assert!(nowhere.to_string().contains("partition=nowhere"), "{nowhere}");
    assert_eq!(rows(&c), [(1, 5)]);
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    let text = [PrimaryKey::Int64(1), PrimaryKey::VarChar("1".into())];
    for refused in [c.get(&text, &[]).unwrap_err(), c.delete(&text).unwrap_err()] {
        assert!(refused.to_string().contains("key 1 is of type VarChar"), "{refused}");
    }
    assert!(c.get(&keys(&[1]), &["other"]).unwrap_err().to_string().contains("`other`"));
    let search = |field, metric, query: &[u8], dim| {
        let queries = VectorSet::new(query, dim, VectorType::F32).unwrap();
        let search = SearchRequest { metric, ..SearchRequest::new(field, queries, 1) };
        c.search(&search).unwrap_err().to_string()
    };
    let query = bytes(&[vector(1)]);
    let l2 = Some(Metric::L2);
    assert!(search("note", l2, &query, DIM).contains("`note`"));
    assert!(search("v", None, &query, DIM).contains("has to name a metric"));
    assert!(search("v", l2, &query, 2).contains("queries of 2 f32 for field `v`, which has 4 f32"));
    let nan = bytes(&[vector(1), [f32::INFINITY; DIM]]);
    assert_eq!(search("v", l2, &nan, DIM), "query 1 for field `v`: it holds NaN or infinity");
    let far = bytes(&[vector(1), [3e38; DIM]]);
    assert!(search("v", l2, &far, DIM).ends_with("its squared norm is more than an f32 holds"));
}

#[test]
fn a_collection_that_is_not_loaded_is_not_searched() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let place = crate::data::place();
    database.apply(pipeann_db::catalog::EntryChange::Release { place, partitions: None }).unwrap();
    let query = bytes(&[vector(1)]);
    let queries = VectorSet::new(&query, DIM, VectorType::F32).unwrap();
    let metric = Some(Metric::L2);
    let search = SearchRequest { metric, ..SearchRequest::new("v", queries, 1) };
    let refused = c.search(&search).unwrap_err().to_string();
    assert_eq!(refused, "the collection or partition `c` is not loaded; load it first");
}

#[test]
fn keys_that_no_row_can_have_are_refused_before_they_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let text = DataType::Scalar(ScalarType::VarChar);
    let schema = Schema::builder()
        .field(FieldSpec::new("id", text).max_bytes(65_535).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4))
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    let batch = |key: &str| {
        let dense = DenseVectors::new(VectorKind::Float, 4, bytes(&[vector(1)])).unwrap();
        let ids = Column::new("id", ColumnValues::VarChar([key].iter().collect::<Texts>()));
        Batch { rows: 1, columns: vec![ids, Column::new("v", ColumnValues::Dense(dense))] }
    };
    let most = MAX_KEY_BYTES - 2;
    for long in ["x".repeat(most + 1), "\0".repeat(most / 2 + 1)] {
        let error = c.insert(batch(&long), None).unwrap_err();
        assert!(error.to_string().contains("the primary key takes"), "{error}");
        c.upsert(batch(&long), None).unwrap_err();
        // A row that there cannot be is not there.
        let key = [PrimaryKey::VarChar(long)];
        assert!(c.get(&key, &[]).unwrap().is_empty());
        assert_eq!(c.delete(&key).unwrap().rows, 0);
    }
    let far = [PrimaryKey::VarChar("x".repeat(70_000))];
    assert!(c.get(&far, &[]).unwrap().is_empty());
    let longest = "x".repeat(most);
    c.insert(batch(&longest), None).unwrap();
    drop(c);
    drop(database);
    let database = open(dir.path());
    let c = crate::data::collection(&database);
    assert_eq!(c.get(&[PrimaryKey::VarChar(longest)], &[]).unwrap().len(), 1);
}
