//! Filters beside writers: what is found belongs to one moment.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use pipeann_db::catalog::{CollectionPath, EntryChange, NewIndex, Properties};
use pipeann_db::collection::{Filter, RowOrder, RowQuery, SearchRequest};
use pipeann_db::ids::Metric;
use pipeann_db::schema::PrimaryKey;
use pipeann_db::value::Value;
use pipeann_engine::memory::Pool;

use crate::data::open;
use crate::filter::{DIM, Row, batch, create, fill, key, keys, near_points, nearest};
use crate::schemas::Numbers;

#[test]
fn iterators_stay_at_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let (model, mut numbers) = fill(&c, 2500);
    let query = RowQuery {
        fields: &["number"],
        filter: Some(Filter::new("number >= 20")),
        offset: 5,
        limit: Some(1500),
        ..RowQuery::default()
    };
    let expected = model.values().filter(|row| row.number >= 20).map(|row| (row.key, row.number));
    let expected: Vec<(i64, i64)> = expected.skip(5).take(1500).collect();
    let mut pages = c.iterate(&query).unwrap();
    let mut found = Vec::new();
    for round in 0.. {
        let page = pages.next_page(100 + round).unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 100 + round);
        found.extend(page.iter().map(|row| match row.values[0] {
            Value::Int32(number) => (key(row), i64::from(number)),
            ref other => unreachable!("{other:?}"),
        }));
        // Other rows, and the same ones anew, come and go meanwhile.
        let from = 250 * round as i64;
        let rows: Vec<Row> = (from..from + 400).map(|key| Row::new(key, &mut numbers)).collect();
        c.upsert(batch(&rows), None).unwrap();
        c.delete_matching(Filter::new("number < 50"), None).unwrap();
        c.flush().unwrap();
    }
    assert_eq!(found, expected);
    assert!(pages.next_page(10).unwrap().is_empty());
    let now = c.count_matching(Filter::new("number < 50"), None).unwrap();
    assert_eq!(now, 0);
}

#[test]
fn readers_and_deletes_see_each_write_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let written = |round: i64| {
        let mut numbers = Numbers::new(round as u64);
        let rows = (0..60).map(|key| Row { number: round, ..Row::new(key, &mut numbers) });
        c.upsert(batch(&rows.collect::<Vec<_>>()), None).unwrap();
    };
    written(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let even = Filter::new("number % 2 == 0");
            let search = SearchRequest {
                metric: Some(Metric::L2),
                filter: Some(even.clone()),
                ..near_points(100)
            };
            let query = RowQuery {
                fields: &["number"],
                filter: Some(Filter::new("price is null or number >= 0")),
                ..RowQuery::default()
            };
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) || seen == 0 {
                for rows in [
                    nearest(&c, &search, [0.0; DIM]).len(),
                    c.count_matching(even.clone(), None).unwrap() as usize,
                ] {
                    assert!(rows == 0 || rows == 60, "{rows} rows of one write");
                }
                let found = c.query(&query).unwrap();
                assert_eq!(found.len(), 60);
                assert!(found.iter().all(|row| row.values == found[0].values));
                seen += 1;
            }
        });
        for round in 1..80 {
            written(round);
            if round % 20 == 0 {
                c.flush().unwrap();
                let gone = c.delete_matching(Filter::new("number < 0"), None).unwrap();
                assert_eq!(gone.rows, 0);
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn keys_that_repeat_come_as_often_as_there_are_rows() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let mut numbers = Numbers::new(3);
    for _ in 0..3 {
        let rows: Vec<Row> = (0..10).map(|key| Row::new(key, &mut numbers)).collect();
        c.insert(batch(&rows), None).unwrap();
    }
    let query = RowQuery { order: RowOrder::Key, ..RowQuery::default() };
    let found = keys(&c.query(&query).unwrap());
    assert_eq!(found, (0..10).flat_map(|key| [key; 3]).collect::<Vec<_>>());
    let four = PrimaryKey::Int64(4);
    let behind = RowQuery { order: RowOrder::KeyBehind(&four), limit: Some(4), ..query };
    assert_eq!(keys(&c.query(&behind).unwrap()), [5, 5, 5, 6]);
    assert_eq!(c.count_matching(Filter::new("id in [4, 5]"), None).unwrap(), 6);
    assert_eq!(c.delete_matching(Filter::new("id == 4"), None).unwrap().rows, 3);
}

#[test]
fn a_delete_meets_every_row_that_was_answered_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    fill(&c, 2000);
    let (answered, stop) = (AtomicI64::new(1999), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut numbers = Numbers::new(1);
            for first in (2000..).step_by(20).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let rows: Vec<Row> =
                    (first..first + 20).map(|key| Row::new(key, &mut numbers)).collect();
                c.insert(batch(&rows), None).unwrap();
                answered.store(first + 19, Ordering::SeqCst);
            }
        });
        let mut deleted = 0;
        for _ in 0..30 {
            let last = answered.load(Ordering::SeqCst);
            let filter = "number >= 20 and id >= 0";
            deleted += c.delete_matching(Filter::new(filter), None).unwrap().rows;
            let left = format!("number >= 20 and id <= {last}");
            assert_eq!(c.count_matching(Filter::new(&left), None).unwrap(), 0);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let last = answered.load(Ordering::SeqCst) as u64 + 1;
        let here = c.count(None).unwrap();
        assert_eq!(here + deleted, last, "each row is here, or was deleted once");
        let few = c.count_matching(Filter::new("number < 20"), None).unwrap();
        let added = c.count_matching(Filter::new("number >= 20"), None).unwrap();
        assert_eq!(few + added, here);
        assert!(few > 0, "rows that do not match stay");
    });
}

