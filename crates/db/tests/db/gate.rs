//! A backend that keeps links waiting, or refuses to open files.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use pipeann_engine::io::threads::Threads;
use pipeann_engine::io::{Backend, Errno, File, IoError, OpenMode, Queue, QueueOptions};

/// What a process says that has too many files open.
const TOO_MANY_OPEN: Errno = Errno(24);

pub(crate) struct Gate {
    files: Threads,
    shut: Mutex<bool>,
    opened: Condvar,
    refuses: AtomicUsize,
}

/// While it lives, no row is linked.
pub(crate) struct Shut<'g>(&'g Gate);

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            files: Threads::new(),
            shut: Mutex::new(false),
            opened: Condvar::new(),
            refuses: AtomicUsize::new(0),
        })
    }

    pub(crate) fn shut(&self) -> Shut<'_> {
        *self.shut.lock().unwrap() = true;
        Shut(self)
    }

    /// The next files are not opened, so many of them.
    pub(crate) fn refuse(&self, files: usize) {
        self.refuses.store(files, Ordering::Relaxed);
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        *self.0.shut.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

impl Backend for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn block_bytes(&self) -> usize {
        self.files.block_bytes()
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        let refuses = &self.refuses;
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        if refuses.fetch_update(set, get, |left| left.checked_sub(1)).is_ok() {
            return Err(IoError::Open { path: path.into(), errno: TOO_MANY_OPEN });
        }
        self.files.open_file(path, mode)
    }

    fn enter_link_thread(&self) {
        let shut = self.shut.lock().unwrap();
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap());
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        self.files.queue(options)
    }
}
