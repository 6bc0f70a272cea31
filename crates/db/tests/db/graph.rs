//! Collections with a graph: what is found, while it is built, changed, released, dropped, lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_db::catalog::{EntryChange, IndexState, NewIndex, Properties};
use pipeann_db::collection::{Collection, CollectionError};
use pipeann_db::database::Database;
use pipeann_db::ids::Metric;
use pipeann_db::schema::PrimaryKey;

use crate::data::{
    batch, collection, create, distance, eventually, keys, load, open, options, place, rows,
    search_by, seed, vector,
};

/// What a collection should hold: the seed of each key.
pub(crate) type Model = BTreeMap<i64, u32>;

pub(crate) fn index(parameters: &[(&str, &str)]) -> EntryChange {
    let parameters: Properties =
        parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let kind = "DISKANN".to_owned();
    let (field, name, metric) = ("v".to_owned(), Some("graph".to_owned()), Some(Metric::L2));
    EntryChange::CreateIndex {
        place: place(),
        new: NewIndex { field, name, kind, metric, parameters },
    }
}

pub(crate) fn insert(c: &Collection, model: &mut Model, keys: std::ops::Range<i64>, round: u32) {
    for some in keys.collect::<Vec<_>>().chunks(200) {
        let rows: Vec<_> = some.iter().map(|&key| (key, key as u32 * 10 + round)).collect();
        c.upsert(batch(&rows), None).unwrap();
        model.extend(rows);
    }
}

/// Checks rows and count, and that searches find what an exact search would, but for a few.
pub(crate) fn compare(c: &Collection, model: &Model) {
    let mut found = rows(c);
    found.sort_unstable();
    assert_eq!(found, model.iter().map(|(k, s)| (*k, *s)).collect::<Vec<_>>());
    assert!(recall(c, model) >= 0.97);
}

fn recall(c: &Collection, model: &Model) -> f64 {
    let (mut right, mut wanted) = (0, 0);
    for query in 0..50 {
        let near = vector(query * 7919 + 3);
        let mut all: Vec<f32> = model.values().map(|&s| distance(near, vector(s))).collect();
        all.sort_by(f32::total_cmp);
        let hits = search_by(c, 10, near);
        assert_eq!(hits.len(), all.len().min(10), "as many as there are");
        let mut seen = Vec::new();
        for hit in &hits {
            let PrimaryKey::Int64(key) = hit.row.key else { panic!("{:?}", hit.row.key) };
            assert_eq!(model.get(&key), Some(&seed(&hit.row.values)), "a row that is not there");
            assert!(!seen.contains(&key), "key {key} twice");
            seen.push(key);
        }
        let kth = all[hits.len() - 1];
        right += hits.iter().filter(|hit| hit.distance <= kth * 1.0001).count();
        wanted += hits.len();
    }
    right as f64 / wanted as f64
}

/// A collection of `count` rows with a graph over them.
pub(crate) fn built(database: &Database, count: i64) -> (std::sync::Arc<Collection>, Model) {
    let c = create(database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..count, 0);
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!(status.state, IndexState::Finished { rows: count as u64 });
    assert_eq!((status.linked, status.pending, status.deleted), (count as u64, 0, 0));
    (c, model)
}

fn graph_dir(dir: &Path) -> PathBuf {
    let collection = std::fs::read_dir(dir.join("collections")).unwrap().next().unwrap().unwrap();
    let mut inside = std::fs::read_dir(collection.path()).unwrap().flatten();
    let found = inside.find(|file| file.file_name().to_str().unwrap().starts_with("index-"));
    found.expect("a graph").path()
}

#[test]
fn rows_are_found_before_and_after_the_build_and_those_that_come_later_join_it() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, mut model) = built(&database, 1500);
    compare(&c, &model);
    insert(&c, &mut model, 1400..2100, 1);
    c.delete(&keys(&(100..400).collect::<Vec<_>>())).unwrap();
    model.retain(|key, _| !(100..400).contains(key));
    compare(&c, &model);
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.linked, status.pending), (model.len() as u64, 0));
    compare(&c, &model);
    assert_eq!(c.verify().unwrap(), []);
}

