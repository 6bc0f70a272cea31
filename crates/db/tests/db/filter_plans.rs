//! Searches with a filter through a graph: by whichever way, they find what an exact search would.

use std::collections::BTreeMap;

use pipeann_db::catalog::{CollectionPath, EntryChange, NewIndex, Properties};
use pipeann_db::collection::{Collection, Filter, SearchAnswer, SearchCosts, SearchRequest};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_engine::types::VectorSet;

use crate::data::open;
use crate::filter::{DIM, Row, batch, create, key};
use crate::schemas::Numbers;

/// Rows whose number tells where they lie: a hundredth of the range of the first component.
fn fill(c: &Collection, count: i64) -> BTreeMap<i64, Row> {
    let mut numbers = Numbers::new(11);
    let rows: Vec<Row> = (0..count)
        .map(|key| {
            let row = Row::new(key, &mut numbers);
            Row { number: row.vector[0] as i64 / 3, ..row }
        })
        .collect();
    rows.chunks(500).for_each(|rows| drop(c.insert(batch(rows), None).unwrap()));
    rows.into_iter().map(|row| (row.key, row)).collect()
}

fn distance(a: [f32; DIM], b: [f32; DIM]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Searches around points with a first component near `at`, and returns what it took.
fn compare(
    c: &Collection,
    model: &BTreeMap<i64, Row>,
    expression: &str,
    matches: impl Fn(&Row) -> bool,
    at: f32,
) -> SearchCosts {
    let mut numbers = Numbers::new(3);
    let near: Vec<[f32; DIM]> = (0..30)
        .map(|_| std::array::from_fn(|d| if d == 0 { at } else { numbers.below(300) as f32 }))
        .collect();
    let bytes: Vec<u8> = near.iter().flatten().flat_map(|c| c.to_le_bytes()).collect();
    let queries = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let search = SearchRequest {
        filter: Some(Filter::new(expression)),
        ..SearchRequest::new("v", queries, 10)
    };
    let SearchAnswer { hits, costs, .. } = c.search(&search).unwrap();
    let (mut right, mut wanted) = (0, 0);
    for (near, hits) in near.into_iter().zip(hits) {
        assert!(hits.iter().all(|hit| matches(&model[&key(&hit.row)])), "{expression}");
        let rows = model.values().filter(|row| matches(row));
        let mut all: Vec<f32> = rows.map(|row| distance(near, row.vector)).collect();
        all.sort_by(f32::total_cmp);
        all.truncate(10);
        assert_eq!(hits.len(), all.len(), "{expression}");
        wanted += all.len();
        right += hits.iter().filter(|hit| hit.distance <= *all.last().unwrap()).count();
    }
    assert!(right * 100 >= wanted * 98, "{right} of {wanted} for {expression}");
    costs
}

#[test]
fn every_way_of_searching_finds_what_matches() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database, false);
    let model = fill(&c, 6000);
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let new =
        NewIndex { field, name, kind: "DISKANN".into(), metric, parameters: Properties::new() };
    database
        .apply(EntryChange::CreateIndex { place: CollectionPath::new("default", "c"), new })
        .unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();

    let few = compare(&c, &model, "number == 40", |row| row.number == 40, 120.0);
    assert_eq!((few.ranked, few.walked, few.compared), (30, 0, 0), "few rows are ranked");

    let near = compare(&c, &model, "number < 60", |row| row.number < 60, 60.0);
    assert_eq!((near.walked, near.changed), (30, 0), "rows are tested as they are met");

    // Asked again, of which the nodes are looked up.
    let again = compare(&c, &model, "number < 60", |row| row.number < 60, 60.0);
    assert_eq!(again.changed, 0);

    let far = compare(&c, &model, "number < 45", |row| row.number < 45, 290.0);
    assert_eq!(far.changed, 30, "none near the queries matches");
    let far_again = compare(&c, &model, "number < 45", |row| row.number < 45, 290.0);
    assert_eq!(far_again.changed + far_again.ranked, 30);
    assert_eq!(far_again.compared, 0);

    compare(&c, &model, "not (number < 3)", |row| row.number >= 3, 2.0);
    compare(&c, &model, "number > 1 and number <= 4", |row| (2..=4).contains(&row.number), 200.0);
}
