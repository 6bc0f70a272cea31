//! Random operations on collections of every schema, against lists in memory.
//!
//! A failure prints its seed; `one_seed(name, seed)` repeats it.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use pipeann_db::catalog::{EntryChange, NewCollection, NewIndex, Properties};
use pipeann_db::collection::{Collection, FoundRow, RowQuery, SearchRequest};
use pipeann_db::database::Database;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::{FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{Value, VectorKind};
use pipeann_engine::distance::QueryDistance;
use pipeann_engine::types::VectorSet;

use crate::data::{collection, load, options, place};
use crate::schemas::{self, Numbers};

const STEPS: usize = 150;
const SEEDS: u64 = 4;
/// Searches of graphs that are compared have to find this share of what exact ones find.
const RECALL: f64 = 0.97;
/// Partitions that come and go, beside the default one.
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: u64,
    key: PrimaryKey,
    partition: Option<&'static str>,
    values: Vec<Value>,
}

/// A collection, and what it should hold: rows by ascending id.
struct Pair<'d> {
    dir: &'d Path,
    /// `None` for a moment while it is opened again.
    database: Option<Database>,
    schema: Schema,
    rows: Vec<Row>,
    next_row: u64,
    partitions: BTreeSet<&'static str>,
    /// Fields that have a graph.
    indexed: BTreeSet<String>,
    /// Of searches in graphs: rows found that an exact search finds, and rows that one finds.
    found: (usize, usize),
    numbers: Numbers,
}

/// Graphs of a few rows, so that they are met.
fn open(dir: &Path) -> Database {
    let mut options = options();
    options.collection.graph.least_rows = 15;
    Database::open(dir, options).unwrap()
}

impl<'d> Pair<'d> {
    fn new(dir: &'d Path, schema: Schema, seed: u64) -> Self {
        let database = open(dir);
        let new = NewCollection { partitions: None, ..NewCollection::new(schema.clone()) };
        database.create_collection("default", "c", new).unwrap();
        load(&database);
        Self {
            dir,
            database: Some(database),
            schema,
            rows: Vec::new(),
            next_row: 0,
            partitions: BTreeSet::new(),
            indexed: BTreeSet::new(),
            found: (0, 0),
            numbers: Numbers::new(seed),
        }
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open between steps")
    }

    fn collection(&self) -> Arc<Collection> {
        collection(self.database())
    }

    fn is_automatic(&self) -> bool {
        self.schema.primary_key().spec.auto_id
    }

