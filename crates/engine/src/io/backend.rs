//! The seam: what a backend and a queue promise, whatever stands behind them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::buffer::BufferId;
use super::device::{Device, File};
use super::error::IoError;
use super::waker::Waker;
use crate::memory::Accountant;
pub use pipeann_raw::DeviceCounts;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMode {
    /// Reading is always allowed; this allows writing too.
    pub write: bool,
    /// Create the file where it is missing (needs `write`). An existing one is kept as it is.
    pub create: bool,
    /// Bypass the page cache. Offsets and lengths must then be multiples of
    /// [`Backend::block_bytes`].
    pub direct: bool,
}

impl OpenMode {
    /// An existing file for reading, direct.
    pub const fn read() -> Self {
        Self { write: false, create: false, direct: true }
    }

    /// An existing file for reading and writing, direct.
    pub const fn read_write() -> Self {
        Self { write: true, create: false, direct: true }
    }

    /// A file for reading and writing, created where missing, direct.
    pub const fn create() -> Self {
        Self { write: true, create: true, direct: true }
    }

    /// The same through the page cache, for file systems without direct I/O.
    pub const fn buffered(self) -> Self {
        Self { direct: false, ..self }
    }
}

/// How a thread waits for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Wait {
    /// Sleep in the kernel until something finishes.
    #[default]
    Sleep,
    /// Look again and again. Saves the wake-up, costs the whole core.
    Spin,
}

/// Size and manners of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Operations in flight at most, 1 to 32,768.
    pub depth: usize,
    /// Buffers to own.
    pub buffers: usize,
    /// Bytes of each buffer. Buffers are always aligned to 4 KiB.
    pub buffer_bytes: usize,
    /// Let a kernel thread take submissions (io_uring only, ignored elsewhere). Burns a core.
    pub sqpoll: bool,
    /// How [`Queue::wait`] waits.
    pub wait: Wait,
}

impl Default for QueueOptions {
    /// 64 reads of 4 KiB in flight, sleeping.
    fn default() -> Self {
        Self { depth: 64, buffers: 64, buffer_bytes: 4096, sqpoll: false, wait: Wait::Sleep }
    }
}

impl QueueOptions {
    pub(super) fn check(&self) -> Result<(), IoError> {
        if !(1..=32_768).contains(&self.depth) {
            return Err(IoError::Options("depth must be 1 to 32,768"));
        }
        if self.buffer_bytes == 0 || self.buffer_bytes > 1 << 30 {
            return Err(IoError::Options("buffer_bytes must be 1 to 1 GiB"));
        }
        if self.buffers >= BufferId::NONE.0 as usize {
            return Err(IoError::Options("too many buffers"));
        }
        Ok(())
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// From the device into a buffer.
    Read,
    /// From a buffer to the device.
    Write,
}

/// The end of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the caller passed.
    pub tag: u64,
    /// The buffer passed, now the caller's again; [`BufferId::NONE`] for a sync.
    pub buffer: BufferId,
    /// Bytes read or written, always as many as asked for (0 for a sync), or why not. After a
    /// failed read the buffer's content is undefined.
    pub result: Result<usize, IoError>,
}

/// Files of an index that never change any more, so that a backend may keep copies of them.
pub struct Sealed<'a> {
    /// The index's uuid.
    pub index: [u8; 16],
    /// The generation that is opened.
    pub generation: u64,
    /// The files.
    pub files: &'a [SealedFile],
    /// Where memory for copying is reserved.
    pub accountant: &'a Arc<Accountant>,
}

/// One such file.
#[derive(Clone, Debug)]
pub struct SealedFile {
    /// Number of the partition that it is of.
    pub partition: u32,
    /// Its name there.
    pub name: String,
    /// Where it stands.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// How far a backend is with copies of sealed files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes of all files that were to be copied since the backend was made.
    pub all_bytes: u64,
    /// Bytes of those that are copied, or stay where they are.
    pub done_bytes: u64,
    /// Files that stay where they are for want of room or memory, or because a device failed.
    pub left_files: u64,
}

/// A way to reach storage.
pub trait Backend: Send + Sync {
    /// Name for messages and statistics.
    fn name(&self) -> &'static str;

    /// What offsets and lengths must be multiples of for files opened direct, in bytes.
    fn block_bytes(&self) -> usize;

    /// Opens `path`.
    ///
    /// # Errors
    /// [`IoError::Open`], or [`IoError::DirectRefused`] where only a buffered open would work.
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<File, IoError>;

