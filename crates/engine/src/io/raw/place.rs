//! Where a file of the stripe is: in a region of it, or still on the file system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pipeann_raw::Region;

use crate::io::device::{Device, Extent, File};

/// A file that has, or will have, a region of the stripe.
pub(in crate::io) struct RawFile {
    bytes: AtomicU64,
    region: OnceLock<Arc<Region>>,
    /// All of the file, where it is read until the region is there, and if a device is lost.
    rest: Option<Device>,
}

impl RawFile {
    /// A file that does not change, with its copy and where to read it otherwise.
    pub(super) fn sealed(bytes: u64, region: Option<Arc<Region>>, rest: Option<File>) -> Self {
        let rest = rest.map(|file| Device::new(vec![Extent { file, offset: 0, bytes }]));
        let region = region.map(OnceLock::from).unwrap_or_default();
        Self { bytes: AtomicU64::new(bytes), region, rest }
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

    /// All of it on the file system.
    pub(super) fn rest(&self) -> Option<&Device> {
        self.rest.as_ref()
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