    /// A partition to write to; rows with a partition key find theirs themselves.
    fn partition(&mut self) -> Option<&'static str> {
        let some: Vec<_> = self.partitions.iter().copied().collect();
        let at = self.numbers.below(some.len() as u64 + 1) as usize;
        some.get(at).copied()
    }

    /// One to five rows, the keys of an upsert without repetition.
    fn new_rows(&mut self, distinct: bool) -> Vec<(PrimaryKey, Vec<Value>)> {
        let (mut seen, mut rows) = (BTreeSet::new(), Vec::new());
        for _ in 0..=self.numbers.below(5) {
            let key = schemas::key(&self.schema, &mut self.numbers);
            if !distinct || seen.insert(format!("{key:?}")) {
                let values = schemas::row(&self.schema, &key, &mut self.numbers);
                rows.push((key, values));
            }
        }
        rows
    }

    fn insert(&mut self) {
        let (partition, mut rows) = (self.partition(), self.new_rows(false));
        let values: Vec<_> = rows.iter().map(|row| row.1.clone()).collect();
        let batch = schemas::batch(&self.schema, &values, !self.is_automatic());
        let outcome = self.collection().insert(batch, partition).unwrap();
        if self.is_automatic() {
            self.pass_taken_keys(rows.len() as i64);
            let at = self.schema.primary_key_position();
            for (id, row) in (self.next_row..).zip(&mut rows) {
                row.0 = PrimaryKey::Int64(id as i64 + 1);
                row.1[at] = Value::Int64(id as i64 + 1);
            }
        }
        assert!(outcome.keys.iter().eq(rows.iter().map(|row| &row.0)));
        assert_eq!((outcome.rows.start, outcome.replaced), (self.next_row, 0));
        self.added(rows, partition);
    }

    /// Row ids whose keys upserts have brought are given to nobody.
    fn pass_taken_keys(&mut self, rows: i64) {
        let taken = |key: &i64| self.rows.iter().any(|row| row.key == PrimaryKey::Int64(*key));
        let mut first = self.next_row as i64 + 1;
        while let Some(key) = (first..first + rows).rev().find(taken) {
            first = key + 1;
        }
        self.next_row = first as u64 - 1;
    }

    fn upsert(&mut self) {
        let (partition, rows) = (self.partition(), self.new_rows(true));
        let values: Vec<_> = rows.iter().map(|row| row.1.clone()).collect();
        let batch = schemas::batch(&self.schema, &values, true);
        let outcome = self.collection().upsert(batch, partition).unwrap();
        let before = self.rows.len();
        self.rows.retain(|old| !rows.iter().any(|new| new.0 == old.key));
        assert_eq!(outcome.replaced as usize, before - self.rows.len());
        self.added(rows, partition);
    }

    fn added(&mut self, rows: Vec<(PrimaryKey, Vec<Value>)>, partition: Option<&'static str>) {
        let default_of = |at: usize| self.schema.fields()[at].spec.fallback().to_value();
        for (key, mut values) in rows {
            for (at, value) in values.iter_mut().enumerate() {
                if *value == Value::Null {
                    *value = default_of(at);
                }
            }
            self.rows.push(Row { id: self.next_row, key, partition, values });
            self.next_row += 1;
        }
    }

    fn delete(&mut self) {
        let keys: Vec<_> = (0..=self.numbers.below(4))
            .map(|_| schemas::key(&self.schema, &mut self.numbers))
            .collect();
        let deleted = self.collection().delete(&keys).unwrap().rows as usize;
        let before = self.rows.len();
        self.rows.retain(|row| !keys.contains(&row.key));
        assert_eq!(deleted, before - self.rows.len());
    }

    fn change_partitions(&mut self) {
        if self.schema.partition_key_position().is_some() {
            return;
        }
        let name = NAMES[self.numbers.below(3) as usize];
        let (place, partition) = (place(), name.to_owned());
        if self.partitions.insert(name) {
            self.database().apply(EntryChange::CreatePartition { place, partition }).unwrap();
        } else {
            self.partitions.remove(name);
            self.database()
                .apply(EntryChange::Release { place: place.clone(), partitions: None })
                .unwrap();
            self.database().apply(EntryChange::DropPartition { place, partition }).unwrap();
            load(self.database());
            self.rows.retain(|row| row.partition != Some(name));
        }
    }

    /// Builds a graph, or drops one.
    fn change_index(&mut self) {
        let fields = self.schema.fields().iter().filter(|field| vectors_of(&field.spec).is_some());
        let names: Vec<_> = fields.map(|field| field.spec.name.clone()).collect();
        let field = names[self.numbers.below(names.len() as u64) as usize].clone();
        let (place, name) = (place(), format!("graph of {field}").replace(' ', "_"));
        if !self.indexed.insert(field.clone()) {
            self.indexed.remove(&field);
            let release = EntryChange::Release { place: place.clone(), partitions: None };
            self.database().apply(release).unwrap();
            self.database().apply(EntryChange::DropIndex { place, index: name }).unwrap();
            load(self.database());
            return;
        }
        let spec = self.schema.field(&field).map(|field| &field.spec);
        let (_, vector_type) = spec.and_then(vectors_of).expect("a field with vectors");
        let metric = Some(metrics_of(vector_type)[0]);
        let (kind, parameters) = ("DISKANN".into(), Properties::new());
        let new = NewIndex { field, name: Some(name.clone()), kind, metric, parameters };
        self.database().apply(EntryChange::CreateIndex { place, new }).unwrap();
        self.collection().build_index(&name).unwrap();
        if self.numbers.one_in(2) {
            self.collection().wait_for_index(&name).unwrap();
        }
    }

    fn reopen(&mut self) {
        self.database = None;
        self.database = Some(open(self.dir));
    }

    fn step(&mut self) {
        match self.numbers.below(22) {
            0..=6 => self.insert(),
            7..=11 => self.upsert(),
            12..=15 => self.delete(),
            16 => self.change_partitions(),
            17 => drop(self.collection().flush().unwrap()),
            18 => self.reopen(),
            19 => self.change_index(),
            _ => self.check_searches(),
        }
        self.check_rows();
    }

    fn check_rows(&mut self) {
        let c = self.collection();
        assert_eq!(c.count(None).unwrap(), self.rows.len() as u64);
        let names: Vec<&str> =
            self.schema.fields().iter().map(|field| field.spec.name.as_str()).collect();
        let all = c.query(&RowQuery { fields: &names, ..RowQuery::default() }).unwrap();
        assert_same(&all, self.rows.iter());
        let (start, end) =
            (self.numbers.below(self.next_row + 1), self.next_row - self.next_row / 4);
        let limit = self.numbers.below(9) as usize;
        let rows = Some(start..end.max(start));
        let some = RowQuery {
            fields: &names,
            rows: rows.clone(),
            limit: Some(limit),
            ..RowQuery::default()
        };
        let within = self.rows.iter().filter(|row| rows.as_ref().unwrap().contains(&row.id));
        assert_same(&c.query(&some).unwrap(), within.take(limit));
        for name in &self.partitions {
            let here: Vec<_> = self.rows.iter().filter(|row| row.partition == Some(name)).collect();
            assert_eq!(c.count(Some(name)).unwrap(), here.len() as u64);
            let query =
                RowQuery { fields: &names, partitions: Some(&[*name]), ..RowQuery::default() };
            assert_same(&c.query(&query).unwrap(), here.into_iter());
        }
        let key = schemas::key(&self.schema, &mut self.numbers);
        let newest = self.rows.iter().rfind(|row| row.key == key);
        assert_same(&c.get(&[key], &names).unwrap(), newest.into_iter());
    }

    /// Searches of each field that can be searched, in all partitions or in one.
    fn check_searches(&mut self) {
        for (at, field) in self.schema.clone().fields().iter().enumerate() {
            let Some((kind, vector_type)) = vectors_of(&field.spec) else { continue };
            let dim = field.spec.dim.unwrap();
            let query = schemas::vector(kind, dim, &mut self.numbers);
            let partition = self.partition();
            let k = 1 + self.numbers.below(12) as usize;
            let metrics = metrics_of(vector_type);
            let either = metrics[self.numbers.below(2) as usize];
            let indexed = self.indexed.contains(&field.spec.name);
            let metric = if indexed { metrics[0] } else { either };
            self.check_search(at, &query, (dim as usize, vector_type), (k, metric, partition));
        }
    }

    fn check_search(
        &mut self,
        at: usize,
        query: &[u8],
        (dim, vector_type): (usize, VectorType),
        (k, metric, partition): (usize, Metric, Option<&'static str>),
    ) {
        let distance = QueryDistance::new(metric, vector_type, query);
        let far = |row: &Row| match &row.values[at] {
            Value::Vector(vector) => distance.distance(vector),
            other => unreachable!("a vector, not {other:?}"),
        };
        let among =
            self.rows.iter().filter(|row| partition.is_none() || row.partition == partition);
        let mut nearest: Vec<(f32, &Row)> = among.map(|row| (far(row), row)).collect();
        nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut seen = HashSet::new();
        nearest.retain(|(_, row)| seen.insert(&row.key));
        nearest.truncate(k);
        let one = partition.map(|name| [name]);
        let set = VectorSet::new(query, dim, vector_type).unwrap();
        let search = SearchRequest {
            metric: Some(metric),
            partitions: one.map(Into::into),
            ..SearchRequest::new(&*self.schema.fields()[at].spec.name, set, k)
        };
        let hits = self.collection().search(&search).unwrap().hits.remove(0);
        let found: Vec<f32> = hits.iter().map(|hit| hit.distance).collect();
        let exact: Vec<f32> = nearest.iter().map(|near| near.0).collect();
        let farthest = exact.last().copied().unwrap_or_default();
        let right = found.iter().filter(|distance| **distance <= farthest).count();
        assert_eq!(found.len(), exact.len());
        if self.indexed.contains(&self.schema.fields()[at].spec.name) {
            self.found = (self.found.0 + right, self.found.1 + exact.len());
        } else {
            assert_eq!(found, exact);
        }
        let keys: HashSet<_> = hits.iter().map(|hit| &hit.row.key).collect();
        assert_eq!(keys.len(), hits.len(), "a key comes twice");
        for hit in &hits {
            let row = self.rows.iter().find(|row| row.id == hit.row.row.0).expect("it lives");
            assert_eq!((far(row), &row.key), (hit.distance, &hit.row.key));
            assert!(partition.is_none() || row.partition == partition);
        }
    }
}

