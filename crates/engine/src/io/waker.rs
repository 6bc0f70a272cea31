//! What ends a queue's wait from another thread.
//!
//! A queue of the kernel's sleeps in the kernel, until something ends that it was given: an event file
//! that it watches beside its reads is such a thing. It is made when it is asked for, so that queues
//! that nobody wakes pay nothing.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the event file of Linux"))]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use super::error::{Errno, IoError};

/// Ends waits of one queue, from any thread and as often as wanted; outlives the queue without harm.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// One that does this.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Ends the wait under way, or else the next one. A wait that has ended anyway may stand for it.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// Whether a wait is to end, of queues that look for themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was set, which it is not afterwards.
    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::SeqCst)
    }

    /// One that sets it.
    pub(super) fn waker(&self) -> Waker {
        let flag = self.clone();
        Waker::new(move || flag.set())
    }
}

/// An event file that a queue of the kernel watches, and how far it is with that.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) struct Watch {
    file: Arc<std::fs::File>,
    pub(super) state: Watching,
    /// It fired since a wait last ended.
    pub(super) woken: bool,
}

/// Whether the kernel watches the event file.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    /// It has to be asked to.
    Not,
    /// That is noted.
    Noted,
    /// It does.
    Asked,
    /// It refuses to: nothing is woken.
    Refused,
}

#[cfg(target_os = "linux")]
impl Watch {
    pub(super) fn new() -> Result<Self, IoError> {
        use std::os::fd::FromRawFd;
        // SAFETY: the call takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            let errno = Errno::of(&std::io::Error::last_os_error());
            return Err(IoError::Setup { what: "an event file", errno });
        }
        // SAFETY: the descriptor was made just now, and nobody else has it.
        let file = unsafe { std::fs::File::from_raw_fd(fd) };
        Ok(Self { file: Arc::new(file), state: Watching::Not, woken: false })
    }

    pub(super) fn waker(&self) -> Waker {
        use std::io::Write;
        let file = Arc::clone(&self.file);
        // A file that takes no more has told already that something is there.
        Waker::new(move || drop((&*file).write_all(&1_u64.to_ne_bytes())))
    }

    pub(super) fn descriptor(&self) -> i32 {
        use std::os::fd::AsRawFd;
        self.file.as_raw_fd()
    }

    /// Takes the kernel's answer.
    pub(super) fn fired(&mut self, answer: i32) {
        use std::io::Read;
        self.state = if answer < 0 { Watching::Refused } else { Watching::Not };
        self.woken = answer >= 0;
        // Empty, it does not fire until it is written again. It may have been emptied already.
        let _ = (&*self.file).read_exact(&mut [0; 8]);
    }
}
