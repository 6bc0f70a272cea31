//! Counts the bytes that each thread has allocated, so that a decoder's appetite can be bounded.
//!
//! What an input makes a decoder allocate is the most that is live at once above what was live
//! before. It may be [`PER_BYTE`] bytes for each byte of the input, and [`FREE`] for all that does
//! not depend on it; nothing is free of a message, which comes from whoever can reach a port. What is
//! compiled, and not decoded, has a bound of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that each byte of an input may cost.
pub const PER_BYTE: usize = 4;
/// Bytes that any input may cost.
pub const FREE: usize = 64 << 10;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// The largest share of its bound that an input has taken, in thousandths.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

static REPORTS: AtomicBool = AtomicBool::new(false);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: isize) {
    // Not while a thread ends, when its cells are gone.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: every call goes to the system's allocator as it came; counting touches cells without
// destructors and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

/// From now on prints a line where an input takes a larger share of its bound than all before.
pub fn report_growth() {
    REPORTS.store(true, Ordering::Relaxed);
}

/// What `decode` answers, and the most bytes that were live at once meanwhile on this thread.
pub fn peak_of<T>(decode: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let answer = decode();
    (answer, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// Decodes an input of so many bytes.
///
/// # Panics
/// Where that allocates more than an input of this length may.
pub fn bounded<T>(input: usize, decode: impl FnOnce() -> T) -> T {
    bounded_by(PER_BYTE, input, decode)
}

/// The same where nothing is free: an input of few bytes costs few, too.
///
/// # Panics
/// As [`bounded`].
pub fn bounded_wholly<T>(input: usize, decode: impl FnOnce() -> T) -> T {
    within(PER_BYTE * input, input, decode)
}

/// The same where each byte may cost so many.
///
/// # Panics
/// As [`bounded`].
pub fn bounded_by<T>(per_byte: usize, input: usize, decode: impl FnOnce() -> T) -> T {
    within(per_byte * input + FREE, input, decode)
}

fn within<T>(bound: usize, input: usize, decode: impl FnOnce() -> T) -> T {
    let (answer, peak) = peak_of(decode);
    let share = peak * 1000 / bound.max(1);
    if REPORTS.load(Ordering::Relaxed) && share > LARGEST.get() {
        LARGEST.set(share);
        eprintln!("largest allocation: {peak} bytes of {bound} for {input}");
    }
    assert!(peak <= bound, "{input} bytes made a decoder allocate {peak}, more than {bound}");
    answer
}
