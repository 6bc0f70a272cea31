//! Searches that are done together: each is answered bit for bit as it is alone.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use pipeann_db::catalog::{CollectionPath, EntryChange, NewCollection, NewIndex, Properties};
use pipeann_db::collection::{
    BatchProgress, Collection, CollectionError, Filter, GivenNames, Grouping, QueryVectors,
    SearchAnswer, SearchHit, SearchRequest,
};
use pipeann_db::database::Database;
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::scheduler::{Caller, ScheduleError, Scheduler, SchedulerOptions, Searchable};
use pipeann_db::schema::{Batch, FieldSpec, Schema};
use pipeann_db::value::{Column, ColumnValues, DataType, DenseVectors, ScalarType, VectorKind};
use pipeann_engine::index::Resident;
use pipeann_engine::search::DistanceRange;

use crate::data::options;
use crate::schemas::Numbers;

const DIM: usize = 24;

fn schema() -> Schema {
    let scalar = |name: &str| FieldSpec::new(name, DataType::Scalar(ScalarType::Int64));
    Schema::builder()
        .field(scalar("id").primary_key())
        .field(scalar("number"))
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap()
}

fn floats(count: usize, numbers: &mut Numbers) -> Vec<u8> {
    (0..count * DIM).flat_map(|_| (numbers.below(1000) as f32).to_le_bytes()).collect()
}

/// A database whose searches do the same each time: no page is read that may come late.
fn open(dir: &Path) -> Database {
    let mut options = options();
    options.collection.graph.resident = Resident::All;
    options.collection.search_threads = 1;
    Database::open(dir, options).unwrap()
}

/// A collection with `linked` rows in a graph, and some that wait to enter it.
fn filled(database: &Database, linked: usize) -> Arc<Collection> {
    let place = CollectionPath::new("default", "c");
    let new = NewCollection::new(schema());
    let c = database.create_collection("default", "c", new).unwrap();
    database.apply(EntryChange::Load { place: place.clone(), partitions: None }).unwrap();
    let mut numbers = Numbers::new(5);
    let mut insert = |from: usize, count: usize| {
        let vectors = floats(count, &mut numbers);
        let vectors = DenseVectors::new(VectorKind::Float, DIM, vectors).unwrap();
        let ids: Vec<i64> = (from..from + count).map(|id| id as i64).collect();
        let hundredths = ids.iter().map(|id| id % 100).collect();
        let columns = vec![
            Column::new("id", ColumnValues::Int64(ids)),
            Column::new("number", ColumnValues::Int64(hundredths)),
            Column::new("v", ColumnValues::Dense(vectors)),
        ];
        c.insert(Batch { rows: count, columns }, None).unwrap();
    };
    (0..linked).step_by(500).for_each(|from| insert(from, 500.min(linked - from)));
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let kind = "DISKANN".to_owned();
    let new = NewIndex { field, name, kind, metric, parameters: Properties::default() };
    database.apply(EntryChange::CreateIndex { place, new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    c
}

fn request(k: usize, count: usize, seed: u64) -> SearchRequest<'static> {
    let queries = floats(count, &mut Numbers::new(seed));
    SearchRequest::new("v", QueryVectors::new(queries, DIM, VectorType::F32).unwrap(), k)
}

/// Holds the first search up until all are asked for, and counts how many were done together.
struct Gate {
    collection: Arc<Collection>,
    open: Mutex<bool>,
    opened: Condvar,
    begun: AtomicUsize,
    most_joined: Mutex<usize>,
}

impl Searchable for Gate {
    fn search_batch(
        &self,
        requests: &[&SearchRequest<'_>],
        tell: &mut dyn FnMut(BatchProgress),
    ) -> Result<(), CollectionError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        drop(open);
        let mut most = self.most_joined.lock().unwrap();
        *most = requests.len().max(*most);
        drop(most);
        self.collection.search_batch(requests, tell)
    }
}

struct Asker(usize, Sender<(usize, Result<SearchAnswer, ScheduleError>)>);

impl Caller for Asker {
    fn is_gone(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, outcome: Result<SearchAnswer, ScheduleError>) {
        self.1.send((self.0, outcome)).unwrap();
    }
}

/// The answers to requests that all wait at once, and how many were done together at most.
fn scheduled(
    c: &Arc<Collection>,
    requests: &[SearchRequest<'static>],
) -> (Vec<Vec<Vec<SearchHit>>>, usize) {
    let gate = Arc::new(Gate {
        collection: Arc::clone(c),
        open: Mutex::new(false),
        opened: Condvar::new(),
        begun: AtomicUsize::new(0),
        most_joined: Mutex::new(0),
    });
    let scheduler = Scheduler::new(SchedulerOptions { at_once: 1, ..Default::default() });
    let (sender, answers) = channel();
    for (at, request) in requests.iter().enumerate() {
        let collection = Arc::clone(&gate) as Arc<dyn Searchable>;
        scheduler.submit(collection, request.clone(), Box::new(Asker(at, sender.clone())));
        while gate.begun.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    *gate.open.lock().unwrap() = true;
    gate.opened.notify_all();
    drop(sender);
    let mut all: Vec<_> = answers.iter().take(requests.len()).collect();
    all.sort_by_key(|(at, _)| *at);
    let hits = all.into_iter().map(|(_, outcome)| outcome.unwrap().hits).collect();
    let joined = *gate.most_joined.lock().unwrap();
    (hits, joined)
}

/// Searches of many `k`, with different outputs and numbers of queries.
fn many() -> Vec<SearchRequest<'static>> {
    let each = [1, 7, 10, 10, 40, 100, 130, 190, 2, 60, 33, 5, 12, 90, 64, 32, 31];
    let each = each.into_iter().enumerate().map(|(at, k)| {
        let output = match at % 3 {
            0 => GivenNames::default(),
            1 => ["number"].into(),
            _ => ["v", "number"].into(),
        };
        SearchRequest { output, ..request(k, 1 + at % 4 * 3, at as u64 + 1) }
    });
    each.collect()
}

fn compare(c: &Arc<Collection>, requests: &[SearchRequest<'static>]) {
    // Twice, since what is kept of a filter changes how it is answered.
    let alone = |request: &SearchRequest<'_>| c.search(request).unwrap().hits;
    for request in requests {
        alone(request);
    }
    let alone: Vec<_> = requests.iter().map(alone).collect();
    let (found, joined) = scheduled(c, requests);
    assert_eq!(joined, requests.len() - 1, "all but the first, which was held up");
    for (at, (found, alone)) in found.iter().zip(&alone).enumerate() {
        assert_eq!(found, alone, "search {at}, k {}", requests[at].k);
    }
    assert!(alone.iter().flatten().all(|hits| !hits.is_empty()));
}

#[test]
fn answers_are_those_of_searches_alone_with_and_without_a_filter() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database, 3000);
    let filtered = |expression: &str| {
        let filter = Filter::new(expression.to_owned());
        let with = |one| SearchRequest { filter: Some(filter.clone()), ..one };
        many().into_iter().map(with).collect::<Vec<_>>()
    };
    compare(&c, &many());
    compare(&c, &filtered("number < 7"));
    compare(&c, &filtered("number >= 30 and id != 5"));
    let listed = |one| SearchRequest { list: Some(1), ..one };
    compare(&c, &many().into_iter().map(listed).collect::<Vec<_>>());
    let far = DistanceRange { from: Bound::Excluded(1.3e6), to: Bound::Unbounded };
    let groups = Some(Grouping { output: 0, size: 2, fill: false });
    for (within, groups) in [(far, None), (DistanceRange::default(), groups)] {
        let with = |one| SearchRequest { within, groups, output: ["number"].into(), ..one };
        compare(&c, &many().into_iter().map(with).collect::<Vec<_>>());
    }
}

/// If searches done together shared one `k`, this list would be longer and the answer another one.
#[test]
fn a_search_keeps_the_candidate_list_of_its_own_k() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database, 3000);
    let of = |k| SearchRequest { list: Some(1), ..request(k, 50, 9) };
    let alone = |k| c.search(&of(k)).unwrap().hits;
    let (narrow, wide) = (alone(2), alone(150));
    let cut = wide.iter().map(|hits| &hits[..2]);
    assert!(
        narrow.iter().zip(cut).any(|(narrow, cut)| narrow != cut),
        "the list makes no difference"
    );
    let (found, _) = scheduled(&c, &[of(1), of(2), of(150), of(2)]);
    assert_eq!((&found[1], &found[2], &found[3]), (&narrow, &wide, &narrow));
}

