//! What searches of a graph see: beside writers, of some partitions, at an earlier moment.

use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_db::catalog::EntryChange;
use pipeann_db::collection::SearchRequest;
use pipeann_db::database::{Database, ReadOnlyOptions};
use pipeann_db::ids::VectorType;
use pipeann_db::schema::PrimaryKey;
use pipeann_engine::types::VectorSet;

use crate::data::{
    DIM, FIELDS, batch, bytes, collection, create, distance, keys, open, options, place, search_by,
    seed, vector,
};
use crate::graph::{Model, built, compare, index, insert};

#[test]
fn searches_beside_writers_and_builds_see_each_key_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, _) = built(&database, 500);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..40u32 {
                // Each key keeps its vector, so that it is always the nearest to it.
                let key = i64::from(round % 20) * 25;
                let some: Vec<_> = (key..key + 25).map(|key| (key, key as u32 * 10)).collect();
                c.upsert(batch(&some), None).unwrap();
                if round == 20 {
                    c.build_index("graph").unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let reader = |first: i64| {
            let (c, stop) = (&c, &stop);
            move || {
                let mut key = first;
                while !stop.load(Ordering::Relaxed) {
                    key = (key + 37) % 500;
                    let hits = search_by(c, 3, vector(key as u32 * 10));
                    let same = hits.iter().filter(|hit| hit.distance == 0.0);
                    let found: Vec<_> = same.map(|hit| &hit.row.key).collect();
                    assert!(found.contains(&&PrimaryKey::Int64(key)), "key {key}: {found:?}");
                }
            }
        };
        let readers = [scope.spawn(reader(0)), scope.spawn(reader(13))];
        writer.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn searches_of_some_partitions_find_their_rows_and_batches_what_single_queries_do() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    for name in ["red", "blue"] {
        let partition = name.to_owned();
        database.apply(EntryChange::CreatePartition { place: place(), partition }).unwrap();
    }
    let mut model = Model::new();
    for key in 0..900i64 {
        model.insert(key, key as u32);
    }
    let of = |name: &str, rest: i64| {
        let rows: Vec<_> = (0..900).filter(|k| k % 3 == rest).map(|k| (k, k as u32)).collect();
        c.insert(batch(&rows), Some(name)).unwrap();
    };
    of("red", 0);
    of("blue", 1);
    of("_default", 2);
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    c.delete(&keys(&[0, 1])).unwrap();
    let near: Vec<_> = (0..40).map(|query| vector(query * 31 + 5)).collect();
    let queries = bytes(&near);
    let queries = VectorSet::new(&queries, DIM, VectorType::F32).unwrap();
    let all = SearchRequest {
        list: Some(80),
        output: FIELDS.into(),
        ..SearchRequest::new("v", queries, 5)
    };
    let found = c.search(&all).unwrap().hits;
    for (hits, &near) in found.iter().zip(&near) {
        let alone = search_by(&c, 5, near);
        assert_eq!(
            hits.iter().map(|h| &h.row.key).collect::<Vec<_>>(),
            alone.iter().map(|h| &h.row.key).collect::<Vec<_>>()
        );
    }
    let some = SearchRequest { partitions: Some(["red", "blue"].into()), ..all };
    let (mut right, mut wanted) = (0, 0);
    for (hits, &near) in c.search(&some).unwrap().hits.iter().zip(&near) {
        let inside = (2..900u32).filter(|key| key % 3 != 2);
        let mut truth: Vec<f32> = inside.map(|key| distance(near, vector(key))).collect();
        truth.sort_by(f32::total_cmp);
        assert_eq!(hits.len(), 5);
        for hit in hits {
            let seed = seed(&hit.row.values);
            assert!(seed % 3 != 2 && seed > 1, "row {seed} is elsewhere or deleted");
            right += usize::from(hit.distance <= truth[4] * 1.0001);
            wanted += 1;
        }
    }
    assert!(right * 100 >= wanted * 97, "{right} of {wanted}");
}

#[test]
fn snapshots_and_readers_see_the_graph_of_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let (c, mut model) = built(&database, 600);
    insert(&c, &mut model, 550..700, 1);
    c.wait_for_index("graph").unwrap();
    c.delete(&keys(&[4])).unwrap();
    model.remove(&4);
    let reader = ReadOnlyOptions::new(options());
    let reader = Database::open_read_only(&dir.path().join("db"), reader).unwrap();
    database.snapshot_to(&dir.path().join("copy")).unwrap();
    let then = model.clone();
    for round in 2..6 {
        insert(&c, &mut model, 0..700, round);
        c.flush().unwrap();
    }
    let read = collection(&reader);
    compare(&read, &then);
    assert!(read.index_status("graph").unwrap().linked > 0, "a reader searches the graph");
    let copy = open(&dir.path().join("copy"));
    let copied = collection(&copy);
    compare(&copied, &then);
    let mut changed = then.clone();
    insert(&copied, &mut changed, 0..300, 9);
    copied.wait_for_index("graph").unwrap();
    copied.flush().unwrap();
    compare(&copied, &changed);
    compare(&read, &then);
    compare(&c, &model);
}
