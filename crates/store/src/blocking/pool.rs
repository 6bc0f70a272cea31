//! A runtime, and waiting for what it does.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::objects::Surroundings;

/// Threads that wait for the network; the work is small.
const THREADS: usize = 2;
/// Threads for files, where the store is a directory.
const FILE_THREADS: usize = 16;

/// Where the work for one store is done.
pub(super) enum StoreRuntime {
    /// By threads that belong to it; there until it is dropped.
    Threads(Option<Runtime>),
    /// By the caller's own thread, in a simulation, whose waits are these.
    Caller(Arc<dyn Surroundings>),
}

impl fmt::Debug for StoreRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreRuntime")
    }
}

impl StoreRuntime {
    pub(super) fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(FILE_THREADS)
            .thread_name("store")
            .enable_all()
            .build()?;
        Ok(Self::Threads(Some(runtime)))
    }

    /// Does `work` while this thread sleeps.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let runtime = match self {
            Self::Threads(runtime) => runtime.as_ref().expect("there until it is dropped"),
            Self::Caller(surroundings) => return do_here(&**surroundings, work),
        };
        let (sender, receiver) = sync_channel(1);
        let task = runtime.spawn(async move {
            // The caller waits below, unless its thread was taken from it.
            let _ = sender.send(work.await);
        });
        match receiver.recv() {
            Ok(result) => result,
            Err(_) => {
                // The work panicked, as its end of the channel is gone without a word.
                drop(task);
                panic!("work for the store panicked; its message stands above");
            }
        }
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        // Also where the last handle is dropped by a task, which may not wait.
        if let Self::Threads(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

/// Does work on this thread, whose waits block it. What is pending without a wait waits for another thread,
/// and is looked at again a little later.
fn do_here<T>(surroundings: &dyn Surroundings, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        let mut pause = surroundings.sleep(Duration::from_millis(20));
        let _ = pause.as_mut().poll(&mut context);
    }
}
