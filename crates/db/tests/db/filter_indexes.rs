//! Filters that are answered from scalar indexes find exactly the rows of which the evaluator says
//! that they match: random filters over rows with nulls, long texts, arrays and JSON, some of them
//! deleted, some not flushed, some older than a field.

use std::collections::BTreeMap;

use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection};
use pipeann_db::collection::{
    Collection, Filter, FilterPlan, FilterRowSource, PrefilterAnswer, RowOrder, RowQuery, Walk,
};
use pipeann_db::database::Database;
use pipeann_db::expr::{RowValues, Templates, compile};
use pipeann_db::schema::{FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Array, DataType, RowError, ScalarType, Value, ValueRef, VectorKind};

use crate::data::open;
use crate::schemas::{Numbers, batch};

const FIELDS: &[&str] =
    &["id", "small", "number", "price", "time", "name", "flag", "tags", "words", "$meta"];

fn schema() -> Schema {
    let scalar = |name: &str, kind| FieldSpec::new(name, DataType::Scalar(kind));
    let array = |name: &str, kind| FieldSpec::new(name, DataType::Array(kind)).max_capacity(8);
    Schema::builder()
        .field(scalar("id", ScalarType::Int64).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .field(scalar("small", ScalarType::Int8).nullable())
        .field(scalar("number", ScalarType::Int64).nullable())
        .field(scalar("price", ScalarType::Double).nullable())
        .field(scalar("time", ScalarType::Timestamptz).nullable())
        .field(scalar("name", ScalarType::VarChar).max_bytes(200).nullable())
        .field(scalar("flag", ScalarType::Bool).nullable())
        .field(array("tags", ScalarType::Int64))
        .field(array("words", ScalarType::VarChar).max_bytes(100))
        .dynamic(true)
        .build()
        .unwrap()
}

/// Texts that are short, or begin like others for longer than keys of indexes are.
fn name(n: u64) -> String {
    match n % 3 {
        0 => format!("name {}", n % 7),
        1 => format!("{}{}", "x".repeat(64), n % 5),
        _ => format!("{}_{}", "ab".repeat((n % 40) as usize), n % 2),
    }
}

fn row(schema: &Schema, key: i64, numbers: &mut Numbers) -> Vec<Value> {
    let arrays = |of, values: &[Value]| {
        Value::Array(Array::collect(of, values.iter().map(Value::as_ref)).unwrap())
    };
    let value = |spec: &FieldSpec, numbers: &mut Numbers| {
        let n = numbers.next();
        if spec.nullable && numbers.one_in(4) {
            return Value::Null;
        }
        match spec.name.as_str() {
            "id" => Value::Int64(key),
            "v" => Value::Vector([key as f32, 1.0].map(f32::to_le_bytes).concat()),
            "small" => Value::Int8((n % 9) as i8 - 4),
            "number" => Value::Int64(
                [i64::MIN, i64::MAX, (n % 300) as i64][numbers.below(9).min(2) as usize],
            ),
            "price" => Value::Double((n % 40) as f64 / 4.0 - 3.0),
            "time" => Value::Timestamptz((n % 50) as i64 * 1_000_000),
            "name" => Value::VarChar(name(n)),
            "flag" => Value::Bool(n.is_multiple_of(2)),
            "tags" => {
                let some: Vec<_> =
                    (0..n % 4).map(|i| Value::Int64(((n >> i) % 6) as i64)).collect();
                arrays(ScalarType::Int64, &some)
            }
            "words" => {
                let some: Vec<_> = (0..n % 3).map(|i| Value::VarChar(name(n >> i))).collect();
                arrays(ScalarType::VarChar, &some)
            }
            "later" => Value::Int64((n % 5) as i64),
            _ => Value::Json(format!("{{\"size\": {}}}", n % 6)),
        }
    };
    schema.fields().iter().map(|field| value(&field.spec, numbers)).collect()
}

/// A condition on one field, or on several.
fn condition(numbers: &mut Numbers, later: bool) -> String {
    let n = numbers.below(300);
    let (few, sign) = (numbers.below(8), ["==", "!=", "<", "<=", ">", ">="]);
    let sign = sign[numbers.below(6) as usize];
    let text = name(numbers.next());
    match numbers.below(if later { 26 } else { 24 }) {
        0 => format!("small {sign} {}", few as i64 - 4),
        1 => format!("number {sign} {n}"),
        2 => format!("number {sign} {n}.5"),
        3 => format!("number {sign} {}1e30", if few < 4 { "-" } else { "" }),
        4 => format!("price {sign} {}", few as i64 - 2),
        5 => format!("price {sign} {few}.25"),
        6 => format!("time {sign} ISO '1970-01-01T00:00:{:02}Z'", n % 50),
        7 => format!("name {sign} '{text}'"),
        8 => format!("name like '{}%'", &text[..text.len().min(few as usize * 10)]),
        9 => format!("name like '%{few}'"),
        10 => format!("name like 'name %{few}'"),
        11 => format!("name like '{text}'"),
        12 => format!("flag == {}", few < 4),
        13 => format!("{few} < number <= {n}"),
        14 => format!("price between {}.1 and {few}", few as i64 - 4),
        15 => format!("number in [{few}, {n}, 7.5]"),
        16 => format!("array_contains(tags, {few})"),
        17 => format!("array_contains_all(tags, [{few}, {}])", n % 6),
        18 => format!("array_contains_any(words, ['{text}', 'name {few}'])"),
        19 => format!("tags[0] == {few}"),
        20 => format!("size {sign} {few}"),
        21 => {
            ["small", "number", "price", "name", "flag", "size"][few as usize % 6].to_owned()
                + if n.is_multiple_of(2) { " is null" } else { " is not null" }
        }
        22 => format!("number + small {sign} {n}"),
        23 => format!("name in ['{text}', 'name 1'] or array_length(tags) == {}", few / 2),
        24 => format!("later {sign} {few}"),
        _ => "later is null".to_owned(),
    }
}

fn expression(numbers: &mut Numbers, later: bool, depth: u32) -> String {
    match (depth, numbers.below(5)) {
        (0, _) | (_, 0) => condition(numbers, later),
        (_, 1) => format!("not ({})", expression(numbers, later, depth - 1)),
        (_, which) => {
            let operator = if which == 2 { "or" } else { "and" };
            let mut part = || expression(numbers, later, depth - 1);
            format!("({}) {operator} ({})", part(), part())
        }
    }
}

/// A row by position of its fields.
struct Values<'a>(&'a BTreeMap<usize, Value>);

