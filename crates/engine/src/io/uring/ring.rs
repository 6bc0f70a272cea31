//! How a ring is set up.
//!
//! Rings ask for `COOP_TASKRUN` with `TASKRUN_FLAG`: the kernel then does not interrupt the
//! thread for each completion, and says in the ring when a poll must enter the kernel to see
//! some. `docs/decisions/0003-io-uring-setup.md` has the measurements, and why neither
//! `SINGLE_ISSUER` nor `DEFER_TASKRUN` is used (a queue may move to another thread).

#![expect(unsafe_code, reason = "buffers are registered with the kernel by pointer")]

use io_uring::IoUring;

use super::super::backend::QueueOptions;
use super::super::buffer::BufferPool;
use super::super::error::{Errno, IoError};

/// The longest region that the kernel registers as one buffer.
const REGISTER_BYTES: usize = 1 << 30;

/// The largest ring that the kernel makes.
const ENTRIES_MAX: u32 = 32_768;

/// The ring with the set-up that measured best, or a plain one on older kernels.
pub(super) fn build_ring(options: &QueueOptions) -> std::io::Result<IoUring> {
    // One more watches for who wakes the queue.
    let depth = (options.depth as u32 + 1).min(ENTRIES_MAX.max(options.depth as u32));
    let mut builder = IoUring::builder();
    if options.sqpoll {
        // The polling thread frees entries a batch at a time, so completions can be seen
        // before their entries are free: twice the depth keeps a push from ever failing.
        return builder.setup_sqpoll(50).build(depth * 2);
    }
    builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    match builder.build(depth) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(depth),
        built => built,
    }
}

/// Registers the buffers, where the kernel and the limit on locked memory allow it.
pub(super) fn register(ring: &IoUring, pool: &BufferPool) -> bool {
    let (base, bytes) = pool.region();
    if bytes == 0 || bytes > REGISTER_BYTES {
        return false;
    }
    let region = [libc::iovec { iov_base: base.cast(), iov_len: bytes }];
    // SAFETY: the region stays mapped longer than the ring, see the order of the fields.
    match unsafe { ring.submitter().register_buffers(&region) } {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, bytes, "read buffers are not registered with io_uring");
            false
        }
    }
}

pub(super) fn setup_error(what: &'static str) -> impl Fn(std::io::Error) -> IoError {
    move |error| IoError::Setup { what, errno: Errno::of(&error) }
}
