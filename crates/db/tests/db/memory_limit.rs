//! One memory limit for a database: what its collections need comes first, pages of their graphs
//! fill what is left, by use, and give way to writes.

use std::path::Path;
use std::sync::Arc;

use pipeann_db::catalog::{
    CollectionPath, EntryChange, NewCollection, NewIndex, Properties, WantedLoad,
};
use pipeann_db::collection::{Collection, SearchAnswer, SearchCosts, SearchRequest};
use pipeann_db::database::{Database, DatabaseError, DatabaseOptions};
use pipeann_db::ids::{Metric, VectorType};
use pipeann_engine::memory::{Accountant, MemoryLimit, Pool};
use pipeann_engine::types::VectorSet;

use crate::data::{DIM, batch, bytes, options, rows, schema, vector};

const ROWS: i64 = 3000;

/// A loaded collection with a graph of so many rows.
fn build(database: &Database, name: &str, count: i64) {
    let place = CollectionPath::new("default", name);
    let c = database.create_collection("default", name, NewCollection::new(schema())).unwrap();
    database.apply(EntryChange::Load { place: place.clone(), partitions: None }).unwrap();
    let all: Vec<_> = (0..count).map(|key| (key, key as u32)).collect();
    all.chunks(250).for_each(|some| drop(c.insert(batch(some), None).unwrap()));
    let (field, graph, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    let (kind, parameters) = ("DISKANN".to_owned(), Properties::default());
    let new = NewIndex { field, name: graph, kind, metric, parameters };
    database.apply(EntryChange::CreateIndex { place, new }).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    c.flush().unwrap();
}

/// A database in `dir` under a limit, and its accountant.
fn opened(dir: &Path, limit: MemoryLimit) -> (Database, Arc<Accountant>) {
    let options = small(limit);
    let accountant = Arc::clone(&options.collection.accountant);
    (Database::open(dir, options).unwrap(), accountant)
}

fn small(limit: MemoryLimit) -> DatabaseOptions {
    let mut options = options().under(limit);
    options.collection.search_threads = 1;
    options.collection.row_buffer_bytes = 256 << 10;
    options.row_cache_bytes = 64 << 10;
    options
}

fn collection(database: &Database, name: &str) -> Arc<Collection> {
    let c = database.collection("default", name).unwrap();
    c.wait_for_index("graph").unwrap();
    c
}

/// Searches for each tenth row; what it took.
fn search(c: &Collection) -> SearchCosts {
    let near: Vec<_> = (0..ROWS).step_by(10).map(|key| vector(key as u32)).collect();
    let bytes = bytes(&near);
    let queries = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let search = SearchRequest::new("v", queries, 1);
    let SearchAnswer { hits, costs, .. } = c.search(&search).unwrap();
    let found = hits.iter().filter(|hits| hits[0].distance == 0.0).count();
    assert!(found * 100 >= near.len() * 98, "{found} of {} find themselves", near.len());
    costs
}

/// The least memory under which all is open, and what all pages take beside it.
fn sizes(dir: &Path, names: &[&str]) -> (u64, u64) {
    let held = |limit| {
        let (database, accountant) = opened(dir, limit);
        for name in names {
            search(&collection(&database, name));
        }
        (accountant.held_bytes(), accountant.pool_bytes(Pool::PageCache))
    };
    let ((floor, none), (_, all)) = (held(MemoryLimit::Floor), held(MemoryLimit::All));
    assert!(none == 0 && all > 300_000, "{all} bytes of pages");
    (floor, all)
}

#[test]
fn a_limit_under_which_nothing_could_be_written_is_refused_with_the_least_that_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = |bytes| Database::open(&path, options().under(MemoryLimit::Bytes(bytes)));
    let refused = open(1 << 20).unwrap_err();
    let DatabaseError::Memory(over) = &refused else { panic!("{refused}") };
    let least = over.needed_bytes();
    assert!(refused.to_string().contains(&format!("at least {least} bytes")), "{refused}");
    assert!(open(least - 1).is_err() && !path.exists(), "nothing is made");
    let database = open(least).unwrap();
    let new = NewCollection::new(schema());
    let c = database.create_collection("default", "c", new).unwrap();
    c.insert(batch(&[(1, 1)]), None).unwrap();
    assert_eq!(c.count(None).unwrap(), 1);
}

