//! One context as a queue.
//!
//! A push notes a request, a flush is one `io_submit`, a poll looks at the ring that the kernel has
//! mapped, and a wait sleeps in `io_getevents`.
//!
//! Invariants:
//! - every operation in flight holds its device, hence its file, until it is over;
//! - operations in flight never exceed the depth, for which the context has room, and for one more
//!   that watches for who wakes the queue;
//! - buffers are unmapped only after the kernel has answered everything it was given.

#![expect(unsafe_code, reason = "requests carry raw pointers to buffers")]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use super::super::backend::{Completion, Queue, QueueOptions, Transfer, Wait};
use super::super::buffer::{ALIGN, BufferId, BufferPool};
use super::super::device::Device;
use super::super::error::{Errno, IoError};
use super::super::fork::ForkGuard;
use super::super::op::{Kind, Op, Step, grow_disk};
use super::super::waker::{Waker, Watch, Watching};
use super::context::{Answer, Command, Context, Request};

/// The name of the backend whose files it takes.
pub(super) const NAME: &str = "libaio";

/// How often the kernel may say that it has no room at the moment.
const PATIENCE: u32 = 1000;

/// The slot of the watch.
const WATCH: u32 = u32::MAX;

pub(super) struct AioQueue {
    context: ManuallyDrop<Context>,
    pool: BufferPool,
    ops: Vec<Option<Op>>,
    free: Vec<u32>,
    /// Requests that were not submitted yet; their data are slots of operations.
    noted: Vec<Request>,
    answers: Vec<Answer>,
    /// Completions found while a flush had to make room, or that were refused at once.
    early: VecDeque<Completion>,
    watch: Option<Watch>,
    wait: Wait,
    guard: ForkGuard,
}

impl AioQueue {
    pub(super) fn new(options: &QueueOptions) -> Result<Self, IoError> {
        options.check()?;
        let depth = options.depth;
        let guard = ForkGuard::new()?;
        Ok(Self {
            pool: BufferPool::new(options.buffers, options.buffer_bytes)?,
            context: ManuallyDrop::new(Context::new(depth + 1)?),
            ops: (0..depth).map(|_| None).collect(),
            free: (0..depth as u32).rev().collect(),
            noted: Vec::with_capacity(depth + 1),
            answers: vec![Answer::default(); depth + 1],
            early: VecDeque::with_capacity(depth),
            watch: None,
            wait: options.wait,
            guard,
        })
    }

    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.free.is_empty() {
            return Err(IoError::Full { depth: self.ops.len() });
        }
        Ok(())
    }

    /// Gives an admitted operation a slot and a request.
    fn start(&mut self, op: Op) {
        let slot = self.free.pop().expect("admitted only where a slot is free");
        self.ops[slot as usize] = Some(op);
        self.note(slot);
    }

    /// Notes the request for the next step of the operation in `slot`.
    fn note(&mut self, slot: u32) {
        let op = self.ops[slot as usize].as_ref().expect("the slot is in use");
        let file = op.file().and_then(|f| f.disk(NAME).ok()).expect("checked when pushed");
        let (offset, bytes) = op.remaining();
        let (command, place) = match op.kind {
            Kind::Sync => (Command::SyncData, (std::ptr::null_mut(), 0)),
            kind => {
                let at = self.pool.pointer(op.buffer).wrapping_add(op.done);
                (if kind == Kind::Write { Command::Write } else { Command::Read }, (at, bytes))
            }
        };
        let offset = if op.kind == Kind::Sync { 0 } else { offset };
        let data = u64::from(slot);
        self.noted.push(Request::new(command, data, file.as_raw_fd(), place, offset));
    }

    /// Notes the request of the watch, unless the kernel is at it.
    fn note_watch(&mut self) {
        if let Some(watch) = &mut self.watch
            && watch.state == Watching::Not
        {
            watch.state = Watching::Noted;
            let events = std::ptr::without_provenance_mut(libc::POLLIN as usize);
            let (file, data) = (watch.descriptor(), u64::from(WATCH));
            self.noted.push(Request::new(Command::Poll, data, file, (events, 0), 0));
        }
    }

    /// Whether a wait is to end without completions, which it is then told.
    fn is_woken(&mut self) -> bool {
        self.watch.as_mut().is_some_and(|watch| std::mem::take(&mut watch.woken))
    }

    /// Operations that the kernel has not answered.
    fn submitted(&self) -> usize {
        let noted = self.noted.iter().filter(|request| request.data != u64::from(WATCH)).count();
        self.ops.len() - self.free.len() - noted
    }

    /// Submits all that is noted.
    fn submit(&mut self) -> Result<(), IoError> {
        let mut refusals = 0;
        while !self.noted.is_empty() {
            // SAFETY: the buffers are in flight, so they stay mapped and unborrowed until the
            // answer is taken; the operations keep their files open.
            match unsafe { self.context.submit(&mut self.noted) } {
                Ok(taken) => {
                    let taken = self.noted.drain(..taken);
                    let watched = taken.into_iter().any(|of| of.data == u64::from(WATCH));
                    if let (true, Some(watch)) = (watched, &mut self.watch) {
                        watch.state = Watching::Asked;
                    }
                }
                Err(Errno(libc::EINTR)) => {}
                // The kernel is short of room: take what is there, and try again for a while.
                Err(Errno(libc::EAGAIN)) if refusals < PATIENCE => {
                    refusals += 1;
                    self.take_answers(0, Self::set_aside)?;
                    std::thread::yield_now();
                }
                Err(errno @ Errno(libc::EAGAIN)) => return Err(IoError::Submit { errno }),
                // Anything else is about the first request alone.
                Err(errno) => {
                    let refused = self.noted.remove(0);
                    if let Some(completion) = self.settle(refused.data as u32, -errno.0) {
                        self.early.push_back(completion);
                    }
                }
            }
        }
        Ok(())
    }

    fn set_aside(&mut self, completion: Completion) {
        self.early.push_back(completion);
    }

    /// Takes the answers there are, and sleeps until there are `least`.
    fn take_answers(
        &mut self,
        least: usize,
        mut take: impl FnMut(&mut Self, Completion),
    ) -> Result<(), IoError> {
        let found = match self.context.answers(least, &mut self.answers) {
            Ok(found) => found,
            Err(Errno(libc::EINTR | libc::EAGAIN)) => 0,
            Err(errno) => return Err(IoError::Submit { errno }),
        };
        for i in 0..found {
            let Answer { data, result, .. } = self.answers[i];
            if let Some(completion) = self.settle(data as u32, result as i32) {
                take(self, completion);
            }
        }
        Ok(())
    }

    /// Applies one answer of the kernel; notes the next step where the operation goes on.
    fn settle(&mut self, slot: u32, answer: i32) -> Option<Completion> {
        if slot == WATCH {
            self.watch.as_mut().expect("it was asked for").fired(answer);
            return None;
        }
        let op = self.ops[slot as usize].as_mut().expect("the kernel answers what it was given");
        match op.step(answer) {
            Step::Again => {
                self.note(slot);
                None
            }
            Step::Over(completion) => {
                self.pool.finish(op.buffer);
                self.ops[slot as usize] = None;
                self.free.push(slot);
                Some(completion)
            }
        }
    }

    /// Appends what has finished, of which there are `least` where that many are under way.
    fn reap(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        out.extend(self.early.drain(..));
        let noted = self.noted.len();
        self.take_answers(least.min(self.submitted()), |_, completion| out.push(completion))?;
        // The rest of a short read must not wait for the caller's next flush.
        if self.noted.len() > noted { self.submit() } else { Ok(()) }
    }
}

