use std::path::Path;
use std::process::Command;

use pipeann_db::catalog::NewCollection;
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, ScalarType, VectorKind};
use pipeann_store::{ShardGenerations, ShardId};
use uuid::Uuid;

use super::*;
use crate::clustered::figures::{FiguredServer, families};
use crate::opening::database_options;

/// The one server of a cluster, which publishes soon.
fn joined(root: &Path, name: &str) -> JoinedServer {
    let url = format!("file://{}", root.join("store").display());
    let (store, dir) = (ClusterStore::open(&url, "test").unwrap(), root.join(name));
    let file = ReplicaFile::open(&dir, store.cluster_id(), Uuid::new_v4()).unwrap();
    let (members, tls, generation_bytes, keep_log) = (None, None, Some(100), None);
    let (gc_grace, held) = (None, Mutex::default());
    JoinedServer { dir, store, file, members, tls, generation_bytes, keep_log, gc_grace, held }
}

fn open(joined: JoinedServer) -> Option<Opened> {
    let (cut_off, _told) = sync_channel(1);
    joined.open(database_options(None), cut_off, &AtomicBool::new(false)).unwrap()
}

fn replica_of(opened: &Opened) -> &Replica {
    let Opened::Clustered { replica, .. } = opened else { panic!("it is one of several") };
    replica
}

fn create(opened: &Opened, name: &str) {
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(4))
        .build()
        .unwrap();
    let new = NewCollection::new(schema);
    opened.database().create_collection("default", name, new).unwrap();
}

#[test]
fn a_server_that_the_log_passed_by_while_it_began_begins_anew_with_files() {
    let root = tempfile::tempdir().unwrap();
    let a = open(joined(root.path(), "a")).unwrap();
    create(&a, "first");
    a.close();
    let copied = Command::new("cp").arg("-r").args(["a", "b"]).current_dir(root.path()).status();
    assert!(copied.unwrap().success());
    let b = joined(root.path(), "b");
    assert!(!b.wants_generation().unwrap());
    let at = b.file.position().unwrap();
    let a = open(joined(root.path(), "a")).unwrap();
    let is_cut = || b.store.log_begin(ShardId(0)).unwrap() > at.number + 1;
    let generations = ShardGenerations::new(&b.store, ShardId(0));
    // One for each generation: all files of all collections are put with each.
    for number in 0..10 {
        let there = generations.ids().unwrap();
        create(&a, &format!("more_{number}"));
        let until = Instant::now() + Duration::from_secs(60);
        let comes = |_: &Replica| is_cut() || generations.ids().unwrap().last() > there.last();
        assert!(replica_of(&a).wait_until(until, comes), "no generation is published");
    }
    assert!(is_cut(), "the log is not cut");
    a.close();
    // It has looked whether it wants files before that.
    assert!(open(b).is_none());
    let b = joined(root.path(), "b");
    assert!(b.wants_generation().unwrap());
    b.take_generation(&AtomicBool::new(false)).unwrap();
    let b = open(b).unwrap();
    assert!(b.database().collection("default", "more_0").is_ok());
    b.close();
}

#[test]
fn who_is_interrupted_while_files_come_waits_no_longer() {
    let root = tempfile::tempdir().unwrap();
    let interrupted = joined(root.path(), "a").take_generation(&AtomicBool::new(true));
    assert!(interrupted.unwrap_err().is::<interrupt::Interrupted>());
}

#[test]
fn a_start_goes_on_as_long_as_it_gets_on() {
    let from = Instant::now();
    let at = |number| Some(Position { term: 1, number });
    let mut progress = StartProgress::new(at(1), from);
    assert!(!progress.has_stopped(at(1), from + START / 2));
    assert!(!progress.has_stopped(at(2), from + START));
    assert!(!progress.has_stopped(at(2), from + START * 3 / 2));
    assert!(progress.has_stopped(at(2), from + START * 2));
}

#[test]
fn figures_name_the_cluster() {
    let root = tempfile::tempdir().unwrap();
    let a = open(joined(root.path(), "a")).unwrap();
    let of = FiguredServer { replica: replica_of(&a), members: None, began: Instant::now() };
    let all = families(&of);
    let info = all.iter().find(|family| family.name == "pipeann_cluster_info").unwrap();
    let label = info.values[0].0.as_ref().unwrap();
    assert_eq!((label.0, &*label.1), ("cluster", "test"));
    a.close();
}
