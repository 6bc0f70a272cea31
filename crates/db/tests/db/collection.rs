//! What a collection answers, and what it answers after it was opened again.

use std::sync::Arc;

use pipeann_db::catalog::{EntryChange, NewCollection};
use pipeann_db::collection::{CollectionError, RowQuery};
use pipeann_db::database::Database;
use pipeann_db::disk::{CrashDisk, FaultKind, PlannedFault};
use pipeann_db::schema::{FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{DataType, ScalarType, Value, VectorKind};

use crate::data::{
    DIM, FIELDS, batch, collection, create, keys, open, options, place, rows, search_by, seed,
    vector,
};

#[test]
fn what_is_inserted_is_read_counted_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let outcome = c.insert(batch(&[(7, 1), (5, 2), (9, 3)]), None).unwrap();
    assert_eq!((outcome.keys, outcome.rows, outcome.replaced), (keys(&[7, 5, 9]), 0..3, 0));
    assert_eq!(c.count(None).unwrap(), 3);
    let found = c.get(&keys(&[9, 4, 7]), FIELDS).unwrap();
    assert_eq!(found.iter().map(|row| seed(&row.values)).collect::<Vec<_>>(), [3, 1]);
    let hits = search_by(&c, 2, vector(2));
    assert_eq!((hits.len(), hits[0].distance, &hits[0].row.key), (2, 0.0, &keys(&[5])[0]));
    assert_eq!(rows(&c), [(7, 1), (5, 2), (9, 3)]);
    let some = RowQuery { rows: Some(1..9), limit: Some(1), ..RowQuery::default() };
    let some = c.query(&some).unwrap();
    assert_eq!(some.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), keys(&[5]));
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_key_of_several_rows_is_read_counted_found_and_deleted_as_defined() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 10), (2, 20), (1, 11)]), None).unwrap();
    c.insert(batch(&[(1, 12)]), None).unwrap();
    assert_eq!(c.count(None).unwrap(), 4);
    let newest = c.get(&keys(&[1]), FIELDS).unwrap();
    assert_eq!(newest.iter().map(|row| seed(&row.values)).collect::<Vec<_>>(), [12]);
    let hits = search_by(&c, 2, vector(10));
    let found: Vec<_> =
        hits.iter().map(|hit| (hit.row.key.clone(), seed(&hit.row.values))).collect();
    assert_eq!(found, [(keys(&[1])[0].clone(), 10), (keys(&[2])[0].clone(), 20)]);
    let outcome = c.upsert(batch(&[(1, 13)]), None).unwrap();
    assert_eq!(outcome.replaced, 3);
    assert_eq!(rows(&c), [(2, 20), (1, 13)]);
    c.insert(batch(&[(1, 14)]), None).unwrap();
    assert_eq!(c.delete(&keys(&[1, 77, 1])).unwrap().rows, 2);
    assert_eq!(rows(&c), [(2, 20)]);
    assert_eq!(c.delete(&keys(&[1])).unwrap().rows, 0);
    let twice = c.upsert(batch(&[(5, 1), (6, 2), (5, 3)]), None).unwrap_err();
    assert!(matches!(twice, CollectionError::DuplicateKey { first: 0, second: 2, .. }), "{twice}");
}

#[test]
fn everything_is_there_after_opening_again_with_and_without_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    for flush in [false, true, false] {
        let database = open(dir.path());
        let c = match database.collection("default", "c") {
            Ok(c) => c,
            Err(_) => create(&database),
        };
        let before = rows(&c);
        let next = c.stats().next_row as i64;
        c.insert(batch(&[(next, 1), (next + 1, 2)]), None).unwrap();
        c.delete(&keys(&[next])).unwrap();
        if flush {
            let needed = c.flush().unwrap();
            assert_eq!(needed, c.visible().next());
        }
        let after = rows(&c);
        assert_eq!(after.len(), before.len() + 1);
        drop((c, database));
        let database = open(dir.path());
        let c = collection(&database);
        assert_eq!(rows(&c), after);
        assert_eq!(c.verify().unwrap(), []);
        assert_eq!(c.stats().next_row, next as u64 + 2, "no row id comes twice");
    }
}

#[test]
fn small_buffers_are_flushed_on_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    for some in 0..40 {
        let rows: Vec<_> = (0..500).map(|i| (some * 500 + i, i as u32)).collect();
        c.insert(batch(&rows), None).unwrap();
    }
    let stats = c.stats();
    assert_eq!((stats.rows, stats.next_row, &stats.stopped), (20_000, 20_000, &None));
    assert!(stats.flushed.0 > 30, "{stats:?}");
    drop((c, database));
    let database = open(dir.path());
    assert_eq!(collection(&database).count(None).unwrap(), 20_000);
    assert_eq!(collection(&database).verify().unwrap(), []);
}

