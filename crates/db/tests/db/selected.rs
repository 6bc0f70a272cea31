//! Searches for a range of distances or for groups, and rows in the order of keys.

use std::collections::BTreeMap;
use std::ops::Bound;

use pipeann_db::catalog::{EntryChange, NewIndex};
use pipeann_db::collection::{
    Collection, CollectionError, Filter, Grouping, RowOrder, RowQuery, SearchHit, SearchRequest,
};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use crate::data::{
    DIM, FIELDS, batch, bytes, create, distance, keys, open, place, search_by, seed, vector,
};

const ALL: DistanceRange = DistanceRange { from: Bound::Unbounded, to: Bound::Unbounded };

fn selected(
    c: &Collection,
    k: usize,
    near: [f32; DIM],
    within: DistanceRange,
    groups: Option<Grouping>,
) -> Result<Vec<SearchHit>, CollectionError> {
    let query = bytes(&[near]);
    let queries = VectorSet::new(&query, DIM, VectorType::F32).unwrap();
    let search = SearchRequest {
        metric: Some(Metric::L2),
        output: FIELDS.into(),
        within,
        groups,
        ..SearchRequest::new("v", queries, k)
    };
    Ok(c.search(&search)?.hits.remove(0))
}

#[test]
fn a_range_is_searched_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..500).map(|i| (i, i as u32)).collect();
    c.insert(batch(&rows), None).unwrap();
    let near = vector(9_999);
    // As the kernel rounds them.
    let all: Vec<f32> = search_by(&c, 500, near).iter().map(|hit| hit.distance).collect();
    assert_eq!(all.len(), 500);
    for (from, to, k) in [(0, 40, 100), (100, 300, 1000), (100, 300, 7), (490, 499, 20), (3, 3, 5)]
    {
        let (low, high) = (all[from], all[to]);
        let bounds = [
            (Bound::Included(low), Bound::Excluded(high)),
            (Bound::Excluded(low), Bound::Included(high)),
            (Bound::Excluded(low), Bound::Unbounded),
        ];
        for (from, to) in bounds {
            let within = DistanceRange { from, to };
            let found = selected(&c, k, near, within, None).unwrap();
            let found: Vec<f32> = found.iter().map(|hit| hit.distance).collect();
            let range = (from, to);
            let inside = |d: &&f32| std::ops::RangeBounds::contains(&range, *d);
            let expected: Vec<f32> = all.iter().filter(inside).take(k).copied().collect();
            assert_eq!(found, expected, "{range:?}, {k}");
        }
    }
}

#[test]
fn a_range_is_found_in_a_graph_and_among_rows_that_wait_to_enter_it() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..3000).map(|i| (i, i as u32)).collect();
    c.insert(batch(&rows[..2500]), None).unwrap();
    let (kind, field) = ("DISKANN".to_owned(), "v".to_owned());
    let (name, metric, parameters) = (Some("graph".to_owned()), Some(Metric::L2), BTreeMap::new());
    let new = NewIndex { field, name, kind, metric, parameters };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    c.insert(batch(&rows[2500..]), None).unwrap();
    c.delete(&keys(&(0..3000).step_by(5).collect::<Vec<_>>())).unwrap();
    let near = vector(9_999);
    let living = rows.iter().filter(|(key, _)| key % 5 != 0);
    let mut all: Vec<f32> = living.map(|(_, seed)| distance(near, vector(*seed))).collect();
    all.sort_by(f32::total_cmp);
    // The last ones need a list that is longer than a search begins with.
    for (from, to, k) in [(0, 1, 10), (0, 50, 200), (0, 400, 30), (700, 900, 300), (1500, 2300, 10)]
    {
        let within =
            DistanceRange { from: Bound::Excluded(all[from]), to: Bound::Included(all[to]) };
        let found = selected(&c, k, near, within, None).unwrap();
        let mut found_keys: Vec<_> = found.iter().map(|hit| hit.row.key.clone()).collect();
        found_keys.sort();
        found_keys.dedup();
        assert_eq!(found_keys.len(), found.len(), "each key once");
        assert!(found.iter().all(|hit| within.contains(hit.distance)));
        let wanted: Vec<f32> =
            all.iter().filter(|d| within.contains(**d)).take(k).copied().collect();
        let last = wanted.last().copied().unwrap_or_default() * 1.0001;
        let right = found.iter().filter(|hit| hit.distance <= last).count();
        assert!(right * 100 >= wanted.len() * 95, "{right} of {} in {from}..{to}", wanted.len());
    }
}

