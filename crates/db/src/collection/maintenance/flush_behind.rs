//! The thread of flushes behind the writes.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The thread of flushes behind the writes.
#[derive(Debug, Default)]
pub(in crate::collection) struct FlushBehind {
    /// Of the last flush; there is one at a time.
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// The last flush failed: until one succeeds, writes flush before they begin, so that they are told
    /// why buffers cannot be emptied.
    pub(super) failed: AtomicBool,
}

impl FlushBehind {
    /// Waits for the flush under way.
    pub(in crate::collection) fn join(&self) {
        let handle = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.thread().id() != thread::current().id()
        {
            // A panic of the thread was reported where it happened.
            let _ = handle.join();
        }
    }
}
