//! The io_uring backend: one ring per queue.

mod queue;
mod ring;

use std::path::Path;

use io_uring::{IoUring, Probe, opcode};

use super::backend::{Backend, OpenMode, Queue, QueueOptions};
use super::buffer::ALIGN;
use super::device::File;
use super::error::{Errno, IoError};
use super::op::open_disk;
use queue::{NAME, UringQueue};
use ring::setup_error;

/// Reads and writes through io_uring.
#[derive(Debug)]
pub struct Uring {
    _made: (),
}

impl Uring {
    /// Checks that this process may use io_uring, and that the kernel knows the operations.
    ///
    /// # Errors
    /// [`IoError::Setup`], with `ENOSYS` or `EPERM` where it is missing or forbidden.
    pub fn new() -> Result<Self, IoError> {
        let ring = IoUring::new(2).map_err(setup_error("io_uring"))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(setup_error("io_uring"))?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(IoError::Setup { what: "io_uring", errno: Errno(libc::ENOSYS) });
        }
        Ok(Self { _made: () })
    }
}

impl Backend for Uring {
    fn name(&self) -> &'static str {
        NAME
    }

    fn block_bytes(&self) -> usize {
        ALIGN
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        open_disk(path, mode)
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        Ok(Box::new(UringQueue::new(options)?))
    }
}
