//! Filters in queries, counts, deletes and searches: what is found is what a scan of a model
//! finds, whatever short cut was taken.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection, NewIndex, Properties};
use pipeann_db::collection::{
    Collection, CollectionError, Filter, FoundRow, QueryVectors, RowOrder, RowQuery, SearchRequest,
};
use pipeann_db::database::Database;
use pipeann_db::expr::{Constant, Templates};
use pipeann_db::ids::{ErrorClass, Metric, VectorType};
use pipeann_db::schema::{Batch, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Column, ColumnValues, DataType, DenseVectors, ScalarType, Texts, Value, VectorKind,
};
use pipeann_engine::memory::Pool;
use pipeann_engine::types::VectorSet;

use crate::data::{open, options};
use crate::schemas::Numbers;

pub(crate) const DIM: usize = 4;
const NAMES: &[&str] = &["red", "green", "blue", "dark red"];

/// A row of the model: what its key says.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: i64,
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    pub(crate) price: Option<f64>,
    pub(crate) size: Option<i64>,
    pub(crate) vector: [f32; DIM],
}

impl Row {
    pub(crate) fn new(key: i64, numbers: &mut Numbers) -> Self {
        let vector = point(numbers);
        Self {
            key,
            number: numbers.below(100) as i64,
            name: NAMES[numbers.below(4) as usize],
            price: (!numbers.one_in(5)).then(|| numbers.below(1000) as f64 / 4.0),
            size: (!numbers.one_in(3)).then(|| numbers.below(10) as i64),
            vector,
        }
    }
}

fn schema(partition_key: bool) -> Schema {
    let scalar = |name: &str, kind| FieldSpec::new(name, DataType::Scalar(kind));
    let name = scalar("name", ScalarType::VarChar).max_bytes(20);
    Schema::builder()
        .field(scalar("id", ScalarType::Int64).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .field(scalar("number", ScalarType::Int32))
        .field(if partition_key { name.partition_key() } else { name })
        .field(scalar("price", ScalarType::Double).nullable())
        .dynamic(true)
        .build()
        .unwrap()
}

pub(crate) fn create(database: &Database, partition_key: bool) -> std::sync::Arc<Collection> {
    let place = CollectionPath::new("default", "c");
    let new = NewCollection::new(schema(partition_key));
    database
        .apply(EntryChange::CreateCollection { place: place.clone(), new: Box::new(new) })
        .unwrap();
    database.apply(EntryChange::Load { place, partitions: None }).unwrap();
    database.collection("default", "c").unwrap()
}

pub(crate) fn batch(rows: &[Row]) -> Batch {
    let names = rows.iter().map(|row| row.name);
    let meta = rows.iter().map(|row| match row.size {
        Some(size) => format!("{{\"size\": {size}}}"),
        None => "{}".to_owned(),
    });
    let bytes = rows.iter().flat_map(|row| row.vector).flat_map(f32::to_le_bytes).collect();
    let vectors = DenseVectors::new(VectorKind::Float, DIM, bytes).unwrap();
    let prices = rows.iter().map(|row| row.price.unwrap_or(0.0)).collect();
    let priced = rows.iter().map(|row| row.price.is_some()).collect();
    let texts = |texts: &mut dyn Iterator<Item = String>| {
        let mut all = Texts::default();
        texts.for_each(|text| all.push(&text));
        all
    };
    Batch {
        rows: rows.len(),
        columns: vec![
            Column::new("id", ColumnValues::Int64(rows.iter().map(|row| row.key).collect())),
            Column::new("v", ColumnValues::Dense(vectors)),
            Column::new("number", ColumnValues::Int64(rows.iter().map(|row| row.number).collect())),
            Column::new("name", ColumnValues::VarChar(texts(&mut names.map(str::to_owned)))),
            Column::new("price", ColumnValues::Double(prices)).with_validity(priced),
            Column::new("$meta", ColumnValues::Json(texts(&mut meta.into_iter()))),
        ],
    }
}

type Test = fn(&Row) -> bool;

/// Expressions, and which rows of the model they mean.
const FILTERS: &[(&str, Test)] = &[
    ("number < 10", |row| row.number < 10),
    ("name == 'red'", |row| row.name == "red"),
    ("name like '%red' and number >= 50", |row| row.name.ends_with("red") && row.number >= 50),
    ("price is null", |row| row.price.is_none()),
    ("not (price > 100)", |row| row.price.is_some_and(|price| price <= 100.0)),
    ("price between 10 and 20.25 or size == 3", |row| {
        row.price.is_some_and(|price| (10.0..=20.25).contains(&price)) || row.size == Some(3)
    }),
    ("size in [1, 2] and name in ['red', 'blue']", |row| {
        matches!(row.size, Some(1 | 2)) && matches!(row.name, "red" | "blue")
    }),
    ("not exists size", |row| row.size.is_none()),
    ("id in [5, 17, 900, 100000]", |row| matches!(row.key, 5 | 17 | 900)),
    ("id == 40 and number >= 0", |row| row.key == 40),
    ("id == 40 or id == 41", |row| matches!(row.key, 40 | 41)),
    ("100 < id <= 110", |row| (101..=110).contains(&row.key)),
    ("name == 'green' and id in [1, 2, 3, 4, 5, 6]", |row| {
        row.name == "green" && (1..=6).contains(&row.key)
    }),
    ("number + size * 2 == 20", |row| row.size.is_some_and(|size| row.number + size * 2 == 20)),
    ("number == 3.5", |_| false),
    ("1 == 1", |_| true),
    ("1 == 2", |_| false),
    ("name == 'nobody'", |_| false),
    ("", |_| true),
];

pub(crate) fn key(row: &FoundRow) -> i64 {
    match row.key {
        PrimaryKey::Int64(key) => key,
        PrimaryKey::VarChar(_) => unreachable!("keys are integers"),
    }
}

pub(crate) fn keys(rows: &[FoundRow]) -> Vec<i64> {
    rows.iter().map(key).collect()
}

/// A search for rows near a point that is given later.
pub(crate) fn near_points(k: usize) -> SearchRequest<'static> {
    SearchRequest::new("v", QueryVectors::new(Vec::new(), DIM, VectorType::F32).unwrap(), k)
}