#[test]
fn keys_that_repeat_more_often_than_a_list_is_long_are_answered_once() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, _) = built(&database, 800);
    let of_three: Vec<_> = (0..70_000).map(|row| (1000 + row % 3, 7)).collect();
    of_three.chunks(10_000).for_each(|some| drop(c.insert(batch(some), None).unwrap()));
    let hits = search_by(&c, 10, vector(7));
    let (near, far) = hits.split_at(3);
    let mut near: Vec<_> = near.iter().map(|hit| (&hit.row.key, hit.distance)).collect();
    near.sort_by(|a, b| a.0.cmp(b.0));
    let wanted = [1000, 1001, 1002].map(PrimaryKey::Int64);
    assert_eq!(near, wanted.iter().map(|key| (key, 0.0)).collect::<Vec<_>>());
    assert!(far.len() == 7 && far.iter().all(|hit| seed(&hit.row.values) != 7));
}

#[test]
fn a_graph_is_there_after_opening_again_with_and_without_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, mut model) = built(&database, 800);
    drop((c, database));
    for round in 1..6 {
        let database = open(dir.path());
        let c = collection(&database);
        let status = c.index_status("graph").unwrap();
        // Rows of the log are entering the graph meanwhile, and those count twice for a moment.
        assert!(status.linked + status.pending >= model.len() as u64, "{status:?}");
        compare(&c, &model);
        let first = i64::from(round) * 100;
        insert(&c, &mut model, first..first + 300, round);
        c.delete(&keys(&[first, first + 1])).unwrap();
        model.retain(|key, _| ![first, first + 1].contains(key));
        if round % 2 == 0 {
            let status = c.wait_for_index("graph").unwrap();
            assert_eq!((status.linked, status.pending), (model.len() as u64, 0));
            c.flush().unwrap();
            c.delete(&keys(&[first + 5])).unwrap();
            model.remove(&(first + 5));
        }
        if round == 3 {
            c.wait_for_index("graph").unwrap();
        }
    }
    let database = open(dir.path());
    compare(&collection(&database), &model);
}

#[test]
fn links_of_the_log_are_made_again_without_searching() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.collection.graph.dirty_bytes = 1 << 30;
    let database = Database::open(dir.path(), settings.clone()).unwrap();
    let (c, mut model) = built(&database, 600);
    insert(&c, &mut model, 600..900, 0);
    c.wait_for_index("graph").unwrap();
    // The log is written together with the next record that somebody waits for.
    c.delete(&keys(&[0])).unwrap();
    model.remove(&0);
    drop((c, database));
    let database = Database::open(dir.path(), settings).unwrap();
    let c = collection(&database);
    compare(&c, &model);
    let before = c.stats().visible;
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.linked, status.pending), (899, 0));
    assert_eq!(c.stats().visible, before, "no link had to be made anew and logged");
    compare(&c, &model);
}

#[test]
fn many_replacements_leave_the_graph_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, mut model) = built(&database, 600);
    for round in 1..8 {
        for part in 0..6 {
            insert(&c, &mut model, part * 100..(part + 1) * 100, round);
        }
        assert!(recall(&c, &model) >= 0.97, "round {round}");
    }
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.linked, status.pending), (600, 0));
    assert!(status.deleted < 600, "{} rows were never taken out", status.deleted);
    c.flush().unwrap();
    compare(&c, &model);
    drop((c, database));
    let database = open(dir.path());
    compare(&collection(&database), &model);
}

#[test]
fn a_graph_comes_when_there_are_rows_enough() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let mut model = Model::new();
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().state, IndexState::Finished { rows: 0 });
    insert(&c, &mut model, 0..200, 0);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 0);
    compare(&c, &model);
    insert(&c, &mut model, 200..700, 0);
    let linked = || c.wait_for_index("graph").unwrap().linked;
    while linked() < 700 {
        std::thread::yield_now();
    }
    compare(&c, &model);
}