/// Kind and type of a field's vectors, if they can be searched.
fn vectors_of(spec: &FieldSpec) -> Option<(VectorKind, VectorType)> {
    let kind = spec.data_type.vector_kind()?;
    Some((kind, kind.engine_type()?))
}

/// Two metrics for vectors of a type; indexes have the first.
fn metrics_of(vector_type: VectorType) -> [Metric; 2] {
    match vector_type {
        VectorType::Binary => [Metric::Hamming, Metric::Jaccard],
        _ => [Metric::L2, Metric::InnerProduct],
    }
}

fn assert_same<'r>(found: &[FoundRow], expected: impl Iterator<Item = &'r Row>) {
    let expected: Vec<_> = expected.map(|row| (row.id, &row.key, &row.values)).collect();
    let found: Vec<_> = found.iter().map(|row| (row.row.0, &row.key, &row.values)).collect();
    assert_eq!(found, expected);
}

fn one_seed(schema: &Schema, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(dir.path(), schema.clone(), seed);
    for _ in 0..STEPS {
        pair.step();
    }
    assert_eq!(pair.collection().verify().unwrap(), []);
    let (right, wanted) = pair.found;
    assert!(right as f64 >= wanted as f64 * RECALL, "{right} of {wanted} rows found by graphs");
}

#[test]
fn random_operations_on_every_schema_answer_as_lists_in_memory_do() {
    for (name, schema) in schemas::schemas() {
        for seed in 0..SEEDS {
            let run = std::panic::AssertUnwindSafe(|| one_seed(&schema, seed));
            if let Err(panic) = std::panic::catch_unwind(run) {
                println!("schema `{name}`, seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