#[test]
fn samples_are_parts_of_what_matches_and_the_same_at_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    fill(&c, 4000);
    let sample = |filter| {
        let filter = Some(Filter::new(filter));
        keys(&c.query(&RowQuery { filter, ..RowQuery::default() }).unwrap())
    };
    let all = sample("number < 50");
    let some = sample("number < 50 and random_sample(0.25)");
    assert_eq!(some, sample("number < 50 and random_sample(0.25)"));
    assert!(some.iter().all(|key| all.contains(key)));
    let (part, whole) = (some.len() as f64, all.len() as f64);
    assert!((0.2..0.3).contains(&(part / whole)), "{part} of {whole}");
    c.delete(&[PrimaryKey::Int64(0)]).unwrap();
    assert_ne!(some, sample("number < 50 and random_sample(0.25)"), "another moment");
}

#[test]
fn a_repeated_filter_finds_rows_that_enter_the_graph_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let (_, mut numbers) = fill(&c, 3000);
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let new =
        NewIndex { field, name, kind: "DISKANN".into(), metric, parameters: Properties::new() };
    database
        .apply(EntryChange::CreateIndex { place: CollectionPath::new("default", "c"), new })
        .unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    let search = |near| {
        let filter = Some(Filter::new("name == 'red' and number < 50"));
        let search = SearchRequest { filter, ..near_points(1) };
        nearest(&c, &search, near)[0]
    };
    let before = c.options().accountant.pool_bytes(Pool::Postings);
    search([0.0; DIM]);
    assert!(c.options().accountant.pool_bytes(Pool::Postings) > before, "the answer is kept");
    for key in 5000..5020 {
        let far = 1000.0 * (key - 4990) as f32;
        let row = Row { number: 7, name: "red", vector: [far; DIM], ..Row::new(key, &mut numbers) };
        c.insert(batch(&[row]), None).unwrap();
        // While it is pending, while it is linked, and after.
        loop {
            assert_eq!(search([far; DIM]), (0.0, key));
            if c.index_status("graph").unwrap().pending == 0 {
                break;
            }
        }
        assert_eq!(search([far; DIM]), (0.0, key));
    }
}
