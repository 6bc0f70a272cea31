//! The pread pool: a few threads per queue that call pread and pwrite.
//!
//! The fallback where io_uring is missing or forbidden, and a second opinion in tests. A
//! queue of depth 1 or more has at most [`MAX_THREADS`] threads, so a deep queue waits in line
//! rather than in the kernel.
//!
//! Invariants: the lines between the queue and its threads never hold more than the depth;
//! a buffer belongs to one thread from the flush to the completion; dropping the queue
//! discards what no thread has begun, and joins the threads before the buffers go.

#![expect(unsafe_code, reason = "a thread fills a buffer that the queue owns, by pointer")]

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::backend::{Backend, Completion, OpenMode, Queue, QueueOptions, Transfer, Wait};
use super::buffer::{ALIGN, BufferId, BufferPool};
use super::device::{Device, File};
use super::error::{Errno, IoError};
use super::fork::ForkGuard;
use super::op::{Kind, Op, Step, grow_disk, open_disk};
use super::waker::{Flag, Waker};

const NAME: &str = "threads";

/// Threads of one queue at most.
pub const MAX_THREADS: usize = 8;

/// Reads and writes with threads that block.
#[derive(Debug, Default)]
pub struct Threads {
    _made: (),
}

impl Threads {
    /// The backend. Threads start with each queue.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Backend for Threads {
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
        Ok(Box::new(ThreadsQueue::new(options)?))
    }
}

/// An operation with its buffer, on its way to a thread.
struct Job {
    op: Op,
    /// Null for a sync.
    start: *mut u8,
}

// SAFETY: the buffer behind `start` is in flight, so that only the thread with the job uses
// it, and the queue unmaps it only after joining the threads.
unsafe impl Send for Job {}

impl Job {
    /// Carries the operation out, to its end.
    fn carry_out(mut self) -> Completion {
        loop {
            let answer = match self.step() {
                Ok(moved) => moved as i32,
                Err(error) => -Errno::of(&error).0,
            };
            if let Step::Over(completion) = self.op.step(answer) {
                return completion;
            }
        }
    }

    fn step(&mut self) -> std::io::Result<usize> {
        let file = self.op.file().and_then(|f| f.disk(NAME).ok()).expect("checked when pushed");
        let (offset, bytes) = self.op.remaining();
        if self.op.kind == Kind::Sync {
            return file.sync_data().map(|()| 0);
        }
        // SAFETY: `start` is valid for the operation's whole length, checked when pushed, of
        // which `done` were moved; nothing else touches a buffer in flight.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.start.add(self.op.done), bytes) };
        match self.op.kind {
            Kind::Write => file.write_at(buffer, offset),
            _ => file.read_at(buffer, offset),
        }
    }
}

#[derive(Default)]
struct Lines {
    jobs: VecDeque<Job>,
    done: VecDeque<Completion>,
    closing: bool,
}

struct Shared {
    lines: Mutex<Lines>,
    /// Signals threads that there are jobs, or that the queue closes.
    work: Condvar,
    /// Signals the queue that there are completions.
    finished: Condvar,
    /// Length of the line of completions, to poll without the lock.
    ready: AtomicUsize,
    /// Whether a wait is to end without any.
    woken: Flag,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut lines = self.lock();
        loop {
            if lines.closing {
                return;
            }
            let Some(job) = lines.jobs.pop_front() else {
                lines = self.work.wait(lines).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(lines);
            let completion = job.carry_out();
            lines = self.lock();
            lines.done.push_back(completion);
            self.ready.store(lines.done.len(), Ordering::Release);
            self.finished.notify_one();
        }
    }
}

struct ThreadsQueue {
    pool: BufferPool,
    depth: usize,
    noted: VecDeque<Job>,
    started: usize,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    wait: Wait,
    guard: ForkGuard,
}

