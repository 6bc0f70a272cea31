//! One ring as a queue.
//!
//! A push fills a submission entry, a flush is one `io_uring_enter`, a poll reads the
//! completion ring from memory, and a wait submits and sleeps in the same call.
//!
//! Invariants:
//! - every operation in flight holds its device, hence its file, until it is over;
//! - operations in flight never exceed the depth, which the submission ring holds at least
//!   once and the completion ring twice, and the watch for who wakes it beside, so that neither
//!   can overflow;
//! - buffers are unmapped only after the kernel has answered everything it was given.

#![expect(unsafe_code, reason = "submission entries carry raw pointers to buffers")]

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use io_uring::{EnterFlags, IoUring, opcode, squeue, types::Fd};

use super::super::backend::{Completion, Queue, QueueOptions, Transfer, Wait};
use super::super::buffer::{ALIGN, BufferId, BufferPool};
use super::super::device::Device;
use super::super::error::{Errno, IoError};
use super::super::fork::ForkGuard;
use super::super::op::{Kind, Op, Step, grow_disk};
use super::super::waker::{Waker, Watch, Watching};
use super::ring::{build_ring, register, setup_error};

/// The name of the backend whose files it takes.
pub(super) const NAME: &str = "io_uring";

/// The slot of the watch.
const WATCH: u32 = u32::MAX;

pub(super) struct UringQueue {
    // Declared before `pool`: the ring closes before the buffers are unmapped.
    ring: IoUring,
    pool: BufferPool,
    /// Whether the pool's region is registered as buffer 0.
    registered: bool,
    ops: Vec<Option<Op>>,
    free: Vec<u32>,
    /// Operations noted but not yet submitted; the last ones in the submission ring.
    noted: usize,
    /// Completions found while a flush had to make room.
    early: VecDeque<Completion>,
    watch: Option<Watch>,
    wait: Wait,
    guard: ForkGuard,
}

