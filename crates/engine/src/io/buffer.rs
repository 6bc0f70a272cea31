//! Memory that direct I/O can reach: page-aligned bytes, and a queue's pool of buffers.
//!
//! Invariant of the pool: a buffer is free, taken or in flight. Only a taken one can be
//! borrowed, and only a taken one can go in flight, so that Rust never holds a reference to
//! bytes the kernel or another thread may be writing.

#![expect(unsafe_code, reason = "buffers in flight are shared with the kernel by pointer")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memmap2::MmapMut;

use super::error::{Errno, IoError};

/// Alignment of every buffer, in bytes; enough for direct I/O on any common disk.
pub(super) const ALIGN: usize = 4096;
const HUGE: usize = 2 << 20;

/// A growable byte buffer that starts on a page boundary and, when large, asks for huge pages.
///
/// New bytes are zero and cost no memory until touched.
#[derive(Default)]
pub struct AlignedBuf {
    map: Option<MmapMut>,
    len: usize,
}

impl AlignedBuf {
    /// `len` zero bytes.
    ///
    /// # Panics
    /// Where the system has no such address space, as any allocation of this size would.
    pub fn zeroed(len: usize) -> Self {
        Self { map: (len > 0).then(|| map(len)), len }
    }

    /// `len` zero bytes of which few may ever be used: no swap is set aside for them, and huge
    /// pages are asked for only where [`use_densely`](Self::use_densely) says so.
    ///
    /// # Errors
    /// Where the system has no such address space.
    pub(crate) fn sparse(len: usize) -> std::io::Result<Self> {
        let len_mapped = len.next_multiple_of(ALIGN).max(ALIGN);
        let map = memmap2::MmapOptions::new().len(len_mapped).no_reserve_swap().map_anon()?;
        Ok(Self { map: Some(map), len })
    }

    /// Asks for huge pages where a range is large enough for them.
    pub(crate) fn use_densely(&self, range: std::ops::Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.map
            && range.len() >= HUGE
        {
            // Only advice: kernels built without huge pages refuse it, and nothing changes.
            let _ = map.advise_range(memmap2::Advice::HugePage, range.start, range.len());
        }
    }

    /// Gives the memory behind a range back, whose bytes are zero then. Where the system refuses,
    /// they stay.
    ///
    /// # Safety
    /// Nobody reads or writes the range meanwhile.
    pub(crate) unsafe fn give_back(&self, range: std::ops::Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.map {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the caller's promise, and the range lies within the map.
            let _ = unsafe { map.unchecked_advise_range(advice, range.start, range.len()) };
        }
    }

    /// Bytes it can hold without moving.
    pub fn capacity(&self) -> usize {
        self.map.as_ref().map_or(0, |m| m.len())
    }

