//! The thread that copies sealed files to the stripe, one after the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use pipeann_raw::{COPY_MEMORY_BYTES, CopiedSegment, CopyError, Store};

use super::place::RawFile;
use crate::io::backend::CopyProgress;
use crate::io::error::{Errno, IoError};
use crate::memory::{Accountant, Pool, Reservation};

/// A file to be copied, as long as somebody has it open.
pub(super) struct CopyJob {
    pub(super) segment: CopiedSegment,
    pub(super) file: Weak<RawFile>,
}

#[derive(Default)]
struct State {
    jobs: Vec<(CopyJob, Arc<Reservation>)>,
    /// Jobs that wait, and the one under way.
    open: usize,
    progress: CopyProgress,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Jobs came, one has ended, or some of one is done.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's description. Dropping it ends the thread after the copy under way.
pub(super) struct Copier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    started_in: u32,
}

impl Copier {
    pub(super) fn start(store: Arc<Store>) -> Result<Self, IoError> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("raw-copier".into());
        let thread = thread.spawn(move || run(&its, &store)).map_err(|e| IoError::Setup {
            what: "the thread that copies to the devices",
            errno: Errno::of(&e),
        })?;
        Ok(Self { shared, thread: Some(thread), started_in: std::process::id() })
    }

    /// Takes files to be copied, if there is memory for that.
    pub(super) fn take(&self, jobs: Vec<CopyJob>, accountant: &Arc<Accountant>) {
        let bytes: u64 = jobs.iter().map(|job| job.segment.bytes).sum();
        let memory = match accountant.reserve(Pool::Dma, COPY_MEMORY_BYTES) {
            Ok(memory) => Arc::new(memory),
            Err(error) => {
                tracing::warn!("{} segments stay on the file system: {error}", jobs.len());
                self.shared.lock().progress.left_files += jobs.len() as u64;
                return;
            }
        };
        tracing::info!("copying {} segments, {bytes} bytes, to the SPDK devices", jobs.len());
        let mut state = self.shared.lock();
        state.progress.all_bytes += bytes;
        state.open += jobs.len();
        // Taken from the end, so that they are copied in their order.
        let fresh = jobs.into_iter().rev().map(|job| (job, Arc::clone(&memory)));
        let waiting = std::mem::take(&mut state.jobs);
        state.jobs = fresh.chain(waiting).collect();
        drop(state);
        self.shared.changed.notify_all();
    }

    pub(super) fn wait(&self, progress: &mut dyn FnMut(CopyProgress)) -> CopyProgress {
        let mut state = self.shared.lock();
        let mut told = None;
        while state.open > 0 {
            let now = state.progress;
            if told.replace(now) != Some(now) {
                drop(state);
                progress(now);
                state = self.shared.lock();
                continue;
            }
            state = self.shared.wait(state);
        }
        state.progress
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        if self.started_in != std::process::id() {
            // A forked child: the thread stayed with the parent, perhaps with the lock.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was printed already; files that wait stay where they are.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, store: &Store) {
    let mut state = shared.lock();
    loop {
        if state.closing {
            return;
        }
        let Some((job, memory)) = state.jobs.pop() else {
            state = shared.wait(state);
            continue;
        };
        let before = state.progress.done_bytes;
        drop(state);
        let left = copy(shared, store, &job, before);
        drop(memory);
        state = shared.lock();
        state.progress.done_bytes = before + job.segment.bytes;
        state.progress.left_files += u64::from(left);
        state.open -= 1;
        shared.changed.notify_all();
    }
}

/// Whether the file stays on the file system though somebody reads it.
fn copy(shared: &Shared, store: &Store, job: &CopyJob, before: u64) -> bool {
    if job.file.strong_count() == 0 {
        return false;
    }
    let told = &mut |bytes| {
        shared.lock().progress.done_bytes = before + bytes;
        shared.changed.notify_all();
    };
    let copied = store.copy(&job.segment, told);
    let Some(file) = job.file.upgrade() else { return false };
    let path = job.segment.path.display();
    match copied {
        Ok(region) => {
            tracing::info!("copied {path} to the SPDK devices");
            file.place(region);
            return false;
        }
        // What can be helped is a warning, a failing device an error.
        Err(error @ (CopyError::Full { .. } | CopyError::Directory)) => {
            tracing::warn!("{path} stays on the file system: {error}");
        }
        Err(error) => tracing::error!("{path} stays on the file system: {error}"),
    }
    true
}
