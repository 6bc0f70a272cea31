//! Asking for memory ahead of its use.

const LINE_BYTES: usize = 64;

/// Lines asked for at most; the hardware prefetcher follows from there.
const LINES: usize = 16;

/// Hints that `bytes` will be read soon (the first kilobyte of them).
#[inline]
pub fn prefetch(bytes: &[u8]) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    let start = bytes.as_ptr();
    let mut offset = 0;
    while offset < last.min(LINE_BYTES * LINES) {
        prefetch_line(start.wrapping_add(offset));
        offset += LINE_BYTES;
    }
    // An unaligned tail may reach into one line more.
    prefetch_line(start.wrapping_add(last.min(LINE_BYTES * LINES)));
}

/// Hints that the cache line at `p` will be read soon. Any address may be given.
#[inline(always)]
pub(crate) fn prefetch_line(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address, and SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `prfm` never faults, whatever the address, and changes no register or flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