#[test]
fn groups_have_their_nearest_rows() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    // Rows of one seed have one note, and one vector. The first seeds have few rows.
    let rows: Vec<(i64, u32)> = (0..900).map(|i| (i, (i as f64).sqrt() as u32)).collect();
    c.insert(batch(&rows), None).unwrap();
    let near = vector(0);
    let mut seeds: Vec<u32> = (0..30).collect();
    seeds.sort_by(|a, b| distance(near, vector(*a)).total_cmp(&distance(near, vector(*b))));
    for (k, size, fill) in [(1, 1, false), (30, 1, false), (30, 3, true), (12, 5, true)] {
        let groups = Some(Grouping { output: 0, size, fill });
        let found = selected(&c, k, near, ALL, groups).unwrap();
        assert!(found.is_sorted_by(|a, b| a.distance <= b.distance));
        let mut sizes = BTreeMap::new();
        for hit in &found {
            *sizes.entry(seed(&hit.row.values)).or_insert(0) += 1;
        }
        let there = |seed: u32| rows.iter().filter(|row| row.1 == seed).count().min(size);
        let expected: BTreeMap<u32, usize> =
            seeds.iter().take(k).map(|s| (*s, there(*s))).collect();
        assert_eq!(sizes, expected, "{k} groups of {size}");
    }
    let groups = Some(Grouping { output: 1, size: 1, fill: false });
    let refused = selected(&c, 1, near, ALL, groups);
    assert!(matches!(refused, Err(CollectionError::Field { .. })), "vectors make no groups");
}

#[test]
fn many_rows_come_in_the_order_of_keys_as_few_do() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..5_000).rev().map(|i| (i, 1)).collect();
    c.insert(batch(&rows), None).unwrap();
    for (first, offset, limit) in
        [(0, 0, None), (0, 4_990, None), (4_000, 10, Some(20)), (0, 10, Some(5))]
    {
        // Row ids go the other way.
        let query = RowQuery {
            rows: Some(0..5_000 - first),
            order: RowOrder::Key,
            offset,
            limit,
            ..RowQuery::default()
        };
        let found = c.query(&query).unwrap().into_iter().map(|row| row.key);
        let expected = first.cast_signed()..5_000;
        let expected: Vec<i64> = expected.skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        assert_eq!(found.collect::<Vec<_>>(), keys(&expected));
    }
}

#[test]
fn of_a_key_that_several_rows_have_the_newest_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    for count in [100, 5_000] {
        // Each key three times, so that few rows and many are looked at.
        for seed in 1..=3 {
            let rows: Vec<(i64, u32)> = (0..count).map(|key| (key, seed)).collect();
            c.insert(batch(&rows), None).unwrap();
        }
        for (offset, limit) in [(0, None), (0, Some(1)), (7, Some(20)), (90, Some(500))] {
            let order = RowOrder::NewestOfKey;
            let query = RowQuery { fields: FIELDS, order, offset, limit, ..RowQuery::default() };
            let found = c.query(&query).unwrap();
            assert!(found.iter().all(|row| seed(&row.values) == 3));
            let expected = (0..count).skip(offset).take(limit.unwrap_or(usize::MAX));
            let found: Vec<_> = found.into_iter().map(|row| row.key).collect();
            assert_eq!(found, keys(&expected.collect::<Vec<_>>()), "{count} {offset}");
        }
        // Where a filter tells at which key rows begin, that one is found with all of its rows.
        for (filter, first) in
            [("id > 9", 10), ("id >= 9", 9), ("id >= 3 and id > 8 and id < 60", 9)]
        {
            let (order, filter) = (RowOrder::NewestOfKey, Some(Filter::new(filter)));
            let query = RowQuery { order, filter, limit: Some(3), ..RowQuery::default() };
            let found: Vec<_> = c.query(&query).unwrap().into_iter().map(|row| row.key).collect();
            assert_eq!(found, keys(&[first, first + 1, first + 2]), "{count}");
        }
    }
}
