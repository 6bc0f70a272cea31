//! The five system calls of Linux's asynchronous I/O, and the structures that they take.
//!
//! The kernel copies a request when it is submitted, so that requests may be dropped or moved
//! afterwards; what they point to may not.

#![expect(unsafe_code, reason = "system calls that libc has no functions for, and their ring")]

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::error::{Errno, IoError};

/// What a request does: `IOCB_CMD_*` of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Command {
    Read = 0,
    Write = 1,
    SyncData = 3,
    /// Of the kernel since 4.18.
    Poll = 5,
}

/// A request: `struct iocb` of the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Request {
    /// Comes back with the answer.
    pub(super) data: u64,
    key: u64,
    command: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// An answer: `struct io_event` of the kernel.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Answer {
    pub(super) data: u64,
    request: u64,
    /// Bytes moved, or a negated error number.
    pub(super) result: i64,
    second: i64,
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Answer>() == 32);

/// What the ring of answers begins with, where the kernel maps it.
#[repr(C)]
struct Ring {
    id: u32,
    answers: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
}

const RING_MAGIC: u32 = 0xa10a_10a1;

impl Request {
    pub(super) fn new(
        command: Command,
        data: u64,
        file: i32,
        (buffer, bytes): (*mut u8, usize),
        offset: u64,
    ) -> Self {
        Self {
            data,
            key: 0,
            command: command as u16,
            priority: 0,
            file: file as u32,
            buffer: buffer as u64,
            bytes: bytes as u64,
            offset: offset as i64,
            reserved: 0,
            flags: 0,
            event_file: 0,
        }
    }
}

/// A context of asynchronous I/O. Dropped after all its requests have been answered.
#[derive(Debug)]
pub(super) struct Context {
    id: libc::c_ulong,
    /// Addresses of the requests of a submission.
    list: Vec<usize>,
}

impl Context {
    /// Room for `depth` requests at once.
    pub(super) fn new(depth: usize) -> Result<Self, IoError> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word to `id`, which is zero as it wants it.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_long, &raw mut id) };
        let what = "libaio (the limit of the system is fs.aio-max-nr)";
        answer_of(made).map_err(|errno| IoError::Setup { what, errno })?;
        Ok(Self { id, list: Vec::with_capacity(depth) })
    }

    /// Submits requests; returns how many were taken, or why not even the first was.
    ///
    /// # Safety
    /// Buffers and files of the requests stay until they are answered, and nothing else uses the
    /// buffers meanwhile.
    pub(super) unsafe fn submit(&mut self, requests: &mut [Request]) -> Result<usize, Errno> {
        self.list.clear();
        self.list.extend(requests.iter_mut().map(|request| &raw mut *request as usize));
        let (count, list) = (self.list.len() as libc::c_long, self.list.as_ptr());
        // SAFETY: the list holds the addresses of `count` requests that outlive the call; the
        // caller answers for what they point to.
        answer_of(unsafe { libc::syscall(libc::SYS_io_submit, self.id, count, list) })
    }

    /// Takes at most as many answers as there is room for; sleeps until there are `least`.
    pub(super) fn answers(&self, least: usize, out: &mut [Answer]) -> Result<usize, Errno> {
        let (least, most) = (least as libc::c_long, out.len() as libc::c_long);
        let for_ever = std::ptr::null_mut::<libc::timespec>();
        // SAFETY: the kernel writes at most `most` answers to `out`; no time limit is passed.
        answer_of(unsafe {
            libc::syscall(libc::SYS_io_getevents, self.id, least, most, out.as_mut_ptr(), for_ever)
        })
    }

    /// Whether answers can be taken, as far as it shows without entering the kernel.
    pub(super) fn may_have_answers(&self) -> bool {
        let ring = self.id as *const Ring;
        // SAFETY: the id of a context is the address at which the kernel has mapped its ring, for
        // as long as the context lives. Its layout is told by the magic number behind the counters.
        let ring = unsafe { &*ring };
        ring.magic != RING_MAGIC
            || ring.head.load(Ordering::Relaxed) != ring.tail.load(Ordering::Acquire)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was made by `new`, and is not used again.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

fn answer_of(returned: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| Errno::of(&std::io::Error::last_os_error()))
}
