//! Memory that devices reach: plain for files, pinned huge pages for what reads by DMA.

#![expect(unsafe_code, reason = "memory is shared with devices by pointer")]

use std::ptr::NonNull;

/// Where memory for transfers comes from.
pub trait Memory: Send + Sync {
    /// So many zero bytes, aligned to 4 KiB.
    ///
    /// # Errors
    /// What keeps it from being had.
    fn allocate(&self, bytes: usize) -> std::io::Result<MemoryRegion>;
}

/// A piece of memory that is given back when it is dropped.
pub struct MemoryRegion {
    start: NonNull<u8>,
    bytes: usize,
    release: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: the region owns its memory, which has no thread affinity.
unsafe impl Send for MemoryRegion {}

impl MemoryRegion {
    /// `bytes` from `start`, until `release` is called.
    ///
    /// # Safety
    /// The memory is valid for reads and writes, initialised, and nobody else's, until then.
    pub unsafe fn new(
        start: NonNull<u8>,
        bytes: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { start, bytes, release: Some(Box::new(release)) }
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the memory for ever, where a device may still write to it.
    pub fn leak(&mut self) {
        std::mem::forget(self.release.take());
    }

    /// What it holds. Nothing that is under way may write to it.
    ///
    /// # Safety
    /// No command on it is under way.
    pub unsafe fn slice(&self) -> &[u8] {
        // SAFETY: `new` says that it is valid, and the caller that nobody writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// What it holds, to be changed.
    ///
    /// # Safety
    /// No command on it is under way.
    pub unsafe fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `slice`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// Plain memory of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Memory for Plain {
    fn allocate(&self, bytes: usize) -> std::io::Result<MemoryRegion> {
        let mut map = memmap2::MmapMut::map_anon(bytes.next_multiple_of(4096).max(4096))?;
        let start = NonNull::from(&mut map[..]).cast();
        // SAFETY: the mapping lives until `release` drops it, and only the region knows of it.
        Ok(unsafe { MemoryRegion::new(start, bytes, move || drop(map)) })
    }
}
