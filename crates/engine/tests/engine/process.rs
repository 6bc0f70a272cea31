//! Several processes and one index; builds that are refused or stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_engine::build::{BuildError, BuildOptions, Progress, Silent, Stage, build};
use pipeann_engine::index::Index;
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, RowId, VectorType};

use crate::data::{build_in, clustered, open, open_options, options};

#[test]
fn readers_keep_what_they_opened_while_a_build_replaces_it() {
    let base = clustered(300, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let readers = [open(&path), open(&path)];
    let other = clustered(200, 16, VectorType::U8, 7);
    build_in(&path, &other, &BuildOptions { overwrite: true, ..options(Metric::L2) });
    let params = SearchParams::default();
    for index in &readers {
        let answer = index.search(base.set().row(250), &params, None).unwrap();
        assert_eq!((answer.hits[0].row.0, answer.hits[0].distance), (250, 0.0));
        let allow = Some(Arc::new(index.allow_rows(&[RowId(299), RowId(3)]).unwrap()));
        let answer = index.search(base.set().row(250), &params, allow).unwrap();
        assert_eq!(answer.hits.len(), 2);
    }
    let after = open(&path);
    assert_eq!(after.rows(), 200);
    assert_eq!(after.search(other.set().row(9), &params, None).unwrap().hits[0].row.0, 9);
}

#[test]
fn an_existing_index_is_not_overwritten_unasked() {
    let base = clustered(300, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let uuid = open(&path).manifest().uuid;
    let none = AtomicBool::new(false);
    let refused = build(base.set(), &path, &options(Metric::L2), &Silent, &none).unwrap_err();
    assert!(matches!(refused, BuildError::Exists { .. }), "{refused}");
    assert_eq!(open(&path).manifest().uuid, uuid);
}

/// Raises the flag when a stage begins.
struct StopAt<'a>(Stage, &'a AtomicBool);

impl Progress for StopAt<'_> {
    fn stage(&self, stage: Stage, _: u64) {
        if stage == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
    fn advance(&self, _: u64) {}
}

#[test]
fn a_build_stopped_at_any_stage_leaves_nothing_that_opens() {
    let base = clustered(2000, 16, VectorType::U8, 1);
    let stages =
        [Stage::Check, Stage::Encode, Stage::Graph, Stage::Order, Stage::Head, Stage::Write];
    for stage in stages {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        let cancel = AtomicBool::new(false);
        let stop = StopAt(stage, &cancel);
        let stopped = build(base.set(), &path, &options(Metric::L2), &stop, &cancel).unwrap_err();
        assert!(matches!(stopped, BuildError::Cancelled(_)), "{}: {stopped}", stage.name());
        assert!(Index::open(&path, &open_options()).is_err(), "stopped at {}", stage.name());
        let left: u64 = std::fs::read_dir(dir.path()).unwrap().count() as u64;
        assert!(left <= 1, "stopped at {}: {left} entries left", stage.name());
        build_in(&path, &base, &options(Metric::L2));
        open(&path);
    }
}

#[test]
#[expect(unsafe_code, reason = "forks to use an inherited index in the child")]
fn a_forked_child_gets_a_clear_error() {
    let base = clustered(300, 16, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("i");
    build_in(&path, &base, &options(Metric::L2));
    let index = open(&path);
    index.wait_resident().unwrap();
    index.search(base.set().row(1), &SearchParams::default(), None).unwrap();
    // SAFETY: the child calls only a search that returns before it allocates a lock that another
    // thread may hold, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = index.search(base.set().row(1), &SearchParams::default(), None);
        let clear = matches!(refused, Err(pipeann_engine::index::QueryError::Forked { .. }));
        // SAFETY: ends the child without running destructors of the parent's threads.
        unsafe { libc::_exit(i32::from(!clear)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child was refused with QueryError::Forked");
    index.search(base.set().row(1), &SearchParams::default(), None).unwrap();
}
