//! The backend of Linux's older asynchronous I/O (`io_submit`), for kernels and containers that have
//! no io_uring.
//!
//! Only direct reads and writes are asynchronous in it: through the page cache each is done while
//! it is submitted. A limit of the whole system, `fs.aio-max-nr`, counts what queues may have in
//! flight; a queue beyond it is one of the next best backend.

mod context;
mod queue;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backend::{Backend, OpenMode, Queue, QueueOptions};
use super::buffer::ALIGN;
use super::device::File;
use super::error::{Errno, IoError};
use super::op::open_disk;
use context::Context;
use queue::{AioQueue, NAME};

/// Reads and writes through `io_submit`.
#[derive(Debug)]
pub struct Libaio {
    /// Whether it was said that files are not read directly.
    told_of_buffered: AtomicBool,
    /// Whether it was said that queues are made by another backend.
    told_of_limit: AtomicBool,
}

impl Libaio {
    /// Checks that this process may use it.
    ///
    /// # Errors
    /// [`IoError::Setup`], with `ENOSYS` where the kernel lacks it and `EAGAIN` where
    /// `fs.aio-max-nr` leaves nothing.
    pub fn new() -> Result<Self, IoError> {
        Context::new(1)?;
        Ok(Self { told_of_buffered: AtomicBool::new(false), told_of_limit: AtomicBool::new(false) })
    }
}

impl Backend for Libaio {
    fn name(&self) -> &'static str {
        NAME
    }

    fn block_bytes(&self) -> usize {
        ALIGN
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        if !mode.direct && !self.told_of_buffered.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path = %path.display(),
                "libaio needs direct I/O; through the page cache reads are done one by one"
            );
        }
        open_disk(path, mode)
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        match AioQueue::new(options) {
            Ok(queue) => Ok(Box::new(queue)),
            Err(IoError::Setup { errno: Errno(libc::EAGAIN), .. }) => {
                let other = super::best();
                if !self.told_of_limit.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        instead = other.name(),
                        depth = options.depth,
                        "fs.aio-max-nr leaves no room for another queue of libaio"
                    );
                }
                other.queue(options)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Device;

    /// More than the system allows in all, unless somebody has raised the limit.
    #[test]
    fn queues_beyond_the_limit_of_the_system_read_by_another_backend() {
        let Ok(backend) = Libaio::new() else { return };
        let temp = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = temp.path().join("f");
        std::fs::write(&path, [7; ALIGN]).expect("written");
        let file = backend.open_file(&path, OpenMode::read()).expect("direct I/O");
        let device = Device::whole(&file).expect("a length");
        let options = QueueOptions { depth: 32_768, buffers: 1, ..QueueOptions::default() };
        let mut queues: Vec<_> =
            (0..4).map(|_| backend.queue(&options).expect("a queue of some backend")).collect();
        for queue in &mut queues {
            let buffer = queue.take_buffer().expect("a buffer");
            queue.push_read(&device, 0, ALIGN, buffer, 3).expect("pushed");
            let mut out = Vec::new();
            queue.wait(&mut out).expect("waited");
            assert_eq!((out.len(), out[0].tag, &out[0].result), (1, 3, &Ok(ALIGN)));
            assert_eq!(queue.buffer(buffer), [7; ALIGN]);
        }
    }
}
