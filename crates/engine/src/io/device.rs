//! What is read and written: files, and devices made of their extents.
//!
//! A [`Device`] is a value: extending it yields another one, and readers keep theirs.

use std::path::Path;
use std::sync::Arc;

use super::error::{Errno, IoError};
use super::memory_file::MemoryFile;
use super::raw::RawFile;

/// An open file of some backend. Clones share it.
#[derive(Clone)]
pub struct File {
    inner: Arc<Inner>,
}

struct Inner {
    path: Arc<Path>,
    direct: bool,
    medium: Medium,
}

enum Medium {
    Disk(std::fs::File),
    Memory(MemoryFile),
    /// With all of the file on the file system, where it is read until it is on the stripe, and if
    /// a device is lost.
    Raw(Arc<RawFile>, Option<Device>),
}

impl File {
    /// Wraps a file opened elsewhere; `direct` where it was opened with `O_DIRECT`.
    pub fn from_std(file: std::fs::File, path: &Path, direct: bool) -> Self {
        Self::new(path, direct, Medium::Disk(file))
    }

    /// A file in memory with this content, for the memory backend. `name` stands in errors.
    pub fn from_bytes(name: &Path, bytes: Vec<u8>) -> Self {
        Self::from_memory(name, MemoryFile::new(bytes), false)
    }

    pub(super) fn from_memory(name: &Path, file: MemoryFile, direct: bool) -> Self {
        Self::new(name, direct, Medium::Memory(file))
    }

    /// A file of the stripe over raw devices, and where to read it otherwise.
    pub(super) fn from_raw(name: &Path, file: Arc<RawFile>, rest: Option<Self>) -> Self {
        let bytes = file.bytes();
        let rest = rest.map(|file| Device::new(vec![Extent { file, offset: 0, bytes }]));
        Self::new(name, true, Medium::Raw(file, rest))
    }

    fn new(path: &Path, direct: bool, medium: Medium) -> Self {
        Self { inner: Arc::new(Inner { path: Arc::from(path), direct, medium }) }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Arc<Path> {
        &self.inner.path
    }

    /// Whether it bypasses the page cache.
    pub fn direct(&self) -> bool {
        self.inner.direct
    }

    /// Its length now, in bytes.
    ///
    /// # Errors
    /// [`IoError::Length`].
    pub fn bytes(&self) -> Result<u64, IoError> {
        match &self.inner.medium {
            Medium::Disk(file) => file.metadata().map(|m| m.len()).map_err(|error| {
                IoError::Length { path: Arc::clone(self.path()), errno: Errno::of(&error) }
            }),
            Medium::Memory(file) => Ok(file.bytes()),
            Medium::Raw(file, _) => Ok(file.bytes()),
        }
    }

    pub(super) fn disk(&self, backend: &'static str) -> Result<&std::fs::File, IoError> {
        match &self.inner.medium {
            Medium::Disk(file) => Ok(file),
            Medium::Memory(_) | Medium::Raw(..) => Err(self.foreign(backend)),
        }
    }

    pub(super) fn memory(&self, backend: &'static str) -> Result<&MemoryFile, IoError> {
        match &self.inner.medium {
            Medium::Memory(file) => Ok(file),
            Medium::Disk(_) | Medium::Raw(..) => Err(self.foreign(backend)),
        }
    }

    /// Where it is among raw devices, if it is of these.
    pub(super) fn raw(&self) -> Option<&RawFile> {
        match &self.inner.medium {
            Medium::Raw(file, _) => Some(file),
            _ => None,
        }
    }

    /// All of it on the file system, if it is of the stripe as well.
    pub(super) fn rest(&self) -> Option<&Device> {
        match &self.inner.medium {
            Medium::Raw(_, rest) => rest.as_ref(),
            _ => None,
        }
    }

    fn foreign(&self, backend: &'static str) -> IoError {
        IoError::ForeignFile { path: Arc::clone(self.path()), backend }
    }

    fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

/// A piece of a file.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The file.
    pub file: File,
    /// Where the piece starts in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Extents laid end to end, addressed from 0 in bytes. Clones are cheap and share.
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<Layout>,
}

#[derive(Debug)]
struct Layout {
    extents: Vec<Extent>,
    /// Where each extent starts in the device.
    starts: Vec<u64>,
    bytes: u64,
    /// Every file once, for syncs.
    files: Vec<File>,
}

/// Where a range of a device lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) extent: u32,
    /// Offset in the extent's file.
    pub(super) offset: u64,
}

impl Device {
    /// A device of these extents.
    ///
    /// # Panics
    /// Where the lengths add up beyond 64 bits.
    pub fn new(extents: Vec<Extent>) -> Self {
        let mut starts = Vec::with_capacity(extents.len());
        let mut bytes = 0u64;
        let mut files: Vec<File> = Vec::new();
        for extent in &extents {
            starts.push(bytes);
            bytes = bytes.checked_add(extent.bytes).expect("a device is below 2^64 bytes");
            if !files.iter().any(|f| f.same(&extent.file)) {
                files.push(extent.file.clone());
            }
        }
        Self { inner: Arc::new(Layout { extents, starts, bytes, files }) }
    }

    /// All of one file, at its present length.
    ///
    /// # Errors
    /// [`IoError::Length`].
    pub fn whole(file: &File) -> Result<Self, IoError> {
        let bytes = file.bytes()?;
        Ok(Self::new(vec![Extent { file: file.clone(), offset: 0, bytes }]))
    }

    /// Total length in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// The extents in order.
    pub fn extents(&self) -> &[Extent] {
        &self.inner.extents
    }

    pub(super) fn files(&self) -> &[File] {
        &self.inner.files
    }

    /// Finds the extent that holds all of the range, and checks its alignment.
    pub(super) fn locate(
        &self,
        offset: u64,
        bytes: usize,
        block_bytes: usize,
    ) -> Result<Place, IoError> {
        let layout = &*self.inner;
        let bytes = bytes as u64;
        let end = offset.checked_add(bytes).filter(|&end| end <= layout.bytes);
        let (Some(end), false) = (end, layout.extents.is_empty()) else {
            return Err(IoError::OutOfRange { offset, bytes, device_bytes: layout.bytes });
        };
        let i = match layout.extents.len() {
            1 => 0,
            _ => layout.starts.partition_point(|&start| start <= offset) - 1,
        };
        let extent = &layout.extents[i];
        let extent_end = layout.starts[i] + extent.bytes;
        if end > extent_end {
            return Err(IoError::CrossesExtents { offset, bytes, extent_end });
        }
        let at = extent.offset + (offset - layout.starts[i]);
        let block = block_bytes as u64;
        if extent.file.direct() && !(at.is_multiple_of(block) && bytes.is_multiple_of(block)) {
            let path = Arc::clone(extent.file.path());
            return Err(IoError::Misaligned { path, offset: at, bytes, block_bytes });
        }
        Ok(Place { extent: i as u32, offset: at })
    }

    /// The same device with its last extent grown to reach `bytes`, after `grow` has made the
    /// file hold the range it is given (offset and length in the file).
    pub(super) fn extended(
        &self,
        bytes: u64,
        grow: impl FnOnce(&File, u64, u64) -> Result<(), IoError>,
    ) -> Result<Self, IoError> {
        if bytes <= self.bytes() {
            return Ok(self.clone());
        }
        let mut extents = self.inner.extents.clone();
        let last = extents.last_mut().ok_or(IoError::NoExtent)?;
        let more = bytes - self.bytes();
        grow(&last.file, last.offset + last.bytes, more)?;
        last.bytes += more;
        Ok(Self::new(extents))
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