impl UringQueue {
    pub(super) fn new(options: &QueueOptions) -> Result<Self, IoError> {
        options.check()?;
        let pool = BufferPool::new(options.buffers, options.buffer_bytes)?;
        let ring = build_ring(options).map_err(setup_error("an io_uring queue"))?;
        let registered = register(&ring, &pool);
        Ok(Self {
            ring,
            pool,
            registered,
            ops: (0..options.depth).map(|_| None).collect(),
            free: (0..options.depth as u32).rev().collect(),
            noted: 0,
            early: VecDeque::with_capacity(options.depth),
            watch: None,
            wait: options.wait,
            guard: ForkGuard::new()?,
        })
    }

    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        if self.free.is_empty() {
            return Err(IoError::Full { depth: self.ops.len() });
        }
        Ok(())
    }

    /// Gives an admitted operation a slot and a submission entry.
    fn start(&mut self, op: Op) {
        let slot = self.free.pop().expect("admitted only where a slot is free");
        self.ops[slot as usize] = Some(op);
        self.note(slot);
    }

    /// Fills the submission entry for the next step of the operation in `slot`.
    fn note(&mut self, slot: u32) {
        let op = self.ops[slot as usize].as_ref().expect("the slot is in use");
        let file = op.file().and_then(|f| f.disk(NAME).ok()).expect("checked when pushed");
        let fd = Fd(file.as_raw_fd());
        let (offset, bytes) = op.remaining();
        let entry = match op.kind {
            Kind::Sync => {
                opcode::Fsync::new(fd).flags(io_uring::types::FsyncFlags::DATASYNC).build()
            }
            kind => {
                let at = self.pool.pointer(op.buffer).wrapping_add(op.done);
                transfer_entry(kind, self.registered, fd, at, bytes as u32, offset)
            }
        };
        // SAFETY: the buffer is in flight, so it stays mapped and unborrowed until the
        // completion is taken; the operation keeps its file open.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(slot))) };
        pushed.expect("the submission ring holds every operation in flight");
        self.noted += 1;
    }

    /// Fills a submission entry for the watch, unless the kernel is at it.
    fn note_watch(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        if watch.state != Watching::Not {
            return;
        }
        // The largest ring has no entry beside: of so many reads one ends soon anyway.
        if self.ring.submission().is_full() {
            return;
        }
        let entry = opcode::PollAdd::new(Fd(watch.descriptor()), libc::POLLIN as u32).build();
        // SAFETY: the kernel holds the event file from the submission on, and it touches no memory.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(WATCH))) };
        pushed.expect("there is room");
        watch.state = Watching::Noted;
        self.noted += 1;
    }

    /// Whether a wait is to end without completions, which it is then told.
    fn is_woken(&mut self) -> bool {
        self.watch.as_mut().is_some_and(|watch| std::mem::take(&mut watch.woken))
    }

    /// All that was noted is submitted.
    fn all_submitted(&mut self) {
        self.noted = 0;
        if let Some(watch) = &mut self.watch
            && watch.state == Watching::Noted
        {
            watch.state = Watching::Asked;
        }
    }

    /// Submits what is noted and, with `want` = 1, sleeps until a completion is there.
    fn enter(&mut self, want: usize) -> Result<(), IoError> {
        let mut refusals = 0u32;
        loop {
            match self.ring.submitter().submit_and_wait(want) {
                // The polling thread of SQPOLL takes everything noted by itself.
                Ok(_) if self.ring.params().is_setup_sqpoll() => {
                    self.all_submitted();
                    return Ok(());
                }
                Ok(submitted) => {
                    self.noted = self.noted.saturating_sub(submitted);
                    // A partial submission returns without waiting.
                    if self.noted == 0 {
                        self.all_submitted();
                        return Ok(());
                    }
                }
                Err(error) => match Errno::of(&error) {
                    Errno(libc::EINTR) => {}
                    // The kernel is short of memory or of room for completions: take what
                    // is there, let it work, and try again for a while.
                    Errno(libc::EAGAIN | libc::EBUSY) if refusals < 1000 => {
                        refusals += 1;
                        self.reap_early();
                        std::thread::yield_now();
                    }
                    errno => return Err(IoError::Submit { errno }),
                },
            }
            let woken = self.watch.as_ref().is_some_and(|watch| watch.woken);
            if want > 0 && (woken || !self.early.is_empty()) {
                // Completions were set aside above; waiting for another could last for ever.
                return if self.noted > 0 { self.enter(0) } else { Ok(()) };
            }
        }
    }

    fn reap_early(&mut self) {
        while let Some((slot, answer)) = self.next_answer() {
            if let Some(completion) = self.settle(slot, answer) {
                self.early.push_back(completion);
            }
        }
    }

    #[inline]
    fn next_answer(&mut self) -> Option<(u32, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data() as u32, entry.result()))
    }

    /// Applies one answer of the kernel; notes the next step where the operation goes on.
    #[inline]
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

    /// Moves what is in the completion ring to `out`; returns whether anything was appended.
    fn reap(&mut self, out: &mut Vec<Completion>) -> Result<bool, IoError> {
        let before = out.len();
        out.extend(self.early.drain(..));
        let noted = self.noted;
        while let Some((slot, answer)) = self.next_answer() {
            if let Some(completion) = self.settle(slot, answer) {
                out.push(completion);
            }
        }
        if self.noted > noted {
            // The rest of a short read must not wait for the caller's next flush.
            self.enter(0)?;
        }
        Ok(out.len() > before)
    }

    /// Whether completions wait inside the kernel for the thread to enter it.
    fn kernel_holds_completions(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    fn fetch(&mut self) -> Result<(), IoError> {
        // SAFETY: no argument is passed, and nothing is submitted.
        let entered = unsafe {
            let flags = EnterFlags::GETEVENTS.bits();
            self.ring.submitter().enter::<libc::sigset_t>(0, 0, flags, None)
        };
        match entered.map_err(|error| Errno::of(&error)) {
            Ok(_) | Err(Errno(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(errno) => Err(IoError::Submit { errno }),
        }
    }
}

fn transfer_entry(
    kind: Kind,
    registered: bool,
    fd: Fd,
    at: *mut u8,
    bytes: u32,
    offset: u64,
) -> squeue::Entry {
    match (kind, registered) {
        (Kind::Write, true) => opcode::WriteFixed::new(fd, at, bytes, 0).offset(offset).build(),
        (Kind::Write, false) => opcode::Write::new(fd, at, bytes).offset(offset).build(),
        (_, true) => opcode::ReadFixed::new(fd, at, bytes, 0).offset(offset).build(),
        (_, false) => opcode::Read::new(fd, at, bytes).offset(offset).build(),
    }
}

impl Queue for UringQueue {
    #[inline]
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
        if self.noted == 0 { Ok(()) } else { self.enter(0) }
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if !self.reap(out)? && self.kernel_holds_completions() {
            self.fetch()?;
            self.reap(out)?;
        }
        Ok(())
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.wait_for(1, out)
    }

    fn wait_for(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        let before = out.len();
        let sleep = self.wait == Wait::Sleep;
        let least = least.clamp(1, (self.ops.len() - self.free.len()).max(1));
        if self.in_flight() > 0 {
            self.note_watch();
        }
        if self.noted > 0 || least > 1 {
            let woken = self.watch.as_ref().is_some_and(|watch| watch.woken);
            self.enter(if sleep && !woken && self.early.is_empty() { least } else { 0 })?;
        }
        loop {
            self.poll(out)?;
            if out.len() > before || self.in_flight() == 0 || self.is_woken() {
                return Ok(());
            }
            if sleep {
                self.enter(1)?;
            } else {
                std::hint::spin_loop();
            }
        }
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

impl Drop for UringQueue {
    fn drop(&mut self) {
        if self.guard.forked() {
            // The ring is the parent's; the child has its own copy of the buffers.
            return;
        }
        // Entries that were noted but never submitted are forgotten, except under SQPOLL,
        // where the polling thread takes entries by itself.
        let sqpoll = self.ring.params().is_setup_sqpoll();
        let watch = self.watch.as_ref().is_some_and(|watch| watch.state == Watching::Noted);
        let never_submitted = if sqpoll { 0 } else { self.noted - usize::from(watch) };
        let mut unanswered = self.ops.len() - self.free.len() - never_submitted;
        while unanswered > 0 {
            let Some((slot, _)) = self.next_answer() else {
                // SAFETY: no argument is passed, and nothing is submitted.
                let entered = unsafe {
                    let flags = (EnterFlags::GETEVENTS | EnterFlags::SQ_WAKEUP).bits();
                    self.ring.submitter().enter::<libc::sigset_t>(0, 1, flags, None)
                };
                match entered.map_err(|error| Errno::of(&error)) {
                    Ok(_) | Err(Errno(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => continue,
                    Err(errno) => {
                        tracing::error!(%errno, "cannot wait for reads in flight");
                        self.pool.leak();
                        return;
                    }
                }
            };
            unanswered -= usize::from(slot != WATCH);
        }
    }
}
