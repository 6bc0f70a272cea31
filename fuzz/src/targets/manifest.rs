//! Manifests: length and checksum are made right as well, so that the decoder is reached.

use pipeann_engine::format::Manifest;
use pipeann_engine::format::constants::{MANIFEST_MAGIC, manifest_start};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] =
    &["as found", "several partitions", "several segments", "row map", "tombstones"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    reached.mark("as found", bounded(data.len(), || Manifest::decode(data)).is_ok());
    if data.len() < manifest_start::BYTES + 8 {
        return;
    }
    let mut bytes = data.to_vec();
    let length = bytes.len() as u64;
    bytes[manifest_start::MAGIC.offset..][..8].copy_from_slice(&MANIFEST_MAGIC);
    bytes[manifest_start::LENGTH.offset..][..8].copy_from_slice(&length.to_le_bytes());
    let (content, stored) = bytes.split_at_mut(data.len() - 8);
    let sum = crc_fast::crc64_nvme(content) ^ u64::from_le_bytes(MANIFEST_MAGIC);
    stored.copy_from_slice(&sum.to_le_bytes());
    let Ok(manifest) = bounded(data.len(), || Manifest::decode(&bytes)) else { return };
    assert_eq!(manifest.encode().expect("what was read can be written"), bytes);
    let partitions = &manifest.partitions;
    reached.mark("several partitions", partitions.len() > 1);
    reached.mark("several segments", partitions.iter().any(|p| p.segments.len() > 1));
    reached.mark("row map", partitions.iter().any(|p| p.row_map.is_some()));
    reached.mark("tombstones", partitions.iter().any(|p| p.tombstones.is_some()));
    manifest.files();
}
