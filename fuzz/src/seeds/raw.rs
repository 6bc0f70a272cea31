//! What claiming raw devices and copying to them writes at their start, without the zeros behind it.

use pipeann_raw::marker::{
    DIRECTORY_HEADER_BYTES, ENTRY_BYTES, Entry, IDENTITY_BYTES, Identity, RegionDirectory,
};
use uuid::Uuid;

use super::seed::Seeds;

const SET: Uuid = Uuid::from_bytes(*b"a stripe's uuid.");
/// Bytes of an identity that say something.
const IDENTITY_USED: usize = 64;

pub(super) fn add(seeds: &mut Seeds) {
    let identity = Identity {
        position: 1,
        count: 2,
        lba_bytes: 512,
        stripe_bytes: 64 << 10,
        device_bytes: 1 << 30,
        set: SET,
    };
    let bytes = identity.encode();
    assert_eq!(bytes.len(), IDENTITY_BYTES);
    seeds.add("marker", "identity", &bytes[..IDENTITY_USED]);
    let mut newer = bytes[..IDENTITY_USED].to_vec();
    newer[8] = 9;
    seeds.add("marker", "newer", newer);
    let mut directory = RegionDirectory::empty(SET);
    for (name, regions) in [("empty", 0), ("one-region", 1), ("regions", 3)] {
        directory.entries = (0..regions).map(entry).collect();
        let used = DIRECTORY_HEADER_BYTES + directory.entries.len() * ENTRY_BYTES;
        seeds.add("marker", name, &directory.encode()[..used]);
    }
}

fn entry(number: u32) -> Entry {
    let at = u64::from(number);
    Entry {
        index: Uuid::from_u128(7),
        partition: number,
        name: format!("segment-{number:06}.pages"),
        bytes: 40_960,
        checksum: 11 * at,
        start: at << 16,
        generation: 3,
        source: (99, 1_700_000_000_000_000_000 + at),
    }
}
