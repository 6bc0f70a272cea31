//! A graph in the place of another: one that cannot be opened just then, and one that the log lacks
//! rows of.

use std::fs;
use std::path::PathBuf;

use pipeann_db::catalog::IndexState;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_db::wal::Level;

use crate::data::{collection, create, eventually, options, search_by, vector};
use crate::full_disk::copy_tree;
use crate::gate::Gate;
use crate::graph::{Model, built, compare, index, insert};

#[test]
fn a_new_graph_that_cannot_be_opened_takes_its_place_as_soon_as_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::new();
    let mut settings = options();
    settings.collection.graph.backend = Some(gate.clone());
    // No file is opened that the test knows nothing of.
    settings.collection.graph.dirty_bytes = 1 << 30;
    let database = Database::open(dir.path(), settings.clone()).unwrap();
    let (c, mut model) = built(&database, 600);
    // Beside the one before it is not opened, and after that one it is.
    gate.refuse(1);
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 600 }, 600));
    insert(&c, &mut model, 550..620, 1);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 620);
    c.flush().unwrap();
    compare(&c, &model);
    // It is not opened at all: all rows are compared.
    gate.refuse(usize::MAX);
    c.build_index("graph").unwrap();
    let status = c.wait_for_index("graph").unwrap();
    assert_eq!((status.state, status.linked), (IndexState::Finished { rows: 620 }, 0));
    let failed = || c.index_status("graph").unwrap().failed;
    eventually(failed, |why| why.as_ref().is_some_and(|why| why.contains("cannot open")));
    insert(&c, &mut model, 620..1200, 0);
    compare(&c, &model);
    gate.refuse(0);
    insert(&c, &mut model, 1200..1201, 0);
    eventually(|| c.index_status("graph").unwrap().linked, |&linked| linked == 1201);
    compare(&c, &model);
    c.flush().unwrap();
    drop((c, database));
    let database = Database::open(dir.path(), settings).unwrap();
    let c = collection(&database);
    assert_eq!(c.index_status("graph").unwrap().linked, 1201);
    compare(&c, &model);
}

/// Writes are not synced, nothing is flushed, and graphs stay as they are built.
fn unsynced() -> DatabaseOptions {
    let mut settings = options();
    settings.collection.log.level = Level::None;
    settings.collection.flush_log_bytes = 1 << 30;
    settings.collection.row_buffer_bytes = 16 << 20;
    settings.collection.tail_bytes = 16 << 20;
    settings.collection.scalar_buffer_bytes = 16 << 20;
    settings.collection.graph.dirty_bytes = 1 << 30;
    settings.collection.graph.deleted_share = 10.0;
    settings.collection.graph.strewn_share = 10.0;
    settings
}

#[test]
fn a_graph_of_rows_that_the_log_has_lost_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("database");
    let open = || Database::open(&path, unsynced()).unwrap();
    let log = || -> PathBuf {
        let mut collections = fs::read_dir(path.join("collections")).unwrap();
        collections.next().unwrap().unwrap().path().join("wal")
    };
    let database = open();
    let c = create(&database);
    let mut model = Model::new();
    insert(&c, &mut model, 0..600, 0);
    drop((c, database));
    let kept = dir.path().join("kept");
    copy_tree(&log(), &kept);
    let database = open();
    let c = collection(&database);
    let mut lost = model.clone();
    insert(&c, &mut lost, 600..1000, 0);
    database.apply(index(&[])).unwrap();
    c.build_index("graph").unwrap();
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 1000);
    drop((c, database));
    // As after a power cut.
    fs::remove_dir_all(log()).unwrap();
    copy_tree(&kept, &log());
    let database = open();
    let c = collection(&database);
    compare(&c, &model);
    // They get the ids of those that were lost.
    insert(&c, &mut model, 600..1000, 1);
    assert_eq!(c.wait_for_index("graph").unwrap().linked, 1000);
    compare(&c, &model);
    let killed = dir.path().join("killed");
    copy_tree(&path, &killed);
    let again = Database::open(&killed, unsynced()).unwrap();
    let c = collection(&again);
    compare(&c, &model);
    let is_found = |key: &i64| search_by(&c, 1, vector(model[key]))[0].distance == 0.0;
    let found = (600..1000).filter(is_found).count();
    assert!(found >= 390, "{found} of 400 where they are");
}
