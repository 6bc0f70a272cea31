//! One operation on disk files, step by step: what remains after a short answer, what an
//! error number means, when it is over. Shared by `uring` and `threads`.

use std::path::Path;
use std::sync::Arc;

use super::backend::{Completion, OpenMode, Transfer};
use super::buffer::BufferId;
use super::device::{Device, File, Place};
use super::error::{Errno, IoError};

/// Direct I/O moves whole sectors; an answer that ends inside one has met the end of the file.
const SECTOR_BYTES: usize = 512;

/// The kernel's "try again" is believed this often before it becomes an error.
const PATIENCE: u8 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Sync,
}

impl From<Transfer> for Kind {
    fn from(transfer: Transfer) -> Self {
        match transfer {
            Transfer::Read => Self::Read,
            Transfer::Write => Self::Write,
        }
    }
}

/// An operation in flight.
pub(super) struct Op {
    pub(super) kind: Kind,
    device: Device,
    /// Index of the extent; for a sync, of the file.
    at: u32,
    /// Offset in the file.
    offset: u64,
    bytes: usize,
    pub(super) done: usize,
    pub(super) buffer: BufferId,
    tag: u64,
    tries: u8,
}

/// What an answer of the system means.
pub(super) enum Step {
    /// Do [`Op::remaining`] next.
    Again,
    /// Over.
    Over(Completion),
}

impl Op {
    pub(super) fn transfer(
        kind: Kind,
        device: &Device,
        place: Place,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Self {
        let Place { extent, offset } = place;
        let device = device.clone();
        Self { kind, device, at: extent, offset, bytes, done: 0, buffer, tag, tries: 0 }
    }

    pub(super) fn sync(device: &Device, tag: u64) -> Self {
        let place = Place { extent: 0, offset: 0 };
        Self::transfer(Kind::Sync, device, place, 0, BufferId::NONE, tag)
    }

    /// The file the next step works on; none for the sync of a device without files.
    pub(super) fn file(&self) -> Option<&File> {
        match self.kind {
            Kind::Sync => self.device.files().get(self.at as usize),
            _ => self.device.extents().get(self.at as usize).map(|e| &e.file),
        }
    }

    /// Offset in the file and length of what is still to be moved.
    pub(super) fn remaining(&self) -> (u64, usize) {
        (self.offset + self.done as u64, self.bytes - self.done)
    }

    /// Takes the system's answer: bytes moved, or a negated error number.
    pub(super) fn step(&mut self, answer: i32) -> Step {
        if matches!(-answer, libc::EAGAIN | libc::EINTR) && self.tries < PATIENCE {
            self.tries += 1;
            return Step::Again;
        }
        if answer < 0 {
            // Disks with sectors above 512 bytes refuse to go on after a short answer.
            let cut = self.kind == Kind::Read && self.done > 0 && answer == -libc::EINVAL;
            let error = if cut { self.short() } else { self.failure(Errno(-answer)) };
            return self.over(Err(error));
        }
        if self.kind == Kind::Sync {
            self.at += 1;
            let more = (self.at as usize) < self.device.files().len();
            return if more { Step::Again } else { self.over(Ok(0)) };
        }
        let moved = answer as usize;
        self.done += moved;
        if self.done >= self.bytes {
            return self.over(Ok(self.bytes));
        }
        let direct = self.file().is_some_and(File::direct);
        let whole_sectors = self.done.is_multiple_of(SECTOR_BYTES);
        if moved > 0 && (whole_sectors || !direct) {
            return Step::Again;
        }
        let error = match self.kind {
            Kind::Read => self.short(),
            // A write that moves nothing, or stops inside a sector, will not get further.
            _ => self.failure(Errno(libc::EIO)),
        };
        self.over(Err(error))
    }

    pub(super) fn over(&self, result: Result<usize, IoError>) -> Step {
        Step::Over(Completion { tag: self.tag, buffer: self.buffer, result })
    }

    fn path(&self) -> Arc<Path> {
        let file = self.file().expect("an operation that failed had a file");
        Arc::clone(file.path())
    }

    fn short(&self) -> IoError {
        let (wanted, got) = (self.bytes as u32, self.done as u32);
        IoError::Short { path: self.path(), offset: self.offset, wanted, got }
    }

    fn failure(&self, errno: Errno) -> IoError {
        let (path, offset, bytes) = (self.path(), self.offset, self.bytes as u32);
        match self.kind {
            Kind::Sync => IoError::Sync { path, errno },
            Kind::Read => IoError::Read { path, offset, bytes, errno },
            Kind::Write if no_space(errno) => {
                IoError::NoSpace { path, offset, bytes: self.bytes as u64 }
            }
            Kind::Write => IoError::Write { path, offset, bytes, errno },
        }
    }
}

fn no_space(errno: Errno) -> bool {
    matches!(errno.0, libc::ENOSPC | libc::EDQUOT)
}

/// Opens a file of the file system.
pub(super) fn open_disk(path: &Path, mode: OpenMode) -> Result<File, IoError> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(mode.write).create(mode.create && mode.write);
    #[cfg(target_os = "linux")]
    if mode.direct {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_DIRECT);
    }
    match options.open(path) {
        Ok(file) => Ok(File::from_std(file, path, mode.direct)),
        Err(error) => {
            let (path, errno) = (Arc::from(path), Errno::of(&error));
            Err(match errno.0 {
                libc::EINVAL if mode.direct => IoError::DirectRefused { path },
                _ => IoError::Open { path, errno },
            })
        }
    }
}

