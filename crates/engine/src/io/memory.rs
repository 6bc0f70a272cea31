//! The memory backend: files in memory, for tests and for data that never meets a disk.
//!
//! Operations are carried out at the flush, in the order they were pushed. Paths name files
//! of the backend itself; opening one it does not have loads a copy from the file system, and
//! what is written to that copy never reaches the disk.

use std::collections::VecDeque;
use std::path::Path;

use super::backend::{Backend, Completion, OpenMode, Queue, QueueOptions, Transfer};
use super::buffer::{BufferId, BufferPool};
use super::device::{Device, File};
use super::error::IoError;
use super::fork::ForkGuard;
use super::memory_files::MemoryFiles;
use super::memory_op::{MemoryOp, check_memory, grow_memory};
use super::waker::Waker;

const NAME: &str = "memory";

/// Files in memory, read and written at once and in order.
#[derive(Default)]
pub struct Memory {
    files: MemoryFiles,
}

impl Memory {
    /// A backend without files.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn block_bytes(&self) -> usize {
        1
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError> {
        Ok(File::from_memory(path, self.files.open(path, mode, false)?, mode.direct))
    }

    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        options.check()?;
        Ok(Box::new(MemoryQueue {
            pool: BufferPool::new(options.buffers, options.buffer_bytes)?,
            depth: options.depth,
            noted: VecDeque::with_capacity(options.depth),
            done: VecDeque::with_capacity(options.depth),
            guard: ForkGuard::new()?,
        }))
    }
}

struct MemoryQueue {
    pool: BufferPool,
    depth: usize,
    noted: VecDeque<MemoryOp>,
    done: VecDeque<Completion>,
    guard: ForkGuard,
}

impl MemoryQueue {
    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.in_flight() >= self.depth {
            return Err(IoError::Full { depth: self.depth });
        }
        Ok(())
    }
}

impl Queue for MemoryQueue {
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.admit()?;
        check_memory(device, NAME)?;
        let place = device.locate(offset, bytes, 1)?;
        let pool = &mut self.pool;
        let op = MemoryOp::transfer(pool, transfer, device, place, bytes, buffer, tag)?;
        self.noted.push_back(op);
        Ok(())
    }

    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.admit()?;
        check_memory(device, NAME)?;
        self.noted.push_back(MemoryOp::sync(device, tag));
        Ok(())
    }

    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.guard.check()?;
        device.extended(bytes, |file, offset, more| grow_memory(file, offset, more, NAME))
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.guard.check()?;
        while let Some(op) = self.noted.pop_front() {
            self.done.push_back(op.carry_out(&mut self.pool, None));
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        out.extend(self.done.drain(..));
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        self.poll(out)
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        // Nothing is ever waited for.
        Ok(Waker::new(|| ()))
    }

    fn in_flight(&self) -> usize {
        self.noted.len() + self.done.len()
    }

    fn take_buffer(&mut self) -> Option<BufferId> {
        self.pool.take()
    }

    fn return_buffer(&mut self, buffer: BufferId) {
        self.pool.give_back(buffer);
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.pool.bytes(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.pool.bytes_mut(buffer)
    }
}
