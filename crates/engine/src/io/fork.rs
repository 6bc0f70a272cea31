//! Notices that the process was forked, at the cost of one load.
//!
//! A child that used its parent's ring would take the parent's completions and write into its
//! own copies of the buffers. A page marked `MADV_WIPEONFORK` reads as zero in a child,
//! however it was forked; where the kernel lacks it, process ids are compared.

#![expect(unsafe_code, reason = "the kernel changes the marked page behind the compiler's back")]

use memmap2::MmapMut;

use super::error::{Errno, IoError};

/// Remembers in which process it was made.
pub(super) struct ForkGuard {
    page: Option<MmapMut>,
    made_in: u32,
}

impl ForkGuard {
    pub(super) fn new() -> Result<Self, IoError> {
        let page = marked_page()
            .map_err(|error| IoError::Setup { what: "fork detection", errno: Errno::of(&error) })?;
        Ok(Self { page, made_in: std::process::id() })
    }

    #[inline]
    pub(super) fn forked(&self) -> bool {
        match &self.page {
            // SAFETY: the page is mapped, readable and at least one byte long.
            Some(page) => unsafe { page.as_ptr().read_volatile() == 0 },
            None => std::process::id() != self.made_in,
        }
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), IoError> {
        if self.forked() { Err(IoError::Forked { made_in: self.made_in }) } else { Ok(()) }
    }
}

#[cfg(target_os = "linux")]
fn marked_page() -> std::io::Result<Option<MmapMut>> {
    use rustix::mm::{Advice, madvise};
    let mut page = MmapMut::map_anon(4096)?;
    page[0] = 1;
    // SAFETY: the range is one private anonymous mapping that only this guard uses; the
    // advice changes its content in children only.
    let marked = unsafe { madvise(page.as_mut_ptr().cast(), page.len(), Advice::LinuxWipeOnFork) };
    Ok(marked.is_ok().then_some(page))
}

#[cfg(not(target_os = "linux"))]
fn marked_page() -> std::io::Result<Option<MmapMut>> {
    Ok(None)
}