#[test]
fn searches_done_together_see_rows_that_wait_and_no_deleted_ones() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database, 200);
    // Too few for a graph: all are compared.
    compare(&c, &many());
    let keys: Vec<_> = (0..50).map(pipeann_db::schema::PrimaryKey::Int64).collect();
    c.delete(&keys).unwrap();
    let (found, _) = scheduled(&c, &many());
    let rows = found.iter().flatten().flatten();
    assert!(rows.into_iter().all(|hit| !keys.contains(&hit.row.key)));
    compare(&c, &many());
}

#[test]
fn a_bad_search_among_others_is_refused_as_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = filled(&database, 600);
    let searched = Arc::clone(&c) as Arc<dyn Searchable>;
    let good = || request(5, 1, 3);
    let nan = f32::NAN.to_le_bytes().repeat(DIM);
    let nan = QueryVectors::new(nan, DIM, VectorType::F32).unwrap();
    let requests = [
        good(),
        SearchRequest { vectors: nan, ..good() },
        SearchRequest { output: ["nothing"].into(), ..good() },
        good(),
    ];
    let scheduler = Scheduler::new(SchedulerOptions { at_once: 1, ..Default::default() });
    let (sender, answers) = channel();
    for _ in 0..20 {
        for (at, request) in requests.iter().enumerate() {
            scheduler.submit(
                Arc::clone(&searched),
                request.clone(),
                Box::new(Asker(at, sender.clone())),
            );
        }
    }
    let alone: Vec<_> = requests.iter().map(|request| c.search(request)).collect();
    for (at, outcome) in answers.iter().take(80) {
        match (outcome, &alone[at]) {
            (Ok(answer), Ok(alone)) => assert_eq!(answer.hits, alone.hits),
            (Err(error), Err(alone)) => assert_eq!(error.to_string(), alone.to_string()),
            (outcome, alone) => panic!("{at}: {outcome:?} and alone {alone:?}"),
        }
    }
}