pub(crate) fn nearest(
    collection: &Collection,
    search: &SearchRequest<'_>,
    near: [f32; DIM],
) -> Vec<(f32, i64)> {
    let bytes: Vec<u8> = near.iter().flat_map(|c| c.to_le_bytes()).collect();
    let queries = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let search = SearchRequest { vectors: queries.into(), ..search.borrowed() };
    let hits = collection.search(&search).unwrap().hits.remove(0);
    hits.iter().map(|hit| (hit.distance, key(&hit.row))).collect()
}

/// Of whole numbers, so that distances are exact in any order of adding.
fn point(numbers: &mut Numbers) -> [f32; DIM] {
    std::array::from_fn(|_| numbers.below(300) as f32)
}

fn distance(a: [f32; DIM], b: [f32; DIM]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Compares everything that takes a filter with the model.
fn compare(c: &Collection, model: &BTreeMap<i64, Row>, numbers: &mut Numbers) {
    for (expression, test) in FILTERS {
        let filter = Filter::new(*expression);
        let expected: Vec<i64> =
            model.values().filter(|row| test(row)).map(|row| row.key).collect();
        let query = RowQuery {
            fields: &["number"],
            filter: Some(filter.clone()),
            order: RowOrder::Key,
            ..RowQuery::default()
        };
        let found = c.query(&query).unwrap();
        assert_eq!(keys(&found), expected, "{expression}");
        for row in &found {
            let number = model[&key(row)].number as i32;
            assert_eq!(row.values, [Value::Int32(number)], "{expression}");
        }
        assert_eq!(
            c.count_matching(filter.clone(), None).unwrap(),
            expected.len() as u64,
            "{expression}"
        );
        let page = RowQuery { offset: 3, limit: Some(4), ..query.clone() };
        let some: Vec<i64> = expected.iter().copied().skip(3).take(4).collect();
        assert_eq!(keys(&c.query(&page).unwrap()), some, "{expression}");
        let by_id = RowQuery { order: RowOrder::RowId, ..query.clone() };
        let all = c.query(&by_id).unwrap();
        assert!(all.is_sorted_by_key(|row| row.row), "{expression}");
        assert_eq!(all.len(), expected.len(), "{expression}");
        let page = RowQuery { order: RowOrder::RowId, ..page };
        let some = all.iter().skip(3).take(4).cloned().collect::<Vec<_>>();
        assert_eq!(c.query(&page).unwrap(), some, "{expression}");
        let middle = RowQuery { rows: Some(1000..2000), ..by_id.clone() };
        let inside = all.iter().filter(|row| (1000..2000).contains(&row.row.0)).cloned();
        assert_eq!(c.query(&middle).unwrap(), inside.collect::<Vec<_>>(), "{expression}");
        if let Some(first) = expected.first() {
            let behind = PrimaryKey::Int64(*first);
            let rest = RowQuery { order: RowOrder::KeyBehind(&behind), ..query.clone() };
            assert_eq!(keys(&c.query(&rest).unwrap()), expected[1..], "{expression}");
        }
        let near = point(numbers);
        let search =
            SearchRequest { metric: Some(Metric::L2), filter: Some(filter), ..near_points(10) };
        let mut exact: Vec<f32> =
            expected.iter().map(|key| distance(near, model[key].vector)).collect();
        exact.sort_by(f32::total_cmp);
        exact.truncate(10);
        let hits = nearest(c, &search, near);
        let found: Vec<f32> = hits.iter().map(|hit| hit.0).collect();
        assert_eq!(found, exact, "{expression}");
        assert!(hits.iter().all(|(_, key)| expected.contains(key)), "{expression}");
    }
}

pub(crate) fn fill(c: &Collection, rows: i64) -> (BTreeMap<i64, Row>, Numbers) {
    let mut numbers = Numbers::new(7);
    let rows: Vec<Row> = (0..rows).map(|key| Row::new(key, &mut numbers)).collect();
    for some in rows.chunks(700) {
        c.insert(batch(some), None).unwrap();
    }
    (rows.into_iter().map(|row| (row.key, row)).collect(), numbers)
}

#[test]
fn filters_find_what_the_model_has() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    for partition_key in [false, true] {
        let c = create(&database, partition_key);
        let (mut model, mut numbers) = fill(&c, 3000);
        compare(&c, &model, &mut numbers);
        c.flush().unwrap();
        let gone = c.delete_matching(Filter::new("number % 7 == 3 or size == 9"), None).unwrap();
        let before = model.len();
        model.retain(|_, row| row.number % 7 != 3 && row.size != Some(9));
        assert_eq!(gone.rows as usize, before - model.len());
        let changed: Vec<Row> = (2500..3500).map(|key| Row::new(key, &mut numbers)).collect();
        c.upsert(batch(&changed), None).unwrap();
        model.extend(changed.into_iter().map(|row| (row.key, row)));
        compare(&c, &model, &mut numbers);
        let place = CollectionPath::new("default", "c");
        database.apply(EntryChange::Release { place: place.clone(), partitions: None }).unwrap();
        drop(c);
        database.apply(EntryChange::DropCollection { place }).unwrap();
    }
}