#[test]
fn a_lost_row_store_is_made_anew_from_a_log_that_reaches_back_and_else_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1), (2, 2)]), None).unwrap();
    c.delete(&keys(&[1])).unwrap();
    let id = c.entry().unwrap().id.0;
    drop((c, database));
    let part = |name: &str| dir.path().join(format!("collections/{id}/{name}"));
    std::fs::remove_dir_all(part("rows")).unwrap();
    let database = open(dir.path());
    assert_eq!(rows(&collection(&database)), [(2, 2)]);
    collection(&database).flush().unwrap();
    drop(database);
    std::fs::remove_file(part("LIVE")).unwrap();
    let database = open(dir.path());
    assert_eq!(rows(&collection(&database)), [(2, 2)], "live rows come from the row store");
    assert_eq!(collection(&database).stats().next_row, 2);
    drop(database);
    // The log has one segment, which stays; with it gone there is nothing to make rows from.
    std::fs::remove_dir_all(part("wal")).unwrap();
    let refused = Database::open(dir.path(), options()).unwrap_err().to_string();
    assert!(refused.contains("wal"), "{refused}");
}

#[test]
fn rows_go_with_their_partition_and_searches_see_loaded_ones_only() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let partition = "p".to_owned();
    database.apply(EntryChange::CreatePartition { place: place(), partition }).unwrap();
    c.insert(batch(&[(1, 1), (2, 2)]), None).unwrap();
    c.insert(batch(&[(3, 3), (4, 4)]), Some("p")).unwrap();
    assert_eq!((c.count(Some("p")).unwrap(), c.count(Some("_default")).unwrap()), (2, 2));
    let query = RowQuery { partitions: Some(&["p"]), ..RowQuery::default() };
    assert_eq!(c.query(&query).unwrap().len(), 2);
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    let some = Some(vec!["_default".to_owned()]);
    database.apply(EntryChange::Load { place: place(), partitions: some }).unwrap();
    let hits = search_by(&c, 9, vector(3));
    assert_eq!(hits.len(), 2, "{hits:?}");
    let partition = "p".to_owned();
    database.apply(EntryChange::DropPartition { place: place(), partition }).unwrap();
    assert_eq!(rows(&c), [(1, 1), (2, 2)]);
    assert!(c.insert(batch(&[(5, 5)]), Some("p")).is_err());
    drop((c, database));
    let database = open(dir.path());
    assert_eq!(rows(&collection(&database)), [(1, 1), (2, 2)]);
}

#[test]
fn keys_are_assigned_where_the_schema_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).auto_id())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(DIM as u32))
        .build()
        .unwrap();
    let c = database.create_collection("default", "c", NewCollection::new(schema)).unwrap();
    let mut some = batch(&[(0, 1), (0, 2)]);
    some.columns.retain(|column| column.field == "v");
    let first = c.insert(some.clone(), None).unwrap();
    let second = c.insert(some, None).unwrap();
    assert_eq!([first.keys, second.keys].concat(), keys(&[1, 2, 3, 4]));
    assert_eq!(c.get(&[PrimaryKey::Int64(3)], &["id"]).unwrap()[0].values, [Value::Int64(3)]);
}

#[test]
fn fields_that_are_added_later_read_as_null_in_older_rows() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    let field = FieldSpec::new("more", DataType::Scalar(ScalarType::Bool)).nullable();
    database.apply(EntryChange::AddField { place: place(), field: Box::new(field) }).unwrap();
    c.insert(batch(&[(2, 2)]), None).unwrap();
    for _ in 0..2 {
        let found = c.get(&keys(&[1, 2]), &["more"]).unwrap();
        assert!(found.iter().all(|row| row.values == [Value::Null]), "{found:?}");
    }
    drop((c, database));
    let database = open(dir.path());
    assert_eq!(collection(&database).get(&keys(&[1]), &["more"]).unwrap()[0].values, [Value::Null]);
}

