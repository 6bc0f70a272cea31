//! Moments that are kept: what is read as of them stays what it was, whatever is written since.

use std::ops::Bound;
use std::sync::Arc;

use pipeann_db::catalog::{EntryChange, NewIndex, Properties};
use pipeann_db::collection::{
    Collection, Filter, PinnedSnapshot, RowOrder, RowQuery, SearchHit, SearchRequest,
};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_db::schema::PrimaryKey;
use pipeann_engine::search::DistanceRange;
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, FIELDS, batch, bytes, create, keys, open, place, seed, vector};

/// Rows by filter, as key and seed.
fn read(c: &Collection, held: Option<&Arc<PinnedSnapshot>>, filter: &str) -> Vec<(i64, u32)> {
    let query = RowQuery {
        fields: FIELDS,
        filter: Some(Filter::new(filter)),
        order: RowOrder::NewestOfKey,
        ..RowQuery::default()
    };
    let found = c.query_as_of(&query, held.map(|held| &**held)).unwrap();
    found.iter().map(|row| (key(&row.key), seed(&row.values))).collect()
}

fn key(key: &PrimaryKey) -> i64 {
    match key {
        PrimaryKey::Int64(key) => *key,
        PrimaryKey::VarChar(key) => panic!("{key}"),
    }
}

fn near(
    c: &Collection,
    held: Option<&Arc<PinnedSnapshot>>,
    filter: Option<Filter<'_>>,
    from: Bound<f32>,
) -> Vec<SearchHit> {
    let query = bytes(&[vector(77)]);
    let queries = VectorSet::new(&query, DIM, VectorType::F32).unwrap();
    let within = DistanceRange { from, ..DistanceRange::default() };
    let search = SearchRequest {
        moment: held.cloned(),
        within,
        metric: Some(Metric::L2),
        list: Some(400),
        filter,
        output: FIELDS.into(),
        ..SearchRequest::new("v", queries, 20)
    };
    c.search(&search).unwrap().hits.remove(0)
}

/// Everything that is compared: rows, rows by filter, counts, and searches of both kinds.
fn look(
    c: &Collection,
    held: Option<&Arc<PinnedSnapshot>>,
) -> impl PartialEq + std::fmt::Debug + use<> {
    let filter = Filter::new("note like 'note 1%'");
    let counted = c.count_as_of(filter.clone(), None, held.map(|held| &**held)).unwrap();
    let pages = near(c, held, None, Bound::Unbounded);
    let bound = Bound::Excluded(pages[9].distance);
    let hits = |hits: Vec<SearchHit>| -> Vec<(i64, u32)> {
        hits.iter().map(|hit| (key(&hit.row.key), seed(&hit.row.values))).collect()
    };
    let (second, some) = (near(c, held, None, bound), near(c, held, Some(filter), bound));
    (read(c, held, ""), read(c, held, "id > 40"), counted, hits(pages), hits(second), hits(some))
}

fn rewrite(c: &Collection) {
    c.delete(&keys(&(0..300).collect::<Vec<_>>())).unwrap();
    let rows: Vec<(i64, u32)> = (300..500).map(|key| (key, key as u32 + 10_000)).collect();
    c.upsert(batch(&rows), None).unwrap();
    let rows: Vec<(i64, u32)> = (900..3_000).map(|key| (key, key as u32)).collect();
    rows.chunks(300).for_each(|rows| drop(c.insert(batch(rows), None).unwrap()));
    c.delete(&keys(&(1_000..3_000).collect::<Vec<_>>())).unwrap();
    // Vectors of rows that are gone leave the disk with one of these.
    for _ in 0..3 {
        c.flush().unwrap();
    }
}

#[test]
fn what_is_read_as_of_a_moment_stays() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..600).map(|key| (key, key as u32)).collect();
    c.insert(batch(&rows), None).unwrap();
    let held = c.hold_moment().unwrap();
    let now = look(&c, None);
    assert_eq!(look(&c, Some(&held)), now);
    let again = c.hold_moment().unwrap();
    assert!(std::sync::Arc::ptr_eq(&held, &again), "nothing was written since");
    rewrite(&c);
    assert_eq!(look(&c, Some(&held)), now);
    assert_ne!(look(&c, None), now);
    let later = c.hold_moment().unwrap();
    assert!(later.seq() > held.seq());
}

#[test]
fn a_graph_is_searched_as_of_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..600).map(|key| (key, key as u32)).collect();
    c.insert(batch(&rows), None).unwrap();
    let new = NewIndex {
        field: "v".to_owned(),
        name: Some("graph".to_owned()),
        kind: "DISKANN".to_owned(),
        metric: Some(Metric::L2),
        parameters: Properties::new(),
    };
    database.apply(EntryChange::CreateIndex { place: place(), new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    let held = c.hold_moment().unwrap();
    let now = look(&c, Some(&held));
    assert_eq!(look(&c, None), now);
    rewrite(&c);
    assert_eq!(look(&c, Some(&held)), now);
}

#[test]
fn vectors_leave_the_disk_when_nobody_keeps_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let rows: Vec<(i64, u32)> = (0..4_000).map(|key| (key, key as u32)).collect();
    rows.chunks(500).for_each(|rows| drop(c.insert(batch(rows), None).unwrap()));
    let held = c.hold_moment().unwrap();
    c.delete(&keys(&(5..4_000).collect::<Vec<_>>())).unwrap();
    let bytes = || {
        c.flush().unwrap();
        let files = crate::data::files(dir.path()).into_iter();
        let vectors = files.filter(|path| path.to_string_lossy().contains("vectors-"));
        vectors.map(|path| path.metadata().unwrap().len()).sum::<u64>()
    };
    let kept = bytes();
    assert!(kept >= 4_000 * DIM as u64 * 4, "{kept}");
    assert_eq!(read(&c, Some(&held), "").len(), 4_000);
    drop(held);
    let left = bytes();
    // Whole blocks of many vectors are written.
    assert!(2 * left <= kept + 1024, "{left} of {kept}");
}
