//! Files in memory and operations on them, for the memory backend and the simulation.
//!
//! A journaled file keeps apart what is written and what is durable: changes since the last
//! sync stand in a list, and a power loss keeps, drops or tears each of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::backend::{Completion, OpenMode, Transfer};
use super::buffer::{BufferId, BufferPool};
use super::device::{Device, File, Place};
use super::error::{Errno, IoError};
use super::op::Kind;

/// A file in memory. Clones share it.
#[derive(Clone)]
pub(super) struct MemoryFile {
    content: Arc<RwLock<Content>>,
}

struct Content {
    written: Vec<u8>,
    journal: Option<Journal>,
}

/// What a power loss goes back to, and the changes since.
struct Journal {
    durable: Vec<u8>,
    changes: Vec<Change>,
}

/// One change of a file that no sync covers yet.
#[derive(Clone)]
pub(super) enum Change {
    /// Bytes written at an offset.
    Write(usize, Vec<u8>),
    /// A new length.
    Grow(usize),
}

impl Change {
    /// Makes the change to `bytes`.
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        let end = match self {
            Self::Write(offset, data) => offset + data.len(),
            Self::Grow(end) => *end,
        };
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Self::Write(offset, data) = self {
            bytes[*offset..end].copy_from_slice(data);
        }
    }
}

impl MemoryFile {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self::with(Content { written: bytes, journal: None })
    }

    pub(super) fn journaled(bytes: Vec<u8>) -> Self {
        let journal = Journal { durable: bytes.clone(), changes: Vec::new() };
        Self::with(Content { written: bytes, journal: Some(journal) })
    }

    fn with(content: Content) -> Self {
        Self { content: Arc::new(RwLock::new(content)) }
    }

    fn look(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.look().written.len() as u64
    }

    /// Copies what there is at `offset` to `out`; returns how much that was.
    fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let content = self.look();
        let written = &content.written;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(written.len());
        let got = out.len().min(written.len() - start);
        out[..got].copy_from_slice(&written[start..start + got]);
        got
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut content = self.change();
        let start = usize::try_from(offset).expect("memory holds the offset");
        let end = start + data.len();
        if let Some(journal) = &mut content.journal {
            journal.changes.push(Change::Write(start, data.to_vec()));
        }
        if content.written.len() < end {
            content.written.resize(end, 0);
        }
        content.written[start..end].copy_from_slice(data);
    }

    /// Makes it at least so long; returns false where memory does not suffice.
    fn grow(&self, bytes: u64) -> bool {
        let mut content = self.change();
        let Ok(bytes) = usize::try_from(bytes) else { return false };
        let more = bytes.saturating_sub(content.written.len());
        if content.written.try_reserve(more).is_err() {
            return false;
        }
        if more > 0 {
            content.written.resize(bytes, 0);
            if let Some(journal) = &mut content.journal {
                journal.changes.push(Change::Grow(bytes));
            }
        }
        true
    }

    /// Makes what is written durable.
    fn sync(&self) {
        if let Some(Journal { durable, changes }) = &mut self.change().journal {
            for change in changes.drain(..) {
                change.apply(durable);
            }
        }
    }

    /// What is durable, and what a power loss may or may not keep, in order.
    pub(super) fn durable(&self) -> (Vec<u8>, Vec<Change>) {
        let content = self.look();
        match &content.journal {
            Some(journal) => (journal.durable.clone(), journal.changes.clone()),
            None => (content.written.clone(), Vec::new()),
        }
    }
}

/// Named files in memory.
#[derive(Default)]
pub(super) struct MemoryFiles {
    files: Mutex<HashMap<PathBuf, MemoryFile>>,
}

impl MemoryFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, MemoryFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of this name; loaded from the file system or created where there is none.
    pub(super) fn open(
        &self,
        path: &Path,
        mode: OpenMode,
        journaled: bool,
    ) -> Result<MemoryFile, IoError> {
        let mut files = self.lock();
        if let Some(file) = files.get(path) {
            return Ok(file.clone());
        }
        let create = mode.create && mode.write;
        // A device may have no end.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(IoError::Open { path: Arc::from(path), errno: Errno(libc::ENOTSUP) });
        }
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => Vec::new(),
            Err(error) => {
                return Err(IoError::Open { path: Arc::from(path), errno: Errno::of(&error) });
            }
        };
        let file = if journaled { MemoryFile::journaled(bytes) } else { MemoryFile::new(bytes) };
        files.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// Adds or replaces a file.
    pub(super) fn insert(&self, path: PathBuf, file: MemoryFile) {
        self.lock().insert(path, file);
    }

    /// All files, by name.
    pub(super) fn sorted(&self) -> Vec<(PathBuf, MemoryFile)> {
        let mut files: Vec<_> =
            self.lock().iter().map(|(path, file)| (path.clone(), file.clone())).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }
}

