//! BlockingTransfers of a file through a ring of the kernel, whose completions ring a bell.

#![expect(unsafe_code, reason = "the kernel is handed pointers")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{EnterFlags, IoUring, opcode, types};

use crate::bell::{Bell, EventBell};
use crate::device::{Command, CommandDone, CommandRefused, DeviceAction, Status};
use crate::file::BlockingTransfers;

/// See the module's description.
pub(crate) struct FileRing {
    ring: IoUring,
    file: File,
    bell: Arc<EventBell>,
    /// By slot: the command, and how much of it was done.
    slots: Vec<Option<(Command, u32)>>,
    free: Vec<usize>,
    /// Slots whose next step is to be submitted.
    again: Vec<usize>,
    pushed: bool,
}

// SAFETY: the pointers of commands are lent to the device, whichever thread it is on; the kernel's
// ring has no thread affinity as it was set up.
unsafe impl Send for FileRing {}

/// A ring that does not interrupt its poller, which looks for what has ended by itself; an older
/// kernel has none of these.
fn build(depth: u32) -> std::io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    match builder.build(depth) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(depth),
        built => built,
    }
}

impl FileRing {
    pub(crate) fn new(file: &File, depth: u32) -> std::io::Result<Self> {
        let ring = build(depth)?;
        let bell = Arc::new(EventBell::new()?);
        ring.submitter().register_eventfd(bell.descriptor())?;
        let depth = depth as usize;
        let slots = vec![None; depth];
        let free = (0..depth).rev().collect();
        let file = file.try_clone()?;
        Ok(Self { ring, file, bell, slots, free, again: Vec::with_capacity(depth), pushed: false })
    }

    /// Submits what is left of the command in a slot.
    fn push(&mut self, slot: usize) {
        let (command, moved) = self.slots[slot].expect("the slot is in use");
        let fd = types::Fd(self.file.as_raw_fd());
        let left = command.bytes - moved;
        // SAFETY: what was moved is within the command.
        let memory = unsafe { command.memory.add(moved as usize) };
        let at = command.offset + u64::from(moved);
        let entry = match command.action {
            DeviceAction::Read => opcode::Read::new(fd, memory, left).offset(at).build(),
            DeviceAction::Write => opcode::Write::new(fd, memory, left).offset(at).build(),
            DeviceAction::Flush => {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            }
        };
        // SAFETY: the memory is lent until the command ends, which is not told before the kernel has
        // answered; the file is open as long as the ring is.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        match pushed {
            Ok(()) => self.pushed = true,
            Err(_) => self.again.push(slot),
        }
    }

    /// Where the kernel is busy, what it did not take is taken the next time.
    fn submit_pushed(&mut self) {
        if !self.pushed {
            return;
        }
        match self.ring.submit() {
            Ok(_) => self.pushed = !self.ring.submission().is_empty(),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => tracing::warn!(%error, "a device file takes no commands now"),
        }
    }

    /// Has the kernel put what has ended into the ring, where it waits for that.
    fn fetch(&mut self) {
        if !self.ring.completion().is_empty() || !self.ring.submission().taskrun() {
            return;
        }
        // SAFETY: no argument is passed, and nothing is submitted.
        let entered = unsafe {
            let flags = EnterFlags::GETEVENTS.bits();
            self.ring.submitter().enter::<libc::sigset_t>(0, 0, flags, None)
        };
        if let Err(error) = entered {
            tracing::debug!(%error, "what a device file has finished is fetched later");
        }
    }

    /// What an answer of the kernel means: `None` where there is more to do.
    fn step(&mut self, slot: usize, answer: i32) -> Option<Result<(), Status>> {
        let (command, moved) = self.slots[slot].as_mut().expect("the slot is in use");
        match answer {
            e if e == -libc::EAGAIN || e == -libc::EINTR => None,
            e if e < 0 => Some(Err(Status::System(-e))),
            _ if command.action == DeviceAction::Flush => Some(Ok(())),
            0 => Some(Err(Status::Short)),
            n => {
                *moved += n as u32;
                (*moved == command.bytes).then_some(Ok(()))
            }
        }
    }
}

impl BlockingTransfers for FileRing {
    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        let slot = self.free.pop().ok_or(CommandRefused::Full)?;
        self.slots[slot] = Some((*command, 0));
        self.push(slot);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        self.submit_pushed();
        self.fetch();
        loop {
            let Some(answer) = self.ring.completion().next() else { break };
            let slot = answer.user_data() as usize;
            match self.step(slot, answer.result()) {
                None => self.again.push(slot),
                Some(result) => {
                    let (command, _) = self.slots[slot].take().expect("the slot is in use");
                    self.free.push(slot);
                    done.push(CommandDone { tag: command.tag, result });
                }
            }
        }
        if !self.again.is_empty() {
            for slot in std::mem::take(&mut self.again) {
                self.push(slot);
            }
            self.submit_pushed();
        }
        if self.pushed || !self.again.is_empty() {
            // Nobody may sleep on what the kernel does not have yet.
            self.bell.ring();
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        Some(Arc::clone(&self.bell) as Arc<dyn Bell>)
    }
}

impl Drop for FileRing {
    /// Waits for what the kernel has, since it may write to memory that is lent.
    fn drop(&mut self) {
        while self.free.len() < self.slots.len() {
            self.poll(&mut Vec::new());
            if self.free.len() < self.slots.len() && self.ring.submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
        }
    }
}