impl Queue for AioQueue {
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
        self.pool.start(buffer);
        self.start(op);
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
        self.start(op);
        Ok(())
    }

    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.guard.check()?;
        device.extended(bytes, |file, offset, more| grow_disk(file, offset, more, NAME))
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.guard.check()?;
        self.submit()
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if !self.early.is_empty() || (self.submitted() > 0 && self.context.may_have_answers()) {
            self.reap(0, out)?;
        }
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.wait_for(1, out)
    }

    fn wait_for(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if self.in_flight() > 0 {
            self.note_watch();
        }
        self.submit()?;
        let before = out.len();
        while out.len() == before && self.in_flight() > 0 && !self.is_woken() {
            if self.wait == Wait::Spin || !self.early.is_empty() {
                self.poll(out)?;
                std::hint::spin_loop();
            } else {
                self.reap(least.max(1), out)?;
            }
        }
        Ok(())
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        self.guard.check()?;
        if self.watch.is_none() {
            self.watch = Some(Watch::new()?);
        }
        Ok(self.watch.as_ref().expect("just made").waker())
    }

    fn in_flight(&self) -> usize {
        self.ops.len() - self.free.len() + self.early.len()
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

impl Drop for AioQueue {
    fn drop(&mut self) {
        if self.guard.forked() {
            // The context is the parent's; the child has its own copy of the buffers.
            return;
        }
        let mut unanswered = self.submitted();
        while unanswered > 0 {
            match self.context.answers(1, &mut self.answers) {
                Ok(found) => {
                    let found = self.answers[..found].iter();
                    unanswered -= found.filter(|of| of.data != u64::from(WATCH)).count();
                }
                Err(Errno(libc::EINTR | libc::EAGAIN)) => {}
                Err(errno) => {
                    tracing::error!(%errno, "cannot wait for reads in flight");
                    self.pool.leak();
                    return;
                }
            }
        }
        // SAFETY: the context is dropped here alone, and nothing uses it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.context) };
    }
}
