//! Storage behind one trait: queues of reads and writes with buffers the backend owns.
//!
//! A [`Backend`] opens files and makes [`Queue`]s, one per thread. A queue takes reads into
//! its own buffers, submits them together, and hands back completions with the caller's tag
//! in whatever order they finish. What is read from is a [`Device`]: extents laid end to end,
//! addressed in bytes, so that a partition of many segment files is one address space.
//!
//! | module | backend |
//! |---|---|
//! | `uring` | io_uring, the fast path on Linux |
//! | `libaio` | Linux's older asynchronous I/O, where asked for |
//! | `threads` | a bounded pool of threads that call pread, where io_uring is blocked |
//! | `memory` | files in memory, complete at the flush, in order |
//! | `injected` | memory that takes a given time and has a given rate, for measurements |
//! | `raw` | pages on raw SSDs past the kernel, everything else by another backend |
//! | `sim` | memory with delays, reordering, faults and power loss, all from one seed |
//!
//! Every backend passes the suite in `conformance.rs`. Deliberately absent: what a page
//! holds, caching, retries of failed media, clocks (but that of `injected`).

mod backend;
mod buffer;
mod choice;
#[cfg(test)]
mod conformance;
mod device;
mod error;
mod fault;
mod fork;
pub mod injected;
#[cfg(target_os = "linux")]
pub mod libaio;
pub mod memory;
mod memory_file;
mod memory_files;
mod memory_op;
mod op;
pub mod raw;
pub mod sim;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;
mod waker;

pub use backend::{
    Backend, Completion, CopyProgress, DeviceCounts, OpenMode, Queue, QueueOptions, Sealed,
    SealedFile, Transfer, Wait,
};
pub use buffer::{AlignedBuf, BufferId};
pub use choice::BackendChoice;
pub use device::{Device, Extent, File};
pub use error::{Errno, IoError};
pub use fault::ReadFault;
pub use waker::Waker;

use std::sync::{Arc, OnceLock};

/// The fastest backend this process may use: io_uring, else the pread pool.
///
/// Containers often forbid io_uring (`EPERM` from seccomp, `ENOSYS` from old kernels); the
/// first call then warns once through `tracing` and every call returns the pool.
pub fn best() -> Arc<dyn Backend> {
    static BEST: OnceLock<Arc<dyn Backend>> = OnceLock::new();
    Arc::clone(BEST.get_or_init(choose))
}

#[cfg(target_os = "linux")]
fn choose() -> Arc<dyn Backend> {
    match uring::Uring::new() {
        Ok(backend) => Arc::new(backend),
        Err(error) => {
            tracing::warn!(%error, "io_uring is not available; reading with a pool of threads");
            Arc::new(threads::Threads::new())
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn choose() -> Arc<dyn Backend> {
    Arc::new(threads::Threads::new())
}