/// What goes wrong with an operation on purpose. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A read, write or sync that fails with this error.
    Fail(Errno),
    /// A read that finds the file's end after so many bytes.
    Short(usize),
    /// A write that fails with this error after so many bytes.
    Torn(usize, Errno),
}

/// What to do to a file in memory, with which buffer.
pub(super) struct MemoryOp {
    pub(super) kind: Kind,
    device: Device,
    place: Place,
    pub(super) bytes: usize,
    buffer: BufferId,
    tag: u64,
}

impl MemoryOp {
    /// A transfer to or from a buffer of `pool`, which is in flight from now on.
    pub(super) fn transfer(
        pool: &mut BufferPool,
        transfer: Transfer,
        device: &Device,
        place: Place,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<Self, IoError> {
        pool.check(buffer, bytes)?;
        pool.start(buffer);
        Ok(Self { kind: transfer.into(), device: device.clone(), place, bytes, buffer, tag })
    }

    pub(super) fn sync(device: &Device, tag: u64) -> Self {
        let place = Place { extent: 0, offset: 0 };
        let (kind, buffer) = (Kind::Sync, BufferId::NONE);
        Self { kind, device: device.clone(), place, bytes: 0, buffer, tag }
    }

    /// Does it, or as much as the fault lets it do.
    pub(super) fn carry_out(self, pool: &mut BufferPool, fault: Option<Fault>) -> Completion {
        pool.finish(self.buffer);
        let result = match self.kind {
            Kind::Sync => self.sync_files(fault),
            Kind::Read => self.read(&mut pool.bytes_mut(self.buffer)[..self.bytes], fault),
            Kind::Write => self.write(&pool.bytes(self.buffer)[..self.bytes], fault),
        };
        Completion { tag: self.tag, buffer: self.buffer, result }
    }

    fn file(&self) -> &File {
        &self.device.extents()[self.place.extent as usize].file
    }

    fn sync_files(&self, fault: Option<Fault>) -> Result<usize, IoError> {
        for file in self.device.files() {
            if let Some(Fault::Fail(errno)) = fault {
                return Err(IoError::Sync { path: Arc::clone(file.path()), errno });
            }
            file.memory("memory")?.sync();
        }
        Ok(0)
    }

    fn read(&self, buffer: &mut [u8], fault: Option<Fault>) -> Result<usize, IoError> {
        let (path, offset) = (Arc::clone(self.file().path()), self.place.offset);
        let wanted = buffer.len();
        let possible = match fault {
            Some(Fault::Fail(errno)) => {
                buffer.fill(0xA5);
                return Err(IoError::Read { path, offset, bytes: wanted as u32, errno });
            }
            Some(Fault::Short(bytes)) => bytes,
            _ => wanted,
        };
        let got = self.file().memory("memory")?.read(offset, &mut buffer[..possible]);
        if got == wanted {
            return Ok(got);
        }
        buffer[got..].fill(0xA5);
        Err(IoError::Short { path, offset, wanted: wanted as u32, got: got as u32 })
    }

    fn write(&self, data: &[u8], fault: Option<Fault>) -> Result<usize, IoError> {
        let memory = self.file().memory("memory")?;
        let (done, errno) = match fault {
            Some(Fault::Fail(errno)) => (0, errno),
            Some(Fault::Torn(done, errno)) => (done, errno),
            _ => {
                memory.write(self.place.offset, data);
                return Ok(data.len());
            }
        };
        memory.write(self.place.offset, &data[..done]);
        let (path, offset) = (Arc::clone(self.file().path()), self.place.offset);
        Err(match errno.0 {
            libc::ENOSPC => IoError::NoSpace { path, offset, bytes: data.len() as u64 },
            _ => IoError::Write { path, offset, bytes: data.len() as u32, errno },
        })
    }
}

/// Refuses devices with files that are not in memory.
pub(super) fn check_memory(device: &Device, backend: &'static str) -> Result<(), IoError> {
    device.files().iter().try_for_each(|file| file.memory(backend).map(|_| ()))
}

/// Makes a file in memory hold `offset..offset + bytes`.
pub(super) fn grow_memory(
    file: &File,
    offset: u64,
    bytes: u64,
    backend: &'static str,
) -> Result<(), IoError> {
    if file.memory(backend)?.grow(offset + bytes) {
        return Ok(());
    }
    Err(IoError::NoSpace { path: Arc::clone(file.path()), offset, bytes })
}