    /// Opens files that never change any more, for reading. A backend may keep copies of them, and
    /// read those.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file), or [`IoError::Raw`].
    fn open_sealed(&self, sealed: &Sealed<'_>, mode: OpenMode) -> Result<Vec<File>, IoError> {
        sealed.files.iter().map(|file| self.open_file(&file.path, mode)).collect()
    }

    /// Waits until copies of all files opened as sealed are made, telling how far that is.
    fn wait_copied(&self, progress: &mut dyn FnMut(CopyProgress)) -> CopyProgress {
        let _ = progress;
        CopyProgress::default()
    }

    /// What each of its raw devices was asked for so far; none where it has none.
    fn device_counts(&self) -> Vec<DeviceCounts> {
        Vec::new()
    }

    /// Told by a thread that was started to search with this backend, which may want it on a certain
    /// processor.
    fn enter_search_thread(&self) {}

    /// The same, told by a thread that was started to link rows.
    fn enter_link_thread(&self) {}

    /// Makes a queue for one thread, with all memory it will need.
    ///
    /// # Errors
    /// [`IoError::Options`] or [`IoError::Setup`].
    fn queue(&self, options: &QueueOptions) -> Result<Box<dyn Queue>, IoError>;
}

impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Operations of one thread.
///
/// Pushing only notes an operation; [`flush`](Self::flush) or [`wait`](Self::wait) starts it.
/// Operations in flight have no order among each other: a sync covers the writes whose
/// completion was taken before it was pushed. After the queue is made, nothing here
/// allocates, except [`extend`](Self::extend), errors, and an `out` that is too small.
///
/// Dropping a queue discards what was never flushed and waits for what was.
///
/// Every method that returns a result answers [`IoError::Forked`] in a forked child.
///
/// # Panics
/// Using a buffer that is not taken, or touching one while an operation on it is in flight,
/// is a mistake in the program and panics.
pub trait Queue: Send {
    /// Notes a read of `bytes` at `offset` of the device into `buffer`, or a write of the first `bytes`
    /// of `buffer` there. No system call.
    ///
    /// # Errors
    /// [`IoError::Full`], or a range or buffer that does not fit; nothing is noted then.
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError>;

    /// Notes a read.
    ///
    /// # Errors
    /// As for [`push_transfer`](Self::push_transfer).
    fn push_read(
        &mut self,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.push_transfer(Transfer::Read, device, offset, bytes, buffer, tag)
    }

    /// Notes a write.
    ///
    /// # Errors
    /// As for [`push_transfer`](Self::push_transfer).
    fn push_write(
        &mut self,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.push_transfer(Transfer::Write, device, offset, bytes, buffer, tag)
    }

    /// Notes a sync of the data of every file of the device (one completion for all).
    ///
    /// # Errors
    /// [`IoError::Full`].
    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError>;

    /// Grows the last extent until the device has `bytes`, reserving the space; returns the
    /// larger device. Blocks. A device that is long enough is returned as it is.
    ///
    /// # Errors
    /// [`IoError::NoSpace`], [`IoError::Length`] or [`IoError::NoExtent`].
    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError>;

    /// Starts everything noted, in one system call.
    ///
    /// # Errors
    /// [`IoError::Submit`]; what was not accepted stays noted.
    fn flush(&mut self) -> Result<(), IoError>;

    /// Appends what has finished, without blocking.
    ///
    /// # Errors
    /// [`IoError::Submit`] where the rest of a short read could not be submitted.
    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError>;

    /// Flushes, blocks until something has finished or the [waker](Self::waker) says so, and
    /// appends what has finished. Returns at once where nothing is in flight.
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError>;

    /// As [`wait`](Self::wait), but may block until `least` operations have finished: fewer and
    /// fuller rounds where throughput counts more than the time of one read. Fewer completions
    /// may come all the same, and fewer than `least` in flight are waited for as they are.
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    fn wait_for(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        let _ = least;
        self.wait(out)
    }

    /// What ends a wait of this queue from another thread: it then returns with what has finished,
    /// which may be nothing. Of a wait for several operations it stands for one of them.
    ///
    /// # Errors
    /// [`IoError::Setup`].
    fn waker(&mut self) -> Result<Waker, IoError>;

    /// Operations noted or started whose completion was not taken yet.
    fn in_flight(&self) -> usize;

    /// A free buffer, if there is one. Its content is undefined.
    fn take_buffer(&mut self) -> Option<BufferId>;

    /// Gives a taken buffer back.
    fn return_buffer(&mut self, buffer: BufferId);

    /// The bytes of a taken buffer.
    fn buffer(&self, buffer: BufferId) -> &[u8];

    /// The bytes of a taken buffer, to fill before a write.
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8];
}