#[test]
fn searches_of_a_graph_find_as_many_rows_as_match() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let (mut model, mut numbers) = fill(&c, 4000);
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let new =
        NewIndex { field, name, kind: "DISKANN".into(), metric, parameters: Properties::new() };
    database
        .apply(EntryChange::CreateIndex { place: CollectionPath::new("default", "c"), new })
        .unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    assert!(c.index_status("graph").unwrap().linked > 3000, "there is a graph to search");
    let later: Vec<Row> = (3900..4100).map(|key| Row::new(key, &mut numbers)).collect();
    c.upsert(batch(&later), None).unwrap();
    model.extend(later.into_iter().map(|row| (row.key, row)));
    let (mut right, mut wanted) = (0, 0);
    for (expression, test) in FILTERS {
        for _ in 0..10 {
            let near = point(&mut numbers);
            let search =
                SearchRequest { filter: Some(Filter::new(*expression)), ..near_points(10) };
            let hits = nearest(&c, &search, near);
            let among = model.values().filter(|row| test(row));
            let mut exact: Vec<f32> = among.map(|row| distance(near, row.vector)).collect();
            exact.sort_by(f32::total_cmp);
            exact.truncate(10);
            assert_eq!(hits.len(), exact.len(), "{expression}");
            for (far, key) in hits {
                assert!(test(&model[&key]), "{expression} finds row {key}");
                assert_eq!(far, distance(near, model[&key].vector));
                right += usize::from(far <= *exact.last().unwrap());
                wanted += 1;
            }
        }
    }
    assert!(right * 100 >= wanted * 99, "{right} of {wanted}");
}

