//! Memory that was freed and that the allocator keeps.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "a call of the C library that takes no pointers")
)]

/// Returns memory that was freed to the system, where the allocator would keep it. Takes some
/// milliseconds, for which others wait who ask for memory.
pub fn return_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time and from any thread, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
