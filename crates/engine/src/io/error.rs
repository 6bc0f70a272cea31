//! What can go wrong below the index, in a form that tells the caller what to do next.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::types::ErrorClass;

/// The number of an operating system error, printed with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The number inside `error`, or `EIO` where it carries none.
    pub fn of(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Whether the system was short of something just then: the same may succeed later.
    pub fn is_shortage(self) -> bool {
        use libc::{EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOMEM};
        matches!(self.0, EAGAIN | EBUSY | EINTR | EMFILE | ENFILE | ENOMEM)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f)
    }
}

/// An error of a backend, a queue or one operation. Offsets and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// As many operations are in flight as the queue is deep.
    #[error("the queue is full ({depth} operations in flight); take completions first")]
    Full {
        /// Depth of the queue.
        depth: usize,
    },
    /// The file could not be opened or created.
    #[error("cannot open {}: {errno}", path.display())]
    Open {
        /// The file.
        path: Arc<Path>,
        /// The system's answer.
        errno: Errno,
    },
    /// The file system does not do direct I/O.
    #[error(
        "{}: this file system refuses direct I/O (O_DIRECT); move the index to a local disk, \
         or allow buffered reads (open with `direct: false`)",
        path.display()
    )]
    DirectRefused {
        /// The file.
        path: Arc<Path>,
    },
    /// The file belongs to another kind of backend, such as a memory file given to io_uring.
    #[error("{} was not opened by the {backend} backend and cannot be used with it", path.display())]
    ForeignFile {
        /// The file.
        path: Arc<Path>,
        /// The backend asked to use it.
        backend: &'static str,
    },
    /// Offset or length is no multiple of the block size, which direct I/O needs.
    #[error("{bytes} bytes at {offset} of {} are not aligned to blocks of {block_bytes}", path.display())]
    Misaligned {
        /// The file.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// Length asked for.
        bytes: u64,
        /// The block size.
        block_bytes: usize,
    },
    /// The range ends beyond the device.
    #[error("{bytes} bytes at {offset} end beyond the device of {device_bytes} bytes")]
    OutOfRange {
        /// Offset in the device.
        offset: u64,
        /// Length asked for.
        bytes: u64,
        /// Length of the device.
        device_bytes: u64,
    },
    /// The range starts in one extent and ends in another.
    #[error("{bytes} bytes at {offset} cross the end of an extent at {extent_end}")]
    CrossesExtents {
        /// Offset in the device.
        offset: u64,
        /// Length asked for.
        bytes: u64,
        /// Where the extent ends in the device.
        extent_end: u64,
    },
    /// The range is longer than the queue's buffers.
    #[error("{bytes} bytes do not fit into buffers of {buffer_bytes}")]
    BufferTooSmall {
        /// Length asked for.
        bytes: u64,
        /// Length of each buffer.
        buffer_bytes: usize,
    },
    /// The file ended inside the range: it was truncated, or never written so far.
    #[error("{} ends early: {got} of {wanted} bytes at {offset}", path.display())]
    Short {
        /// The file.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// Length asked for.
        wanted: u32,
        /// Bytes that were there.
        got: u32,
    },
    /// The system failed to read.
    #[error("cannot read {bytes} bytes at {offset} of {}: {errno}", path.display())]
    Read {
        /// The file.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// Length asked for.
        bytes: u32,
        /// The system's answer.
        errno: Errno,
    },
    /// A raw device failed; `reason` tells which, where on it, and its status.
    #[error("{} at {offset}: {reason}", path.display())]
    Device {
        /// The file whose copy was read.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// The device, the block and the status.
        reason: Arc<str>,
    },
    /// Raw devices cannot be used.
    #[error("{reason}")]
    Raw {
        /// Which, and what to do.
        reason: Arc<str>,
    },
    /// The system failed to write.
    #[error("cannot write {bytes} bytes at {offset} of {}: {errno}", path.display())]
    Write {
        /// The file.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// Length asked for.
        bytes: u32,
        /// The system's answer.
        errno: Errno,
    },
    /// Data may not have reached stable storage; what is on disk is unknown.
    #[error("cannot sync {}: {errno}; what was written since the last sync may be lost", path.display())]
    Sync {
        /// The file.
        path: Arc<Path>,
        /// The system's answer.
        errno: Errno,
    },
    /// The disk or the quota is full.
    #[error("no space left for {bytes} bytes at {offset} of {}", path.display())]
    NoSpace {
        /// The file.
        path: Arc<Path>,
        /// Offset in the file.
        offset: u64,
        /// Length asked for.
        bytes: u64,
    },
    /// The file's length could not be read or changed.
    #[error("cannot read or change the length of {}: {errno}", path.display())]
    Length {
        /// The file.
        path: Arc<Path>,
        /// The system's answer.
        errno: Errno,
    },
    /// The device has no extent that could grow.
    #[error("a device without extents cannot be extended")]
    NoExtent,
    /// The queue broke in an earlier call.
    #[error("the I/O queue broke before; make a new one")]
    Broken,
    /// A queue made before a fork was used in the child.
    #[error("this queue was made in process {made_in}; after a fork, make a new one")]
    Forked {
        /// Process id that made the queue.
        made_in: u32,
    },
    /// The options ask for what no queue can do.
    #[error("queue options: {0}")]
    Options(&'static str),
    /// The backend could not be set up.
    #[error("cannot set up {what}: {errno}")]
    Setup {
        /// What was to be set up.
        what: &'static str,
        /// The system's answer.
        errno: Errno,
    },
    /// The system did not accept operations. Those pushed stay queued for the next flush.
    #[error("cannot submit to the kernel: {errno}")]
    Submit {
        /// The system's answer.
        errno: Errno,
    },
}

impl IoError {
    /// What the side of raw devices says, as this side does.
    pub(super) fn raw(error: impl fmt::Display) -> Self {
        Self::Raw { reason: error.to_string().into() }
    }

    /// Whether to retry, to fix the input or the machine, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Full { .. } | Self::Broken => ErrorClass::Retry,
            Self::Open { errno, .. }
            | Self::Read { errno, .. }
            | Self::Setup { errno, .. }
            | Self::Submit { errno }
                if errno.is_shortage() =>
            {
                ErrorClass::Retry
            }
            Self::Open { .. }
            | Self::DirectRefused { .. }
            | Self::ForeignFile { .. }
            | Self::Misaligned { .. }
            | Self::OutOfRange { .. }
            | Self::CrossesExtents { .. }
            | Self::BufferTooSmall { .. }
            | Self::NoSpace { .. }
            | Self::NoExtent
            | Self::Forked { .. }
            | Self::Options(_)
            | Self::Raw { .. }
            | Self::Setup { .. } => ErrorClass::FixInput,
            Self::Short { .. }
            | Self::Device { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Sync { .. }
            | Self::Length { .. }
            | Self::Submit { .. } => ErrorClass::Stop,
        }
    }

    /// The system's error number, where there was one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { errno, .. }
            | Self::Read { errno, .. }
            | Self::Write { errno, .. }
            | Self::Sync { errno, .. }
            | Self::Length { errno, .. }
            | Self::Setup { errno, .. }
            | Self::Submit { errno } => Some(*errno),
            Self::DirectRefused { .. } => Some(Errno(libc::EINVAL)),
            Self::NoSpace { .. } => Some(Errno(libc::ENOSPC)),
            _ => None,
        }
    }
}
