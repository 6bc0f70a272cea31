//! A graph's directory, as the engine's live index writes it, is taken like the rest.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pipeann_db::catalog::UnixMs;
use pipeann_db::ids::{Metric, RowId, VectorType};
use pipeann_db::snapshot::{BackupOptions, backup_directory, restore, verify_backup};
use pipeann_engine::build::{BuildOptions, Silent, build};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::Accountant;
use pipeann_engine::types::VectorSet;
use pipeann_engine::update::{LiveIndex, LiveOptions};

use crate::data::{DIM, batch, bytes, collection, create, files, open, rows, vector};

const ROWS: u32 = 600;

fn open_options() -> OpenOptions {
    OpenOptions { direct: false, accountant: Accountant::new(None), ..OpenOptions::default() }
}

fn make_index(path: &Path) {
    let vectors: Vec<_> = (0..ROWS).map(vector).collect();
    let bytes = bytes(&vectors);
    let set = VectorSet::new(&bytes, DIM, VectorType::F32).unwrap();
    let mut options = BuildOptions::new(Metric::L2);
    options.graph.degree = 16;
    options.graph.list = 24;
    options.graph.threads = 1;
    options.graph.passes = 1;
    build(set, path, &options, &Silent, &AtomicBool::new(false)).unwrap();
}

#[test]
fn an_index_is_taken_as_of_one_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let database = open(&place("d"));
    let c = create(&database);
    c.insert(batch(&[(1, 1), (2, 2)]), None).unwrap();
    let id = c.entry().unwrap().id.0;
    let within = format!("collections/{id}/index-7");
    make_index(&place("d").join(&within));
    // One that is still being made has no manifest.
    std::fs::create_dir(place("d").join(format!("collections/{id}/index-8"))).unwrap();
    let options = LiveOptions { open: open_options(), ..LiveOptions::default() };
    let index = LiveIndex::open(&place("d").join(&within), options).unwrap();

    let (stop, checkpoints) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Each checkpoint removes the files of the one before.
            for row in ROWS.. {
                index.insert(RowId(u64::from(row)), &bytes(&[vector(row)])).unwrap();
                index.delete(RowId(u64::from(row - ROWS))).unwrap();
                if row % 3 == 0 {
                    index.checkpoint(u64::from(row)).unwrap();
                    checkpoints.fetch_add(1, Ordering::Relaxed);
                }
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0..5 {
            // However busy the machine is, the last one is of a later checkpoint than the build.
            while round == 4 && checkpoints.load(Ordering::Relaxed) < 2 && !writer.is_finished() {
                std::thread::yield_now();
            }
            let target = place(&format!("b{round}"));
            let options = BackupOptions { since: None, pins: None, now: UnixMs(1) };
            backup_directory(&place("d"), &target, &options).unwrap();
            taken.push(target);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    let mut before = 0;
    for backup in taken {
        assert_eq!(verify_backup(&backup).unwrap(), []);
        let restored = backup.with_extension("restored");
        restore(&backup, &restored).unwrap();
        let path = restored.join(&within);
        let index = Index::open(&path, &open_options()).unwrap();
        let manifest = index.manifest();
        assert!(manifest.applied >= before, "{} after {before}", manifest.applied);
        before = manifest.applied;
        assert_eq!(manifest.rows, u64::from(ROWS));
        let report = index.verify(&mut |_| {}).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        // Nothing of other generations.
        let found = files(&path).len();
        assert_eq!(found, manifest.files().len() + 1);
        drop(index);
        let options = LiveOptions { open: open_options(), ..LiveOptions::default() };
        let live = LiveIndex::open(&path, options).unwrap();
        live.insert(RowId(1 << 20), &bytes(&[vector(5)])).unwrap();
        live.checkpoint(1 << 20).unwrap();
        assert_eq!(rows(&collection(&open(&restored))), [(1, 1), (2, 2)]);
    }
    assert!(before > u64::from(ROWS), "a later checkpoint than the build was taken");
}
