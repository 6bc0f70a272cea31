//! Streaming a segment to its region: from front to back, in bounded memory, checked by a sample.

use std::fs::File;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::device::DeviceAction;
use crate::devices::Devices;
use crate::port::PortTarget;
use crate::store::{CopiedSegment, CopyError};
use crate::stripe::Stripe;
use crate::transfers::Transfers;

/// Bytes of one write.
const PIECE_BYTES: usize = 1 << 20;
/// Writes on their way while the next piece is read.
const PIECES: usize = 4;
/// One piece in so many is read back.
const SAMPLE: u64 = 16;
/// Memory that a copy takes.
pub const COPY_MEMORY_BYTES: u64 = (PIECE_BYTES * PIECES) as u64;

/// Copies a segment to `start` of the stripe, and puts it on stable storage. Returns its checksum.
pub(crate) fn copy(
    devices: &Devices,
    stripe: Stripe,
    segment: &CopiedSegment,
    start: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, CopyError> {
    let failed = |source| CopyError::File { path: segment.path.clone(), source };
    let file = File::open(&segment.path).map_err(failed)?;
    let mut transfers = Transfers::new(devices, stripe, PIECES, PIECE_BYTES)?;
    let lba = u64::from(devices.lba_bytes());
    let (mut whole, mut sample, mut at) = (Xxh3::new(), Vec::new(), 0);
    while at < segment.bytes {
        let length = (segment.bytes - at).min(PIECE_BYTES as u64);
        // Behind the end of a segment stand zeros up to the end of a block.
        let written = length.next_multiple_of(lba) as usize;
        let free = transfers.free()?;
        let piece = &mut transfers.buffer(free)[..written];
        file.read_exact_at(&mut piece[..length as usize], at).map_err(failed)?;
        piece[length as usize..].fill(0);
        whole.update(&piece[..length as usize]);
        let number = at / PIECE_BYTES as u64;
        if number.is_multiple_of(SAMPLE) || at + length == segment.bytes {
            sample.push((at, written, xxh3_64(piece)));
        }
        transfers.start(DeviceAction::Write, PortTarget::Stripe, start + at, (free, written));
        at += length;
        progress(at);
    }
    transfers.sync()?;
    for (at, written, checksum) in sample {
        let piece = transfers.one(DeviceAction::Read, PortTarget::Stripe, start + at, written)?;
        if xxh3_64(piece) != checksum {
            let path = segment.path.clone();
            return Err(CopyError::Changed { path, start: start + at });
        }
    }
    Ok(whole.digest())
}