#[test]
fn pages_fill_what_a_limit_leaves() {
    let dir = tempfile::tempdir().unwrap();
    build(&opened(dir.path(), MemoryLimit::Floor).0, "a", ROWS);
    let (floor, all) = sizes(dir.path(), &["a"]);
    let mut before = u64::MAX;
    for share in [0, 4, 10] {
        let limit = (floor + all * share / 8) * 33 / 32;
        let (database, accountant) = opened(dir.path(), MemoryLimit::Bytes(limit));
        let c = collection(&database, "a");
        let mut costs = SearchCosts::default();
        for _ in 0..5 {
            costs = search(&c);
            assert!(accountant.held_bytes() <= limit);
        }
        let (read, pages) = (costs.pages_read, accountant.pool_bytes(Pool::PageCache));
        assert!(read < before, "{read} pages read, {pages} of {all} bytes under {limit}");
        before = read;
    }
    assert_eq!(before, 0, "with room for every page nothing is read any more");
}

#[test]
fn a_load_that_does_not_fit_is_taken_back_and_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    build(&opened(dir.path(), MemoryLimit::Floor).0, "a", ROWS);
    let place = || CollectionPath::new("default", "a");
    let (loaded, _) = sizes(dir.path(), &["a"]);
    let (database, accountant) = opened(dir.path(), MemoryLimit::Floor);
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    let released = accountant.held_bytes();
    drop(database);
    let limit = MemoryLimit::Bytes(released + (loaded - released) / 4);
    for _ in 0..2 {
        let (database, _) = opened(dir.path(), limit);
        let load = EntryChange::Load { place: place(), partitions: None };
        database.apply(load).expect_err("it does not fit");
        let c = database.collection("default", "a").unwrap();
        assert_eq!(c.entry().unwrap().load, WantedLoad::Released);
        assert_eq!(c.count(None).unwrap(), ROWS as u64);
    }
}

#[test]
fn collections_share_a_limit_by_use() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (database, _) = opened(dir.path(), MemoryLimit::Floor);
        ["a", "b"].into_iter().for_each(|name| build(&database, name, ROWS));
    }
    let (floor, all) = sizes(dir.path(), &["a", "b"]);
    let limit = (floor + all / 2) * 33 / 32;
    let (database, accountant) = opened(dir.path(), MemoryLimit::Bytes(limit));
    let (a, b) = (collection(&database, "a"), collection(&database, "b"));
    for (used, other) in [(&a, &b), (&b, &a), (&a, &b)] {
        // Memory goes to it behind its searches.
        let mut costs = search(used);
        for _ in 0..300 {
            costs = search(used);
            assert!(accountant.held_bytes() <= limit);
            if costs.pages_read * 5 < costs.pages_resident {
                break;
            }
        }
        assert!(costs.pages_read * 5 < costs.pages_resident, "{costs:?}");
        let others = search(other);
        assert!(others.pages_read * 2 > others.pages_resident, "{others:?}");
    }
}

#[test]
fn pages_give_way_to_writes_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    build(&opened(dir.path(), MemoryLimit::Floor).0, "a", 4 * ROWS);
    let (floor, all) = sizes(dir.path(), &["a"]);
    // No more than pages need, so that a write can only have what they give back.
    let limit = floor + all;
    let (database, accountant) = opened(dir.path(), MemoryLimit::Bytes(limit));
    let c = collection(&database, "a");
    for _ in 0..5 {
        search(&c);
    }
    let pages = accountant.pool_bytes(Pool::PageCache);
    let buffers = small(MemoryLimit::Floor).collection;
    let written = buffers.row_buffer_bytes + buffers.tail_bytes + buffers.scalar_buffer_bytes;
    assert!(limit - accountant.held_bytes() < written, "{pages} of {all} bytes of pages");
    let some: Vec<_> = (4 * ROWS..4 * ROWS + 300).map(|key| (key, key as u32)).collect();
    for some in some.chunks(50) {
        match c.insert(batch(some), None) {
            Ok(_) => assert!(accountant.held_bytes() <= limit),
            Err(error) => panic!("{error}, with {all} bytes of pages"),
        }
    }
    assert!(accountant.pool_bytes(Pool::PageCache) < pages, "pages gave way");
    c.wait_for_index("graph").unwrap();
    c.flush().unwrap();
    database.trim();
    database.trim();
    for _ in 0..5 {
        search(&c);
    }
    assert!(accountant.pool_bytes(Pool::PageCache) >= pages / 2, "and come back");
    assert_eq!(rows(&c).len() as i64, 4 * ROWS + 300);
}