#[test]
fn writers_and_readers_share_a_collection() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let c = &c;
            scope.spawn(move || {
                for i in 0..50 {
                    let key = writer * 1000 + i;
                    // Two rows at once, so that a reader could see half of a write.
                    c.insert(batch(&[(key, 1), (-key - 1, 2)]), None).unwrap();
                    if i % 5 == 4 {
                        c.upsert(batch(&[(key, 3), (-key - 1, 4)]), None).unwrap();
                    }
                    if i % 10 == 9 {
                        c.delete(&keys(&[key, -key - 1])).unwrap();
                    }
                }
            });
        }
        for _ in 0..2 {
            let c = &c;
            scope.spawn(move || {
                for _ in 0..40 {
                    let found = rows(c);
                    assert!(found.len().is_multiple_of(2), "{found:?}");
                    assert!(search_by(c, 3, vector(1)).len() <= 3);
                }
            });
        }
    });
    assert_eq!(c.count(None).unwrap(), 4 * (50 - 5) * 2);
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn a_full_disk_refuses_the_write_and_keeps_what_was_answered() {
    let files = tempfile::tempdir().unwrap();
    let disk = CrashDisk::with_capacity(40_000);
    let database =
        Database::open_simulated(Arc::new(disk.clone()), files.path().join("a"), options())
            .unwrap();
    let c = create(&database);
    let mut answered = 0;
    let refused = loop {
        match c.insert(batch(&[(answered, answered as u32)]), None) {
            Ok(_) => answered += 1,
            Err(error) => break error,
        }
    };
    assert!(answered > 50, "{answered} rows fit");
    assert!(refused.to_string().contains("no space left"), "{refused}");
    let many: Vec<_> = (0..50).map(|key| (-key, 1)).collect();
    let again = c.upsert(batch(&many), None).unwrap_err();
    assert!(!matches!(again, CollectionError::Stopped { .. }), "{again}");
    assert_eq!(c.stats().stopped, None);
    assert!(rows(&c).len() as i64 == answered, "reads go on");
    // As soon as there is room, writes go on.
    disk.set_capacity(Some(2_000_000));
    c.insert(batch(&[(answered, answered as u32)]), None).unwrap();
    answered += 1;
    // A sync that fails on a disk that is full then.
    disk.inject(PlannedFault { operation: disk.operations() + 2, kind: FaultKind::Io });
    let failed = c.insert(batch(&[(answered, answered as u32)]), None).unwrap_err();
    assert!(matches!(failed, CollectionError::Stopped { .. }), "{failed}");
    drop((c, database));
    disk.set_capacity(Some(0));
    let reopen = |name: &str| {
        Database::open_simulated(Arc::new(disk.clone()), files.path().join(name), options())
    };
    // What may be lost is written anew first. Without room for that, there is only reading.
    let database = reopen("b").unwrap();
    let c = collection(&database);
    assert!(rows(&c).len() as i64 >= answered);
    assert!(c.stats().stopped.is_some_and(|why| why.contains("no space left")));
    let refused = c.insert(batch(&[(-1, 1)]), None).unwrap_err();
    assert!(matches!(refused, CollectionError::Stopped { .. }), "{refused}");
    assert!(c.flush().is_err(), "no component comes to be ahead of the log");
    drop((c, database));
    disk.set_capacity(None);
    let database = reopen("c").unwrap();
    let found = rows(&collection(&database));
    assert!(found.len() as i64 >= answered, "{} of {answered} rows", found.len());
    let all = (0..answered).map(|key| (key, key as u32));
    assert!(all.eq(found.into_iter().take(answered as usize)));
}

#[test]
fn a_load_whose_note_a_full_disk_refuses_goes_on_when_there_is_room() {
    let files = tempfile::tempdir().unwrap();
    let disk = CrashDisk::new();
    let database =
        Database::open_simulated(Arc::new(disk.clone()), files.path().join("a"), options())
            .unwrap();
    let c = create(&database);
    let mut load = c.begin_load("numbers", 1).unwrap();
    load.insert(batch(&[(0, 0)]), None).unwrap();
    let mut there = vec![(0, 0)];
    // The note of a batch: what is left of an earlier one removed, a new one created, written, synced
    // and renamed.
    for step in 1..=5 {
        let row = (step as i64, step as u32);
        disk.inject(PlannedFault { operation: disk.operations() + step, kind: FaultKind::NoSpace });
        let refused = load.insert(batch(&[row]), None).unwrap_err();
        assert!(refused.to_string().contains("no space left"), "step {step}: {refused}");
        assert_eq!(c.stats().stopped, None, "step {step}");
        assert_eq!((rows(&c), load.rows()), (there.clone(), step), "step {step}");
        load.insert(batch(&[row]), None).unwrap();
        there.push(row);
    }
    load.finish().unwrap();
    drop((c, database));
    let database =
        Database::open_simulated(Arc::new(disk), files.path().join("b"), options()).unwrap();
    assert_eq!(rows(&collection(&database)), there);
}

#[test]
fn a_dropped_collection_is_gone_and_tells_those_who_hold_it() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    c.insert(batch(&[(1, 1)]), None).unwrap();
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    database.drop_collection("default", "c").unwrap();
    assert!(database.collection("default", "c").is_err());
    assert!(c.insert(batch(&[(1, 1)]), None).is_err());
    assert!(matches!(c.count(None), Err(CollectionError::Dropped)));
    assert_eq!(std::fs::read_dir(dir.path().join("collections")).unwrap().count(), 0);
    let new = create(&database);
    assert_eq!(new.count(None).unwrap(), 0, "a new one of the same name is empty");
}