#[test]
fn a_filter_restricts_partitions_by_name_and_by_key() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, true);
    let (model, _) = fill(&c, 400);
    let partition = c.entry().unwrap().partitions.iter().map(|p| p.name.clone()).find(|name| {
        let some = [name.as_str()];
        c.count_matching(Filter::new("name == 'red'"), Some(&some)).unwrap() > 0
    });
    let partition = partition.unwrap();
    let reds = model.values().filter(|row| row.name == "red").count() as u64;
    let one = [partition.as_str()];
    let count = |filter: &str, names: Option<&[&str]>| {
        c.count_matching(Filter::new(filter), names).unwrap()
    };
    assert_eq!(count("name == 'red'", Some(&one)), reds, "rows of one key are in one partition");
    assert_eq!(count("name in ['red', 'nobody'] and id >= 0", None), reds);
    let others: Vec<String> =
        c.entry().unwrap().partitions.iter().map(|p| p.name.clone()).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).filter(|n| *n != partition).collect();
    assert_eq!(count("name == 'red'", Some(&others)), 0);
    assert_eq!(c.delete_matching(Filter::new("name == 'red'"), Some(&others)).unwrap().rows, 0);
    assert_eq!(c.delete_matching(Filter::new("name == 'red'"), Some(&one)).unwrap().rows, reds);
    assert_eq!(count("", None), 400 - reds);
}

#[test]
fn templates_and_errors_reach_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let (model, _) = fill(&c, 100);
    let list = vec![Constant::Int(3), Constant::Int(4)];
    let templates = Templates::from([("list".to_owned(), Constant::List(list))]);
    let filter =
        Filter { expression: "number in {list}".into(), templates: Cow::Borrowed(&templates) };
    let expected = model.values().filter(|row| matches!(row.number, 3 | 4)).count() as u64;
    assert_eq!(c.count_matching(filter, None).unwrap(), expected);
    let wrong = Filter::new("number == 'x'");
    let errors = [
        c.count_matching(wrong.clone(), None).unwrap_err(),
        c.delete_matching(wrong.clone(), None).unwrap_err(),
        c.query(&RowQuery { filter: Some(wrong.clone()), ..RowQuery::default() }).unwrap_err(),
        c.iterate(&RowQuery { filter: Some(wrong), ..RowQuery::default() }).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, CollectionError::Filter(_)), "{error}");
        assert_eq!(error.class(), ErrorClass::FixInput);
        assert!(error.to_string().starts_with("cannot parse expression: number == 'x'"), "{error}");
    }
    let blank = c.delete_matching(Filter::new(" "), None);
    assert!(matches!(blank, Err(CollectionError::BlankDelete)));
    assert_eq!(c.count(None).unwrap(), 100);
    let added =
        FieldSpec::new("size", DataType::Scalar(ScalarType::VarChar)).max_bytes(9).nullable();
    let change = EntryChange::AddField {
        place: CollectionPath::new("default", "c"),
        field: Box::new(added),
    };
    assert!(c.count_matching(Filter::new("size == 3"), None).is_ok());
    database.apply(change).unwrap();
    let refused = c.count_matching(Filter::new("size == 3"), None);
    assert!(refused.is_err(), "the filter is bound to the field that the name has now");
    assert_eq!(c.delete_matching(Filter::new("true"), None).unwrap().rows, 100);
    assert_eq!(c.count(None).unwrap(), 0);
}

#[test]
fn a_database_that_nobody_asks_returns_what_answers_had_kept() {
    let dir = tempfile::tempdir().unwrap();
    let settings = options();
    let accountant = settings.collection.accountant.clone();
    let database = Database::open(dir.path(), settings).unwrap();
    let c = create(&database, false);
    let (_model, _) = fill(&c, 600);
    c.flush().unwrap();
    let with_buffer = accountant.pool_bytes(Pool::Postings);
    database.trim();
    assert_eq!(accountant.pool_bytes(Pool::Postings), with_buffer, "it was written to");
    database.trim();
    assert!(accountant.pool_bytes(Pool::Postings) < with_buffer, "of {with_buffer} bytes");
    let search = SearchRequest {
        metric: Some(Metric::L2),
        filter: Some(Filter::new("number < 20")),
        ..near_points(10)
    };
    let found = nearest(&c, &search, [5.0; DIM]);
    let kept = accountant.pool_bytes(Pool::Postings);
    database.trim();
    assert_eq!(accountant.pool_bytes(Pool::Postings), kept, "it was asked");
    database.trim();
    assert!(accountant.pool_bytes(Pool::Postings) < kept, "of {kept} bytes");
    assert_eq!(nearest(&c, &search, [5.0; DIM]), found);
    assert_eq!(accountant.pool_bytes(Pool::Postings), kept);
}