impl ThreadsQueue {
    fn new(options: &QueueOptions) -> Result<Self, IoError> {
        options.check()?;
        let depth = options.depth;
        let mut queue = Self {
            pool: BufferPool::new(options.buffers, options.buffer_bytes)?,
            depth,
            noted: VecDeque::with_capacity(depth),
            started: 0,
            shared: Arc::new(Shared {
                lines: Mutex::new(Lines {
                    jobs: VecDeque::with_capacity(depth),
                    done: VecDeque::with_capacity(depth),
                    closing: false,
                }),
                work: Condvar::new(),
                finished: Condvar::new(),
                ready: AtomicUsize::new(0),
                woken: Flag::default(),
            }),
            threads: Vec::with_capacity(depth.min(MAX_THREADS)),
            wait: options.wait,
            guard: ForkGuard::new()?,
        };
        for _ in 0..depth.min(MAX_THREADS) {
            let shared = Arc::clone(&queue.shared);
            let thread = std::thread::Builder::new()
                .name("pread".into())
                .spawn(move || shared.run())
                .map_err(|e| IoError::Setup { what: "a pread thread", errno: Errno::of(&e) })?;
            queue.threads.push(thread);
        }
        Ok(queue)
    }

    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.in_flight() >= self.depth {
            return Err(IoError::Full { depth: self.depth });
        }
        Ok(())
    }

    fn collect(&mut self, done: &mut VecDeque<Completion>, out: &mut Vec<Completion>) {
        self.started -= done.len();
        for completion in done.drain(..) {
            self.pool.finish(completion.buffer);
            out.push(completion);
        }
        self.shared.ready.store(0, Ordering::Release);
    }
}

impl Queue for ThreadsQueue {
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
        let place = device.locate(offset, bytes, ALIGN)?;
        self.pool.check(buffer, bytes)?;
        let op = Op::transfer(transfer.into(), device, place, bytes, buffer, tag);
        op.file().expect("a located range has a file").disk(NAME)?;
        let start = self.pool.start(buffer);
        self.noted.push_back(Job { op, start });
        Ok(())
    }

    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.admit()?;
        for file in device.files() {
            file.disk(NAME)?;
        }
        let op = Op::sync(device, tag);
        if op.file().is_none() {
            return Err(IoError::NoExtent);
        }
        self.noted.push_back(Job { op, start: std::ptr::null_mut() });
        Ok(())
    }

    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.guard.check()?;
        device.extended(bytes, |file, offset, more| grow_disk(file, offset, more, NAME))
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.guard.check()?;
        let jobs = self.noted.len();
        if jobs > 0 {
            self.started += jobs;
            self.shared.lock().jobs.append(&mut self.noted);
            if jobs == 1 {
                self.shared.work.notify_one();
            } else {
                self.shared.work.notify_all();
            }
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if self.shared.ready.load(Ordering::Acquire) > 0 {
            let shared = Arc::clone(&self.shared);
            self.collect(&mut shared.lock().done, out);
        }
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        if self.started == 0 {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        while self.wait == Wait::Spin && shared.ready.load(Ordering::Acquire) == 0 {
            if shared.woken.take() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut lines = shared.lock();
        while lines.done.is_empty() && !shared.woken.take() {
            lines = shared.finished.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        self.collect(&mut lines.done, out);
        Ok(())
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        let shared = Arc::clone(&self.shared);
        Ok(Waker::new(move || {
            shared.woken.set();
            // Whoever has looked at it waits when the lock is free.
            drop(shared.lock());
            shared.finished.notify_one();
        }))
    }

    fn in_flight(&self) -> usize {
        self.noted.len() + self.started
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

impl Drop for ThreadsQueue {
    fn drop(&mut self) {
        if self.guard.forked() {
            // The threads stayed with the parent, perhaps holding the lock: touch neither.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut lines = self.shared.lock();
        lines.closing = true;
        lines.jobs.clear();
        drop(lines);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a pread thread was already printed; its buffer is no longer used.
            let _ = thread.join();
        }
    }
}