#[test]
fn a_first_search_has_the_graph_built_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.collection.build_on_read = true;
    let database = Database::open(dir.path(), settings).unwrap();
    let c = create(&database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..500, 0);
    database.apply(index(&[])).unwrap();
    assert_eq!(c.index_status("graph").unwrap().state, IndexState::NotBuilt);
    compare(&c, &model);
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 500 }, 500));
    compare(&c, &model);
}

#[test]
fn a_released_collection_gives_its_memory_back_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let settings = options();
    let accountant = settings.collection.accountant.clone();
    let database = Database::open(dir.path(), settings).unwrap();
    let c = create(&database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..1000, 0);
    let before = accountant.held_bytes();
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    c.wait_for_index("graph").unwrap();
    let loaded = accountant.held_bytes();
    assert!(loaded > before + 100_000, "{loaded} after {before}");
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    // Flat vectors may have grown a little in between, and a step of maintenance that was under way
    // keeps the graph until it ends.
    eventually(|| accountant.held_bytes(), |&held| held < before + 10_000);
    insert(&c, &mut model, 900..1300, 1);
    c.delete(&keys(&[3])).unwrap();
    model.remove(&3);
    load(&database);
    compare(&c, &model);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, model.len() as u64);
    compare(&c, &model);
}

#[test]
fn an_index_is_dropped_and_made_anew_with_other_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, model) = built(&database, 700);
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    let path = graph_dir(dir.path());
    database.apply(EntryChange::DropIndex { place: place(), index: "graph".to_owned() }).unwrap();
    assert!(!path.exists());
    load(&database);
    compare(&c, &model);
    let wrong = [("max_degree", "many")];
    database.apply(index(&wrong)).unwrap();
    c.build_index("graph").unwrap();
    let IndexState::Failed { reason } = c.wait_for_index("graph").unwrap().state else { panic!() };
    assert!(reason.contains("`max_degree` is \"many\""), "{reason}");
    compare(&c, &model);
    database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
    database.apply(EntryChange::DropIndex { place: place(), index: "graph".to_owned() }).unwrap();
    database.apply(index(&[("max_degree", "24"), ("search_list_size", "40")])).unwrap();
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().state, IndexState::Finished { rows: 700 });
    load(&database);
    compare(&c, &model);
    let index = pipeann_engine::index::Index::open(
        &graph_dir(dir.path()),
        &pipeann_engine::index::OpenOptions { direct: false, ..Default::default() },
    );
    assert_eq!(index.unwrap().layout().max_degree(), 24);
}

#[test]
fn a_damaged_or_lost_graph_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, model) = built(&database, 600);
    c.flush().unwrap();
    drop((c, database));
    let path = graph_dir(dir.path());
    let damages: [&dyn Fn(); 3] = [
        &|| std::fs::remove_dir_all(&path).unwrap(),
        &|| std::fs::remove_file(path.join("MANIFEST")).unwrap(),
        &|| {
            let file = path.join("MANIFEST");
            let mut bytes = std::fs::read(&file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(&file, bytes).unwrap();
        },
    ];
    for damage in damages {
        damage();
        let database = open(dir.path());
        let c = collection(&database);
        compare(&c, &model);
        assert_eq!(c.wait_for_index("graph").unwrap().linked, 600);
        compare(&c, &model);
    }
}

/// The segment of a graph with most pages.
fn pages_of(graph: &Path) -> PathBuf {
    let files = std::fs::read_dir(graph.join("part-0000")).unwrap().flatten();
    let segments = files.filter(|f| f.file_name().to_string_lossy().starts_with("segment"));
    segments.max_by_key(|f| f.metadata().unwrap().len()).expect("a segment").path()
}