impl RowValues for Values<'_> {
    fn value(&self, field: usize) -> Result<ValueRef<'_>, RowError> {
        Ok(self.0[&field].as_ref())
    }
}

/// The rows of which the evaluator says that they match.
fn matching(c: &Collection, expression: &str, rows: &[(i64, BTreeMap<usize, Value>)]) -> Vec<i64> {
    let schema = &c.entry().unwrap().schema;
    let bound = compile(expression, schema, &Templates::new()).unwrap();
    let matches = |row: &BTreeMap<usize, Value>| {
        bound.predicate.evaluate(&Values(row)).unwrap() == Some(true)
    };
    rows.iter().filter(|(_, row)| matches(row)).map(|(key, _)| *key).collect()
}

fn keys(c: &Collection, query: &RowQuery<'_>) -> Vec<i64> {
    let key = |key: &PrimaryKey| match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(_) => unreachable!("keys are integers"),
    };
    c.query(query).unwrap().iter().map(|row| key(&row.key)).collect()
}

fn check(c: &Collection, numbers: &mut Numbers, later: bool, filters: usize) {
    let mut fields = FIELDS.to_vec();
    fields.extend(later.then_some("later"));
    let entry = c.entry().unwrap();
    let position = |name: &&str| {
        entry.schema.fields().iter().position(|field| field.spec.name == **name).unwrap()
    };
    let positions: Vec<usize> = fields.iter().map(position).collect();
    let all = c.query(&RowQuery { fields: &fields, ..RowQuery::default() }).unwrap();
    let rows: Vec<_> = all
        .into_iter()
        .map(|row| {
            let PrimaryKey::Int64(key) = row.key else { unreachable!("keys are integers") };
            (key, positions.iter().copied().zip(row.values).collect())
        })
        .collect();
    let mut matched = 0;
    for _ in 0..filters {
        let expression = expression(numbers, later, 3);
        let expected = matching(c, &expression, &rows);
        matched += expected.len();
        let query = RowQuery { filter: Some(Filter::new(&expression)), ..RowQuery::default() };
        assert_eq!(keys(c, &query), expected, "{expression}");
        let (offset, limit) = (numbers.below(20) as usize, numbers.below(30) as usize);
        let page = RowQuery { offset, limit: Some(limit), order: RowOrder::RowId, ..query };
        let some: Vec<i64> = expected.into_iter().skip(offset).take(limit).collect();
        assert_eq!(keys(c, &page), some, "{limit} from {offset} of {expression}");
    }
    assert!(matched > 0, "no filter matched anything");
}

