//! A checkpoint that fails, or ends in a power cut, at each of its file operations.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::{
    Place, Rows, assert_sound, built, delete_all, insert_all, live, live_with, params, read_only,
};
use crate::types::RowId;
use crate::update::{CheckpointReport, DiskFiles, Files, LiveIndex, NewFile, Rewrite, UpdateError};

/// What is not on stable storage yet.
#[derive(Default)]
struct Doubt {
    /// Operations until the failure; the failing one and all later ones fail.
    left: Option<usize>,
    /// Files with bytes that no sync has covered.
    unsynced: Vec<PathBuf>,
    /// The file before the last rename, until its directory is synced.
    renamed: Option<(PathBuf, Vec<u8>)>,
    /// Removed files, until their directory is synced.
    removed: HashMap<PathBuf, Vec<u8>>,
}

/// The file system, failing from the `n`-th operation on.
#[derive(Clone, Default)]
struct FailingFiles(Arc<Mutex<Doubt>>);

impl FailingFiles {
    fn step(&self) -> io::Result<()> {
        let mut doubt = self.0.lock().unwrap();
        match &mut doubt.left {
            Some(0) => return Err(io::Error::other("the test fails this operation")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    /// Loses what a power cut may lose: unsynced files are torn, an exchange without the sync
    /// of its directory is undone, and so are removals.
    fn cut_power(&self) {
        let doubt = std::mem::take(&mut *self.0.lock().unwrap());
        for path in doubt.unsynced {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) {
                let bytes = file.metadata().unwrap().len();
                file.set_len(bytes / 2).unwrap();
            }
        }
        if let Some((path, before)) = doubt.renamed {
            std::fs::write(path, before).unwrap();
            for (path, bytes) in doubt.removed {
                std::fs::write(path, bytes).unwrap();
            }
        }
    }
}

impl Files for FailingFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        self.0.lock().unwrap().unsynced.push(path.to_owned());
        let file = DiskFiles.create(path)?;
        Ok(Box::new(FailingFile { file, path: path.to_owned(), files: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let before = std::fs::read(to)?;
        assert!(self.0.lock().unwrap().unsynced.is_empty(), "all files are synced before");
        DiskFiles.rename(from, to)?;
        self.0.lock().unwrap().renamed = Some((to.to_owned(), before));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let mut doubt = self.0.lock().unwrap();
        if doubt.renamed.as_ref().is_some_and(|(to, _)| to.parent() == Some(path)) {
            doubt.renamed = None;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let bytes = std::fs::read(path)?;
        let mut doubt = self.0.lock().unwrap();
        assert!(doubt.renamed.is_none(), "the exchange is on stable storage before files go");
        doubt.unsynced.retain(|p| p != path);
        doubt.removed.insert(path.to_owned(), bytes);
        DiskFiles.remove(path)
    }
}

struct FailingFile {
    file: Box<dyn NewFile>,
    path: PathBuf,
    files: FailingFiles,
}

impl NewFile for FailingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.files.step() {
            Ok(()) => self.file.append(bytes),
            Err(e) => {
                // A torn write.
                self.file.append(&bytes[..bytes.len() / 2])?;
                Err(e)
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.step()?;
        self.files.0.lock().unwrap().unsynced.retain(|p| *p != self.path);
        Ok(())
    }
}

const BUILT: usize = 150;
const ALL: usize = 200;

fn assert_rows(path: &Path, rows: &Rows, applied: u64) {
    assert_sound(path);
    let index = read_only(path);
    assert_eq!(index.manifest().applied, applied);
    let live: Vec<usize> = if applied == 0 { (0..BUILT).collect() } else { (10..ALL).collect() };
    assert_eq!(index.rows(), live.len() as u64);
    for row in (0..ALL).step_by(7) {
        let hits = index.search(rows.row(row), &params(100), None).unwrap().hits;
        let found = hits[0].row == RowId(row as u64) && hits[0].distance == 0.0;
        assert_eq!(found, live.contains(&row), "row {row} at {applied}");
    }
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_or_the_new_generation() {
    crash_everywhere(LiveIndex::checkpoint);
}

#[test]
fn a_crash_at_any_operation_of_a_rewrite_leaves_the_old_or_the_new_generation() {
    crash_everywhere(|index, applied| index.rewrite(applied, Rewrite { retrain: true }));
}

/// A copy with changes that are not on disk yet, whose `nth` operation on files from now on fails.
fn failing_at(original: &Place, rows: &Rows, nth: usize) -> (Place, FailingFiles, LiveIndex) {
    let place = original.copy();
    let files = FailingFiles::default();
    let index = live_with(&place.path, Arc::new(files.clone()));
    insert_all(&index, rows, BUILT..ALL);
    delete_all(&index, 0..10);
    files.0.lock().unwrap().left = Some(nth);
    (place, files, index)
}

fn crash_everywhere(write: impl Fn(&LiveIndex, u64) -> Result<CheckpointReport, UpdateError>) {
    let rows = Rows::clustered(ALL, 16, 1);
    let original = built(&rows, BUILT);
    let mut outcomes = [0, 0];
    let mut undisturbed = false;
    for nth in 0.. {
        let (place, files, index) = failing_at(&original, &rows, nth);
        let answered = write(&index, 5).is_ok();
        undisturbed |= files.0.lock().unwrap().left > Some(0);
        drop(index);
        files.cut_power();
        let applied = read_only(&place.path).manifest().applied;
        assert!(applied == 5 || !answered, "a checkpoint that was answered stays");
        assert_rows(&place.path, &rows, applied);
        outcomes[usize::from(applied == 5)] += 1;
        // The directory can be written to again, and what the crash has left is gone.
        let index = live(&place.path);
        if applied == 0 {
            insert_all(&index, &rows, BUILT..ALL);
            delete_all(&index, 0..10);
        }
        write(&index, 6).unwrap();
        drop(index);
        assert_rows(&place.path, &rows, 6);
        let left = std::fs::read_dir(place.path.join("part-0000")).unwrap().count();
        let named = read_only(&place.path).manifest().files().len() - 2;
        assert_eq!(left, named, "no stray files");
        // Beside head index and codebook: the manifest, the lock and the partition.
        assert_eq!(std::fs::read_dir(&place.path).unwrap().count(), 2 + 3, "no stray files");
        if undisturbed {
            break;
        }
    }
    assert!(outcomes[0] > 20 && outcomes[1] > 3, "{outcomes:?}");
}

#[test]
fn an_exchange_that_was_not_synced_is_before_files_of_the_old_generation_go() {
    let rows = Rows::clustered(ALL, 16, 1);
    let original = built(&rows, BUILT);
    for nth in 0.. {
        let (place, files, index) = failing_at(&original, &rows, nth);
        assert!(index.checkpoint(5).is_err());
        drop(index);
        if read_only(&place.path).manifest().applied == 0 {
            continue;
        }
        // The process ended between the exchange and its sync; another one opens the index.
        files.0.lock().unwrap().left = None;
        drop(live_with(&place.path, Arc::new(files.clone())));
        assert!(!files.0.lock().unwrap().removed.is_empty(), "old files go");
        files.cut_power();
        return assert_rows(&place.path, &rows, 5);
    }
}

#[test]
fn a_checkpoint_that_fails_can_be_tried_again() {
    let rows = Rows::clustered(ALL, 16, 1);
    let place = built(&rows, BUILT);
    let files = FailingFiles::default();
    let index = live_with(&place.path, Arc::new(files.clone()));
    insert_all(&index, &rows, BUILT..ALL);
    // The second operation is the first write of the segment: a full disk.
    files.0.lock().unwrap().left = Some(1);
    let failed = index.checkpoint(1).unwrap_err();
    assert!(matches!(failed, UpdateError::File { action: "write", .. }), "{failed}");
    files.0.lock().unwrap().left = None;
    assert_eq!(index.rows(), ALL as u64);
    index.insert(RowId(500), rows.row(0)).unwrap();
    index.checkpoint(2).unwrap();
    drop(index);
    assert_sound(&place.path);
    assert_eq!(read_only(&place.path).rows(), ALL as u64 + 1);
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_searches_go_on() {
    let rows = Rows::clustered(ALL, 16, 1);
    let place = built(&rows, BUILT);
    let files = FailingFiles::default();
    let index = live_with(&place.path, Arc::new(files.clone()));
    insert_all(&index, &rows, BUILT..ALL);
    let segment_writes = {
        // Fail at growing distances until the failure is a sync.
        let mut nth = 0;
        loop {
            files.0.lock().unwrap().left = Some(nth);
            match index.checkpoint(1) {
                Err(UpdateError::File { action: "sync", .. }) => break nth,
                Err(UpdateError::File { .. }) => nth += 1,
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(segment_writes > 2);
    files.0.lock().unwrap().left = None;
    let refused = index.insert(RowId(999), rows.row(0)).unwrap_err();
    assert!(matches!(refused, UpdateError::Poisoned(_)), "{refused}");
    assert!(matches!(index.checkpoint(2), Err(UpdateError::Poisoned(_))));
    assert!(matches!(index.delete(RowId(3)), Err(UpdateError::Poisoned(_))));
    let hits = index.search(rows.row(ALL - 1), &params(50), None).unwrap().hits;
    assert_eq!(hits[0].row, RowId(ALL as u64 - 1));
    drop(index);
    assert_eq!(live(&place.path).rows(), BUILT as u64);
}

/// The file system, with a row deleted at every file that is created.
#[derive(Default)]
struct DeletingFiles {
    index: OnceLock<Weak<LiveIndex>>,
    deleted: Mutex<u64>,
}

impl Files for DeletingFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if let Some(index) = self.index.get().and_then(Weak::upgrade) {
            let mut deleted = self.deleted.lock().unwrap();
            assert!(index.delete(RowId(*deleted)).unwrap());
            *deleted += 1;
        }
        DiskFiles.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskFiles.rename(from, to)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.sync_dir(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskFiles.remove(path)
    }
}

#[test]
fn a_row_deleted_during_a_checkpoint_stays_deleted() {
    let rows = Rows::clustered(ALL, 16, 1);
    let place = built(&rows, BUILT);
    let files = Arc::new(DeletingFiles::default());
    let index = Arc::new(live_with(&place.path, files.clone()));
    insert_all(&index, &rows, BUILT..ALL);
    files.index.set(Arc::downgrade(&index)).unwrap();
    index.checkpoint(1).unwrap();
    let deleted = *files.deleted.lock().unwrap();
    assert!(deleted >= 5, "{deleted} files");
    assert_eq!((index.rows(), index.tombstones()), (ALL as u64 - deleted, deleted));
    for row in 0..20 {
        let hits = index.search(rows.row(row), &params(100), None).unwrap().hits;
        assert_eq!(hits[0].row == RowId(row as u64), row as u64 >= deleted, "row {row}");
    }
    // On disk is the state of the snapshot; the log has the deletes.
    drop(index);
    assert_sound(&place.path);
    assert_eq!(read_only(&place.path).rows(), ALL as u64);
}
