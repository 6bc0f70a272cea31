//! Operations on files in memory, and what goes wrong with them on purpose.

use std::sync::Arc;

use super::backend::{Completion, Transfer};
use super::buffer::{BufferId, BufferPool};
use super::device::{Device, File, Place};
use super::error::{Errno, IoError};
use super::op::Kind;

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
