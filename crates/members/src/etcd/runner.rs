//! The thread that all tasks run on, and how a caller waits for one of them.

use std::future::Future;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::Error;

/// Ends its thread and all that runs there when it is dropped.
pub(super) struct Runner {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    pub(super) fn start() -> Result<Self, Error> {
        let refused = |what: &str, why: std::io::Error| Error::Refused(format!("{what}: {why}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| refused("no runtime for etcd", e))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = Builder::new()
            .name("members".into())
            .spawn(move || {
                // Either way it is the end: told to, or its owner is gone.
                let _ = runtime.block_on(stopped);
            })
            .map_err(|e| refused("no thread for etcd", e))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for an answer. A caller may itself be in a runtime, so its thread only sleeps.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        within: Duration,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let ended = tokio::time::timeout(within, task).await;
            // Nobody waits any more where this fails.
            let _ = answer.send(ended.unwrap_or(Err(Error::Late(within))));
        });
        // The thread itself may be held up, though the deadline stands.
        match answered.recv_timeout(within + Duration::from_millis(200)) {
            Ok(ended) => ended,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::Late(within)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::Closed),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been told by its message.
            let _ = thread.join();
        }
    }
}
