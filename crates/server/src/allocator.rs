//! The C library's allocator, told to keep less.
//!
//! It gives each thread an arena of its own, eight for each CPU at most, and an arena keeps what was
//! given back to it. Threads that upkeep, link and search take some megabytes each for a moment, so
//! that a process under a memory limit held twice what the accountant counted. Few arenas cost
//! nothing that `bench/run` shows, and a third of that memory.

/// Arenas for so many CPUs: a few, and enough that threads rarely wait for one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn arenas(cpus: usize) -> i32 {
    i32::try_from(cpus / 4).unwrap_or(i32::MAX).max(2)
}

/// To be called before there are other threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library's settings are behind FFI")]
pub(crate) fn keep_little() {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: `mallopt` takes two numbers and has no preconditions; no other thread runs yet. Where
    // it refuses, things stay as they are.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas(cpus)) };
}

/// Other C libraries have no such setting.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_little() {}
