//! A file that stands in for an SSD: for tests, for CI, and for whoever wants to try the stripe.
//!
//! Read and written past the page cache where the file system does that, through a ring of the
//! kernel of its own; where such rings are forbidden, by calls that block the poller. The file is
//! locked: another process that opens it is refused.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::bell::Bell;
use crate::device::{
    Command, CommandDone, CommandRefused, DeviceAction, Geometry, RawDevice, Status,
};

/// Commands in flight.
const DEPTH: u32 = 256;
/// How often, and how long each time, a lock is waited for. A process that was killed holds its files
/// until the kernel has taken its rings down, a little after it has ended.
const LOCK_TRIES: (u32, Duration) = (100, Duration::from_millis(10));
/// As long as common SSDs take.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// Block size that the device claims to have.
    pub lba_bytes: u32,
    /// Use calls that block instead of a ring of the kernel.
    pub blocking: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { lba_bytes: 512, blocking: false }
    }
}

/// See the module's description.
pub struct FileDev {
    name: String,
    geometry: Geometry,
    inner: Box<dyn BlockingTransfers>,
}

/// What carries commands out on a file.
pub(crate) trait BlockingTransfers: Send {
    /// As [`RawDevice::submit`], of flushes too.
    ///
    /// # Safety
    /// As there.
    #[expect(unsafe_code, reason = "memory is handed over by pointer")]
    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused>;
    fn poll(&mut self, done: &mut Vec<CommandDone>);
    fn bell(&self) -> Option<Arc<dyn Bell>>;
}

/// What keeps a file from being used.
#[derive(Debug, thiserror::Error)]
pub enum FileDevError {
    /// It cannot be opened.
    #[error("cannot open {}: {source}; make it first, as with `truncate -s 64G`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Somebody else uses it.
    #[error("{} is used by another process; without `--backend spdk` an index is read from its files", path.display())]
    Used {
        /// The file.
        path: PathBuf,
    },
}

impl FileDev {
    /// The device that this file is. Its length is the device's.
    ///
    /// # Errors
    /// [`FileDevError`].
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, FileDevError> {
        let failed = |source| FileDevError::Open { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        match lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(FileDevError::Used { path: path.to_owned() }),
            Err(e) => return Err(failed(e.into())),
        }
        let lba = u64::from(options.lba_bytes);
        let bytes = file.metadata().map_err(failed)?.len() / lba * lba;
        let geometry = Geometry {
            lba_bytes: options.lba_bytes,
            bytes,
            max_transfer_bytes: MAX_TRANSFER_BYTES,
            depth: DEPTH,
        };
        let inner = transfers(file, options.blocking);
        Ok(Self { name: path.display().to_string(), geometry, inner })
    }
}

/// Locks a file for this process, patiently.
fn lock(file: &File) -> Result<(), Errno> {
    let (mut tries, pause) = LOCK_TRIES;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tries > 0 => {
                tries -= 1;
                std::thread::park_timeout(pause);
            }
            other => return other,
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let mut direct = options.clone();
        match direct.custom_flags(libc::O_DIRECT).open(path) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return opened,
        }
    }
    options.open(path)
}

fn transfers(file: File, blocking: bool) -> Box<dyn BlockingTransfers> {
    #[cfg(target_os = "linux")]
    if !blocking {
        match crate::file_ring::FileRing::new(&file, DEPTH) {
            Ok(ring) => return Box::new(ring),
            Err(error) => tracing::warn!(%error, "a device file is read by calls that block"),
        }
    }
    Box::new(Blocking { file, done: Vec::new() })
}

impl RawDevice for FileDev {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[expect(unsafe_code, reason = "memory is handed over by pointer")]
    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        // SAFETY: the same contract.
        unsafe { self.inner.submit(command) }
    }

    #[expect(unsafe_code, reason = "a flush shares the way of transfers")]
    fn flush(&mut self, tag: u64) -> Result<(), CommandRefused> {
        let memory = std::ptr::null_mut();
        let flush = Command { action: DeviceAction::Flush, offset: 0, bytes: 0, memory, tag };
        // SAFETY: a flush touches no memory.
        unsafe { self.inner.submit(&flush) }
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        self.inner.poll(done);
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.inner.bell()
    }
}

/// Commands carried out as they come.
struct Blocking {
    file: File,
    done: Vec<CommandDone>,
}

impl BlockingTransfers for Blocking {
    #[expect(unsafe_code, reason = "memory is handed over by pointer")]
    unsafe fn submit(&mut self, command: &Command) -> Result<(), CommandRefused> {
        use std::os::unix::fs::FileExt;
        let bytes = command.bytes as usize;
        let ended = match command.action {
            DeviceAction::Flush => self.file.sync_data(),
            DeviceAction::Read => {
                // SAFETY: the caller lends this memory for writing until the command ends.
                let memory = unsafe { std::slice::from_raw_parts_mut(command.memory, bytes) };
                self.file.read_exact_at(memory, command.offset)
            }
            DeviceAction::Write => {
                // SAFETY: the caller lends this memory until the command ends.
                let memory = unsafe { std::slice::from_raw_parts(command.memory, bytes) };
                self.file.write_all_at(memory, command.offset)
            }
        };
        let result = ended.map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Status::Short,
            _ => Status::System(e.raw_os_error().unwrap_or(libc::EIO)),
        });
        self.done.push(CommandDone { tag: command.tag, result });
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<CommandDone>) {
        done.append(&mut self.done);
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        None
    }
}
