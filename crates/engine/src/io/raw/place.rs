//! Where a file of the stripe is: in a region of it, or not there yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pipeann_raw::Region;

/// A file that has, or will have, a region of the stripe.
pub(in crate::io) struct RawFile {
    bytes: AtomicU64,
    region: OnceLock<Arc<Region>>,
}

impl RawFile {
    /// A file that does not change, with its copy if there is one.
    pub(super) fn sealed(bytes: u64, region: Option<Arc<Region>>) -> Self {
        let region = region.map(OnceLock::from).unwrap_or_default();
        Self { bytes: AtomicU64::new(bytes), region }
    }

    /// From now on it is read from there.
    pub(super) fn place(&self, region: Arc<Region>) {
        // Another copy of the same bytes is as good.
        let _ = self.region.set(region);
    }

    pub(super) fn is_placed(&self) -> bool {
        self.region.get().is_some()
    }

    /// Where it starts in the stripe, if it is there.
    pub(super) fn start(&self) -> Option<u64> {
        self.region.get().map(|region| region.start)
    }

    pub(in crate::io) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Grows it within its region. False where that has no room.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let room = self.region.get().map_or(0, |region| region.bytes);
        if bytes <= room {
            self.bytes.fetch_max(bytes, Ordering::AcqRel);
        }
        bytes <= room
    }
}