    /// Changes the length; bytes gained are zero. Growth doubles the capacity, and moves.
    pub fn resize(&mut self, len: usize) {
        if len > self.capacity() {
            let mut grown = map(len.max(self.capacity() * 2));
            grown[..self.len].copy_from_slice(self);
            self.map = Some(grown);
        } else if len > self.len {
            let from = self.len;
            if let Some(map) = &mut self.map {
                map[from..len].fill(0);
            }
        }
        self.len = len;
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let from = self.len;
        self.resize(from + bytes.len());
        self[from..].copy_from_slice(bytes);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |m| &m[..self.len])
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.map.as_mut().map_or(&mut [], |m| &mut m[..len])
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

fn map(len: usize) -> MmapMut {
    try_map(len).expect("anonymous memory can be mapped")
}

fn try_map(len: usize) -> std::io::Result<MmapMut> {
    let map = MmapMut::map_anon(len.next_multiple_of(ALIGN))?;
    #[cfg(target_os = "linux")]
    if len >= HUGE {
        // Only advice: kernels built without huge pages refuse it, and nothing changes.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}

/// A buffer of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub(super) u32);

impl BufferId {
    /// No buffer: stands in the completion of a sync.
    pub const NONE: Self = Self(u32::MAX);

    /// Position among the queue's buffers, from 0; for callers that keep a table per buffer.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Taken,
    InFlight,
}

/// What buffers lie in, held as long as they are used.
enum Memory {
    Map(MmapMut),
    /// Of devices that read without the kernel.
    Raw(pipeann_raw::memory::MemoryRegion),
}

/// The buffers of one queue, in one region.
pub(super) struct BufferPool {
    base: NonNull<u8>,
    region: Option<Memory>,
    buffer_bytes: usize,
    stride: usize,
    states: Vec<State>,
    free: Vec<BufferId>,
}

// SAFETY: `base` points into `region`, which the pool owns and which has no thread affinity.
unsafe impl Send for BufferPool {}

impl BufferPool {
    pub(super) fn new(buffers: usize, buffer_bytes: usize) -> Result<Self, IoError> {
        let stride = buffer_bytes.next_multiple_of(ALIGN);
        let mut region = match buffers * stride {
            0 => None,
            bytes => Some(try_map(bytes).map_err(|error| IoError::Setup {
                what: "read buffers",
                errno: Errno::of(&error),
            })?),
        };
        let base =
            region.as_mut().map_or(NonNull::dangling(), |r| NonNull::from(&mut r[..]).cast::<u8>());
        let free = (0..buffers as u32).rev().map(BufferId).collect();
        let region = region.map(Memory::Map);
        Ok(Self { base, region, buffer_bytes, stride, states: vec![State::Free; buffers], free })
    }

    /// Length of the region for so many buffers.
    pub(super) const fn region_bytes(buffers: usize, buffer_bytes: usize) -> usize {
        buffers * buffer_bytes.next_multiple_of(ALIGN)
    }

    /// Buffers in a region of [`region_bytes`](Self::region_bytes).
    pub(super) fn within(
        region: pipeann_raw::memory::MemoryRegion,
        buffers: usize,
        buffer_bytes: usize,
    ) -> Self {
        let stride = buffer_bytes.next_multiple_of(ALIGN);
        assert!(region.bytes() >= buffers * stride, "the region holds the buffers");
        let base = NonNull::new(region.start()).expect("memory is somewhere");
        let free = (0..buffers as u32).rev().map(BufferId).collect();
        let region = Some(Memory::Raw(region));
        Self { base, region, buffer_bytes, stride, states: vec![State::Free; buffers], free }
    }

    /// First byte and length of the whole region, to register it with the kernel.
    pub(super) fn region(&self) -> (*mut u8, usize) {
        let bytes = match &self.region {
            None => 0,
            Some(Memory::Map(map)) => map.len(),
            Some(Memory::Raw(region)) => region.bytes(),
        };
        (self.base.as_ptr(), bytes)
    }

    pub(super) fn take(&mut self) -> Option<BufferId> {
        let buffer = self.free.pop()?;
        self.states[buffer.index()] = State::Taken;
        Some(buffer)
    }

    pub(super) fn give_back(&mut self, buffer: BufferId) {
        self.expect_taken(buffer);
        self.states[buffer.index()] = State::Free;
        self.free.push(buffer);
    }

    /// Checks that `bytes` fit; part of admitting an operation, changes nothing.
    pub(super) fn check(&self, buffer: BufferId, bytes: usize) -> Result<(), IoError> {
        self.expect_taken(buffer);
        if bytes > self.buffer_bytes {
            let buffer_bytes = self.buffer_bytes;
            return Err(IoError::BufferTooSmall { bytes: bytes as u64, buffer_bytes });
        }
        Ok(())
    }

    /// Hands the buffer to an operation until [`finish`](Self::finish).
    pub(super) fn start(&mut self, buffer: BufferId) -> *mut u8 {
        self.expect_taken(buffer);
        self.states[buffer.index()] = State::InFlight;
        self.pointer(buffer)
    }

    /// Where a buffer that is in flight starts.
    pub(super) fn pointer(&self, buffer: BufferId) -> *mut u8 {
        assert!(buffer.index() < self.states.len(), "the buffer belongs to this queue");
        // SAFETY: the index was checked, so the offset stays inside the region.
        unsafe { self.base.as_ptr().add(buffer.index() * self.stride) }
    }

    pub(super) fn finish(&mut self, buffer: BufferId) {
        if buffer != BufferId::NONE {
            debug_assert_eq!(self.states[buffer.index()], State::InFlight);
            self.states[buffer.index()] = State::Taken;
        }
    }

    pub(super) fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.expect_taken(buffer);
        // SAFETY: the range lies in the region, which was zeroed when mapped; the buffer is
        // taken, so nothing writes to it while `self` is borrowed (putting it in flight needs
        // `&mut self`).
        unsafe { std::slice::from_raw_parts(self.pointer(buffer), self.buffer_bytes) }
    }

    pub(super) fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.expect_taken(buffer);
        // SAFETY: as in `bytes`; buffers do not overlap and `&mut self` excludes other borrows.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(buffer), self.buffer_bytes) }
    }

    /// Keeps the memory mapped for ever, where operations on it could not be waited for.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux's queues need it"))]
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.region.take());
    }

    #[inline]
    fn expect_taken(&self, buffer: BufferId) {
        let state = self.states.get(buffer.index()).copied();
        assert_eq!(state, Some(State::Taken), "buffer {buffer:?} is taken and not in flight");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_buf_grows_and_zeroes() {
        let mut buf = AlignedBuf::default();
        assert!(buf.is_empty());
        buf.extend_from_slice(&[7; 5000]);
        assert_eq!(buf.as_ptr() as usize % ALIGN, 0);
        buf.resize(10);
        buf.resize(20);
        assert_eq!(&buf[..], &[[7u8; 10], [0; 10]].concat()[..]);
        buf.resize(3 << 20);
        assert_eq!((buf[9], buf[10], buf[(3 << 20) - 1]), (7, 0, 0));
        assert_eq!(AlignedBuf::zeroed(5).len(), 5);
    }

    #[test]
    #[should_panic(expected = "is taken and not in flight")]
    fn a_buffer_in_flight_cannot_be_borrowed() {
        let mut pool = BufferPool::new(1, 4096).expect("memory");
        let buffer = pool.take().expect("one buffer");
        pool.start(buffer);
        pool.bytes(buffer);
    }
}
