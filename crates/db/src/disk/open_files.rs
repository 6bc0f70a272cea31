//! Files that are appended to now and then, of which few are open at once.
//!
//! A database has a log for each collection, most of which rest. Where more than [`MOST`] are open,
//! one that rests is closed until it is written to again. Only what is on stable storage as a whole is
//! closed, but for bytes that may be lost: an error of the system in writing it back is told to those
//! who have it open.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The most files that are open while none of them is written to.
pub(super) const MOST: usize = 256;

/// The files of one disk.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    /// Those that are open, those for longest first, but for those that were used since.
    open: Mutex<VecDeque<Weak<KeptFile>>>,
}

/// One file.
#[derive(Debug)]
pub(super) struct KeptFile {
    state: Mutex<OpenHandles>,
    /// Since it was passed over.
    used: AtomicBool,
    all: Arc<OpenFiles>,
}

#[derive(Debug)]
struct OpenHandles {
    file: Option<File>,
    path: PathBuf,
    /// Whether everything in it is on stable storage.
    synced: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFiles {
    /// A file that is open for appending.
    pub(super) fn keep(self: &Arc<Self>, file: File, path: PathBuf) -> Arc<KeptFile> {
        let state = Mutex::new(OpenHandles { file: Some(file), path, synced: true });
        let kept = Arc::new(KeptFile { state, used: AtomicBool::new(true), all: Arc::clone(self) });
        self.opened(&kept);
        kept
    }

    fn opened(&self, kept: &Arc<KeptFile>) {
        let mut open = locked(&self.open);
        open.push_back(Arc::downgrade(kept));
        let mut looks = 2 * open.len();
        while open.len() > MOST && looks > 0 {
            looks -= 1;
            let Some(first) = open.pop_front() else { return };
            let Some(file) = first.upgrade() else { continue };
            if !file.rests() {
                open.push_back(first);
            }
        }
    }

    /// Files that are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let is_open =
            |kept: &Weak<KeptFile>| kept.upgrade().is_some_and(|k| locked(&k.state).file.is_some());
        locked(&self.open).iter().filter(|kept| is_open(kept)).count()
    }
}

impl KeptFile {
    /// Closes it, if it was not used lately and may be closed.
    fn rests(&self) -> bool {
        if self.used.swap(false, Ordering::Relaxed) {
            return false;
        }
        // Whoever uses it now holds it.
        let Ok(mut state) = self.state.try_lock() else { return false };
        if state.synced {
            state.file = None;
        }
        state.file.is_none()
    }

    /// Does something with the file, which is opened for it where it is not. It counts as `synced`
    /// if that goes well, or stays as it is where that is not said.
    pub(super) fn with<T>(
        self: &Arc<Self>,
        synced: Option<bool>,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        self.used.store(true, Ordering::Relaxed);
        let mut state = locked(&self.state);
        let is_opened = state.file.is_none();
        if is_opened {
            state.file = Some(OpenOptions::new().append(true).open(&state.path)?);
        }
        if synced == Some(false) {
            state.synced = false;
        }
        let done = state.file.as_ref().map_or_else(|| unreachable!("it was opened"), work);
        if synced == Some(true) && done.is_ok() {
            state.synced = true;
        }
        drop(state);
        if is_opened {
            self.all.opened(self);
        }
        done
    }

    /// It has another name now.
    pub(super) fn renamed(&self, path: &Path) {
        locked(&self.state).path = path.to_owned();
    }

    pub(super) fn path(&self) -> PathBuf {
        locked(&self.state).path.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn few_files_are_open_and_all_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let files: Arc<OpenFiles> = Arc::default();
        let create = |i: usize| {
            let (made, path) =
                (dir.path().join(format!("{i}.tmp")), dir.path().join(i.to_string()));
            let file = OpenOptions::new().append(true).create_new(true).open(&made).unwrap();
            let kept = files.keep(file, made.clone());
            std::fs::rename(&made, &path).unwrap();
            kept.renamed(&path);
            kept
        };
        let all: Vec<_> = (0..MOST + 100).map(create).collect();
        assert!(files.count() <= MOST, "{}", files.count());
        for round in 0..2 {
            for (i, kept) in all.iter().enumerate() {
                kept.with(Some(false), |mut file| file.write_all(&[round, i as u8])).unwrap();
                kept.with(Some(true), File::sync_data).unwrap();
            }
            assert!(files.count() <= MOST, "{}", files.count());
        }
        for i in 0..all.len() {
            let bytes = std::fs::read(dir.path().join(i.to_string())).unwrap();
            assert_eq!(bytes, [0, i as u8, 1, i as u8]);
        }
    }

    #[test]
    fn what_is_not_on_stable_storage_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let files: Arc<OpenFiles> = Arc::default();
        let all: Vec<_> = (0..MOST + 10)
            .map(|i| {
                let path = dir.path().join(i.to_string());
                let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
                let kept = files.keep(file, path);
                kept.with(Some(false), |mut file| file.write_all(b"x")).unwrap();
                kept
            })
            .collect();
        assert_eq!(files.count(), all.len());
        for kept in &all {
            kept.with(Some(true), File::sync_data).unwrap();
        }
        // Whatever opens one next finds others to close.
        files.opened(&all[0]);
        files.opened(&all[0]);
        assert!(files.count() <= MOST, "{}", files.count());
    }
}
