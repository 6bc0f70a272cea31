//! A small index, and a backend whose queues break when they are told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Index, OpenOptions};
use crate::build::{BuildOptions, Silent, build};
use crate::io::memory::Memory;
use crate::io::{
    Backend, BufferId, Completion, Device, Errno, File, IoError, OpenMode, Queue, QueueOptions,
    Transfer, Waker,
};
use crate::memory::Accountant;
use crate::types::{Metric, SplitMix64, VectorSet, VectorType};

pub(crate) const DIM: usize = 16;

/// An index in a directory of its own, of vectors of u8.
pub(crate) struct BuiltIndex {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) vectors: Vec<u8>,
}

impl BuiltIndex {
    pub(crate) fn of(rows: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i");
        let mut numbers = SplitMix64::new(5);
        let vectors: Vec<u8> = (0..rows * DIM).map(|_| numbers.next_u64() as u8).collect();
        let set = VectorSet::new(&vectors, DIM, VectorType::U8).unwrap();
        let mut options = BuildOptions::new(Metric::L2);
        (options.graph.degree, options.graph.list, options.graph.threads) = (16, 32, 1);
        build(set, &path, &options, &Silent, &AtomicBool::new(false)).unwrap();
        Self { _dir: dir, path, vectors }
    }

    pub(crate) fn open(&self, backend: &Arc<Breaking>) -> Index {
        Index::open(&self.path, &open_options(backend)).unwrap()
    }

    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.vectors[row * DIM..(row + 1) * DIM]
    }
}

pub(crate) fn open_options(backend: &Arc<Breaking>) -> OpenOptions {
    let backend: Option<Arc<dyn Backend>> = Some(Arc::clone(backend) as _);
    let accountant = Accountant::new(None);
    OpenOptions { backend, direct: false, accountant, ..OpenOptions::default() }
}

/// Files in memory. While it is broken no queue can be made, for want of memory, and those that are
/// there fail.
#[derive(Default)]
pub(crate) struct Breaking {
    files: Memory,
    broken: Arc<AtomicBool>,
}

impl Breaking {
    pub(crate) fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }
}

impl Backend for Breaking {
    fn name(&self) -> &'static str {
        self.files.name()
    }
    fn block_bytes(&self) -> usize {
        self.files.block_bytes()
    }
    fn open_file(&self, path: &std::path::Path, mode: OpenMode) -> Result<File, IoError> {
        self.files.open_file(path, mode)
    }
    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(IoError::Setup { what: "a queue", errno: Errno(libc::ENOMEM) });
        }
        let (inner, broken) = (self.files.queue(options)?, Arc::clone(&self.broken));
        Ok(Box::new(BreakingQueue { inner, broken }))
    }
}

struct BreakingQueue {
    inner: Box<dyn Queue>,
    broken: Arc<AtomicBool>,
}

impl BreakingQueue {
    fn check(&self) -> Result<(), IoError> {
        let broken = self.broken.load(Ordering::SeqCst);
        if broken { Err(IoError::Submit { errno: Errno(libc::ENOMEM) }) } else { Ok(()) }
    }
}

impl Queue for BreakingQueue {
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.inner.push_transfer(transfer, device, offset, bytes, buffer, tag)
    }
    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.inner.push_sync(device, tag)
    }
    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.inner.extend(device, bytes)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.check()?;
        self.inner.flush()
    }
    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.check()?;
        self.inner.poll(out)
    }
    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.check()?;
        self.inner.wait(out)
    }
    fn waker(&mut self) -> Result<Waker, IoError> {
        self.inner.waker()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn take_buffer(&mut self) -> Option<BufferId> {
        self.inner.take_buffer()
    }
    fn return_buffer(&mut self, buffer: BufferId) {
        self.inner.return_buffer(buffer);
    }
    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.inner.buffer(buffer)
    }
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.inner.buffer_mut(buffer)
    }
}
