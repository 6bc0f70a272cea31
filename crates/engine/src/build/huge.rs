//! Large arrays on huge pages, and prefetching rows of them.
//!
//! An insertion touches thousands of rows at random. With 4 KiB pages nearly every one misses
//! the TLB; `madvise` before the first touch lets the kernel use 2 MiB pages, and gains more
//! than any kernel does. Where the advice is refused nothing is lost but time.
#![expect(unsafe_code, reason = "madvise and prefetch hints; neither can change a value")]

/// An empty vector with room for `len` elements, advised to be on huge pages.
pub(crate) fn with_capacity<T>(len: usize) -> Vec<T> {
    let vec = Vec::<T>::with_capacity(len);
    advise(&vec);
    vec
}

#[cfg(target_os = "linux")]
fn advise<T>(vec: &Vec<T>) {
    const HUGE: usize = 2 << 20;
    let start = (vec.as_ptr() as usize).next_multiple_of(HUGE);
    let end = (vec.as_ptr() as usize + vec.capacity() * size_of::<T>()) & !(HUGE - 1);
    if end > start {
        // SAFETY: the range lies inside the vector's allocation, and LinuxHugepage changes how
        // the kernel backs it, never what it holds.
        let _ = unsafe {
            rustix::mm::madvise(
                start as *mut core::ffi::c_void,
                end - start,
                rustix::mm::Advice::LinuxHugepage,
            )
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &Vec<T>) {}

/// Hints that `row` is wanted soon.
#[inline]
pub(crate) fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for at in (0..size_of_val(row)).step_by(64) {
            // SAFETY: a prefetch is a hint that never faults, and the address is in the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// A copy of `bytes` on huge pages.
pub(crate) fn huge_copy(bytes: &[u8]) -> Vec<u8> {
    let mut copy = with_capacity(bytes.len());
    copy.extend_from_slice(bytes);
    copy
}
