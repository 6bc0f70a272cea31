//! A runtime, and waiting for what it does.

use std::future::Future;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Builder, Runtime};

/// Threads that wait for the network; the work is small.
const THREADS: usize = 2;
/// Threads for files, where the store is a directory.
const FILE_THREADS: usize = 16;

/// Threads that belong to one store.
#[derive(Debug)]
pub(super) struct StoreRuntime(Option<Runtime>);

impl StoreRuntime {
    pub(super) fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(FILE_THREADS)
            .thread_name("store")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Does `work` on the pool's threads while this one sleeps.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (sender, receiver) = sync_channel(1);
        let runtime = self.0.as_ref().expect("there until it is dropped");
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
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