#[test]
fn verifying_reads_the_pages_of_graphs_that_are_open_released_or_lost() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let (c, _) = built(&database, 600);
    c.flush().unwrap();
    let found = |c: &Collection| {
        let findings = c.verify().unwrap();
        findings.into_iter().map(|f| format!("{}: {}", f.component, f.what)).collect::<Vec<_>>()
    };
    let graph = graph_dir(dir.path());
    let file = pages_of(&graph);
    let whole = std::fs::read(&file).unwrap();
    let flip = || {
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&file, bytes).unwrap();
    };
    for open in [true, false] {
        if !open {
            database.apply(EntryChange::Release { place: place(), partitions: None }).unwrap();
        }
        assert_eq!(found(&c), Vec::<String>::new(), "open: {open}");
        flip();
        let findings = found(&c);
        assert!(!findings.is_empty(), "open: {open}");
        assert!(findings.iter().all(|f| f.starts_with("graph of field `v`: ")), "{findings:?}");
        assert!(findings[0].contains("page "), "{findings:?}");
        std::fs::write(&file, &whole).unwrap();
    }
    std::fs::remove_dir_all(&graph).unwrap();
    let findings = found(&c);
    assert!(findings.len() == 1 && findings[0].ends_with("is missing"), "{findings:?}");
}

#[test]
fn a_build_that_does_not_fit_the_memory_limit_says_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let settings = options();
    let accountant = settings.collection.accountant.clone();
    let database = Database::open(dir.path(), settings).unwrap();
    let c = create(&database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..500, 0);
    database.apply(index(&[])).unwrap();
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (4 << 20)));
    c.build_index("graph").unwrap();
    let IndexState::Failed { reason } = c.wait_for_index("graph").unwrap().state else { panic!() };
    assert!(reason.contains("the build does not fit"), "{reason}");
    compare(&c, &model);
    accountant.set_limit_bytes(None);
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 500);
}

#[test]
fn an_interrupted_build_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..4000, 0);
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    drop((c, database));
    let database = open(dir.path());
    let c = collection(&database);
    compare(&c, &model);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 4000);
    compare(&c, &model);
}

#[test]
fn an_index_that_there_is_not_is_not_built() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    assert!(matches!(c.build_index("graph"), Err(CollectionError::Catalog(_))));
    assert!(matches!(c.wait_for_index("graph"), Err(CollectionError::Catalog(_))));
}

#[test]
fn a_graph_that_has_hardly_any_memory_left_goes_on_when_there_is_more() {
    let dir = tempfile::tempdir().unwrap();
    let settings = options();
    let accountant = settings.collection.accountant.clone();
    let database = Database::open(dir.path(), settings).unwrap();
    let (c, mut model) = built(&database, 600);
    insert(&c, &mut model, 550..650, 1);
    c.wait_for_index("graph").unwrap();
    accountant.set_limit_bytes(Some(accountant.held_bytes() + (4 << 20)));
    // Whether there is room for a checkpoint is the graph's affair; it ends nothing.
    if let Err(error) = c.flush() {
        assert!(matches!(error, CollectionError::Index { .. }), "{error}");
    }
    insert(&c, &mut model, 590..620, 3);
    compare(&c, &model);
    accountant.set_limit_bytes(None);
    insert(&c, &mut model, 600..800, 2);
    c.delete(&keys(&[7])).unwrap();
    model.remove(&7);
    compare(&c, &model);
    while c.wait_for_index("graph").unwrap().linked != model.len() as u64 {
        std::thread::yield_now();
    }
    c.flush().unwrap();
    compare(&c, &model);
    drop((c, database));
    let database = open(dir.path());
    compare(&collection(&database), &model);
}

#[test]
fn vectors_of_deleted_rows_leave_the_disk_while_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let c = create(&database);
    let mut model = Model::new();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for (key, found) in rows(&c) {
                    assert_eq!(i64::from(found / 10), key);
                }
            }
        });
        for round in 0..10 {
            insert(&c, &mut model, 0..600, round);
            c.flush().unwrap();
            let kept = c.stats().vectors[0].1;
            assert!(kept <= 2 * 600 + 1_000, "{kept} vectors are kept");
        }
        ended.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    compare(&c, &model);
    drop((c, database));
    let database = open(dir.path());
    compare(&collection(&database), &model);
}