#[test]
fn indexes_answer_as_the_evaluator_does() {
    let dir = tempfile::tempdir().unwrap();
    let database: Database = open(dir.path());
    let place = CollectionPath::new("default", "c");
    let new = NewCollection::new(schema());
    database
        .apply(EntryChange::CreateCollection { place: place.clone(), new: Box::new(new) })
        .unwrap();
    let c = database.collection("default", "c").unwrap();
    let mut numbers = Numbers::new(11);
    let insert = |keys: std::ops::Range<i64>, numbers: &mut Numbers| {
        let schema = c.entry().unwrap().schema.clone();
        let rows: Vec<_> = keys.map(|key| row(&schema, key, numbers)).collect();
        c.upsert(batch(&schema, &rows, true), None).unwrap();
    };
    insert(0..2500, &mut numbers);
    check(&c, &mut numbers, false, 100);
    c.flush().unwrap();
    c.delete_matching(Filter::new("number % 5 == 1"), None).unwrap();
    insert(2000..3000, &mut numbers);
    check(&c, &mut numbers, false, 200);
    let added = FieldSpec::new("later", DataType::Scalar(ScalarType::Int64)).nullable();
    database.apply(EntryChange::AddField { place, field: Box::new(added) }).unwrap();
    insert(2900..3100, &mut numbers);
    check(&c, &mut numbers, true, 200);
    c.flush().unwrap();
    check(&c, &mut numbers, true, 100);
}

#[test]
fn a_plan_tells_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let database: Database = open(dir.path());
    let place = CollectionPath::new("default", "c");
    let new = NewCollection::new(schema());
    database.apply(EntryChange::CreateCollection { place, new: Box::new(new) }).unwrap();
    let c = database.collection("default", "c").unwrap();
    let mut numbers = Numbers::new(5);
    let schema = c.entry().unwrap().schema.clone();
    let rows: Vec<_> = (0..2000).map(|key| row(&schema, key, &mut numbers)).collect();
    c.insert(batch(&schema, &rows, true), None).unwrap();
    let plan = |expression: &str| {
        let plan = c.explain(Filter::new(expression), None).unwrap();
        let counted = c.count_matching(Filter::new(expression), None).unwrap();
        assert_eq!(plan.matches, counted, "{expression}");
        assert!((plan.estimate.least..=plan.estimate.most).contains(&counted), "{expression}");
        assert_eq!(plan.rows, 2000);
        plan
    };
    let answers =
        |plan: &FilterPlan| plan.conditions.iter().map(|c| c.answered).collect::<Vec<_>>();

    let exact = plan("not (small < 2) and price is not null");
    assert_eq!((exact.source, exact.rows_read), (FilterRowSource::Indexes, 0));
    assert_eq!(answers(&exact), [PrefilterAnswer::Index; 2]);
    assert_eq!(exact.certain, exact.matches);
    assert!(exact.conditions[0].negated && exact.conditions[1].negated);

    let mixed = plan("size == 3 and small == 1");
    assert_eq!(
        answers(&mixed),
        [PrefilterAnswer::Index, PrefilterAnswer::NoIndex],
        "what is exact comes first"
    );
    assert_eq!(mixed.conditions[1].field.as_deref(), Some("$meta[\"size\"]"));
    let ones = plan("small == 1").matches;
    assert_eq!((mixed.certain, mixed.rows_read), (0, ones), "only what the index leaves is read");

    let chained = plan("0 <= small < 2");
    let apart = plan("small >= 0 and not (small >= 2)");
    assert_eq!((apart.matches, apart.rows_read), (chained.matches, 0));
    assert_eq!(answers(&apart), [PrefilterAnswer::Index; 2]);

    let rough = plan("name like 'name %3'");
    assert_eq!(answers(&rough), [PrefilterAnswer::IndexRoughly]);
    assert!(rough.rows_read < 1000 && rough.rows_read >= rough.matches);

    let scan = plan("number + small == 4");
    assert_eq!((scan.source, scan.rows_read), (FilterRowSource::Scan, 2000));
    assert_eq!(scan.conditions[0].field, None);
    let keys = plan("id in [1, 2, 5000] and size >= 0");
    assert_eq!((keys.source, keys.rows_read), (FilterRowSource::Keys, 2));
    let all = plan("");
    assert_eq!((all.source, all.rows_read, all.matches), (FilterRowSource::Constant, 0, 2000));
    assert_eq!((all.searches[0].exact, all.searches[0].linked), (2000, None));
    assert_eq!(all.searches[0].walk, Walk::None);
}
