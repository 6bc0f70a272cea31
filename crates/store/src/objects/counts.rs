//! What is asked of a store, counted: each try, whatever came of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of a store so far. Tries of one operation are counted one by one; a directory counts
/// like a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreRequests {
    /// Objects that were put, or tried to.
    pub puts: u64,
    /// Objects, or parts of them, that were read or looked for.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// Objects that were deleted.
    pub deletes: u64,
    /// Requests that failed: not answered, refused, or answered with damaged bytes. That an object is
    /// there or is not is no failure.
    pub errors: u64,
    /// Bytes of objects that were put.
    pub bytes_put: u64,
    /// Bytes of objects that were read.
    pub bytes_got: u64,
}

impl StoreRequests {
    /// All requests.
    pub fn all(&self) -> u64 {
        self.puts + self.gets + self.lists + self.deletes
    }
}

/// The numbers while they are counted.
#[derive(Debug, Default)]
pub(super) struct RequestTally {
    pub(super) puts: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bytes_put: AtomicU64,
    pub(super) bytes_got: AtomicU64,
}

/// Adds to one of them.
pub(super) fn count(number: &AtomicU64, by: u64) {
    number.fetch_add(by, Ordering::Relaxed);
}

impl RequestTally {
    pub(super) fn requests(&self) -> StoreRequests {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        StoreRequests {
            puts: get(&self.puts),
            gets: get(&self.gets),
            lists: get(&self.lists),
            deletes: get(&self.deletes),
            errors: get(&self.errors),
            bytes_put: get(&self.bytes_put),
            bytes_got: get(&self.bytes_got),
        }
    }
}