/// Makes a file of the file system hold `offset..offset + bytes`, with space reserved.
pub(super) fn grow_disk(
    file: &File,
    offset: u64,
    bytes: u64,
    backend: &'static str,
) -> Result<(), IoError> {
    use rustix::fs::{FallocateFlags, fallocate, ftruncate};
    let disk = file.disk(backend)?;
    let grown = loop {
        match fallocate(disk, FallocateFlags::empty(), offset, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let end = offset + bytes;
                break if file.bytes()? < end { ftruncate(disk, end) } else { Ok(()) };
            }
            other => break other,
        }
    };
    grown.map_err(|error| {
        let (path, errno) = (Arc::clone(file.path()), Errno(error.raw_os_error()));
        if no_space(errno) {
            IoError::NoSpace { path, offset, bytes }
        } else {
            IoError::Length { path, errno }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Extent;

    /// A read of 8 KiB at 4096 of a file that no test touches.
    fn op(kind: Kind, direct: bool) -> Op {
        let null = std::fs::File::open("/dev/null").expect("opens");
        let file = File::from_std(null, Path::new("f"), direct);
        let device = Device::new(vec![Extent { file, offset: 0, bytes: 1 << 20 }]);
        let place = Place { extent: 0, offset: 4096 };
        Op::transfer(kind, &device, place, 8192, BufferId(0), 5)
    }

    fn end(step: Step) -> Result<usize, IoError> {
        match step {
            Step::Over(completion) => completion.result,
            Step::Again => panic!("the operation is over"),
        }
    }

    #[test]
    fn a_short_answer_goes_on_with_the_rest() {
        for (direct, first) in [(true, 512), (true, 4096), (false, 1)] {
            let mut op = op(Kind::Read, direct);
            assert!(matches!(op.step(first), Step::Again));
            assert_eq!(op.remaining(), (4096 + first as u64, 8192 - first as usize));
            assert_eq!(end(op.step(8192 - first)), Ok(8192));
        }
    }

    #[test]
    fn the_end_of_the_file_is_short_however_it_shows() {
        for answers in [&[0][..], &[100], &[512, 0], &[512, -libc::EINVAL], &[4096, 512, 7]] {
            let mut op = op(Kind::Read, true);
            let (last, before) = answers.split_last().expect("an answer");
            assert!(before.iter().all(|&a| matches!(op.step(a), Step::Again)));
            let got = answers.iter().filter(|&&a| a > 0).sum::<i32>() as u32;
            let path = Arc::from(Path::new("f"));
            let short = IoError::Short { path, offset: 4096, wanted: 8192, got };
            assert_eq!(end(op.step(*last)), Err(short));
        }
    }

    #[test]
    fn try_again_is_believed_for_a_while() {
        let mut op = op(Kind::Read, true);
        for i in 0..PATIENCE {
            let answer = if i % 2 == 0 { -libc::EAGAIN } else { -libc::EINTR };
            assert!(matches!(op.step(answer), Step::Again));
        }
        let error = end(op.step(-libc::EAGAIN)).expect_err("patience ends");
        assert_eq!(error.errno(), Some(Errno(libc::EAGAIN)));
    }

    #[test]
    fn errors_say_what_failed() {
        let error = |kind, errno: i32| end(op(kind, true).step(-errno)).expect_err("failed");
        assert!(matches!(error(Kind::Read, libc::EIO), IoError::Read { offset: 4096, .. }));
        assert!(matches!(error(Kind::Read, libc::EINVAL), IoError::Read { .. }));
        assert!(matches!(error(Kind::Write, libc::EIO), IoError::Write { bytes: 8192, .. }));
        assert!(matches!(error(Kind::Write, libc::EDQUOT), IoError::NoSpace { .. }));
        assert!(matches!(error(Kind::Sync, libc::EIO), IoError::Sync { .. }));
        assert!(matches!(end(op(Kind::Write, true).step(0)), Err(IoError::Write { .. })));
    }
}
