//! Manifests: length and checksum are made right as well, so that the decoder is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_engine::format::Manifest;
use pipeann_engine::format::constants::{MANIFEST_MAGIC, manifest_start};

fuzz_target!(|data: &[u8]| {
    let _ = Manifest::decode(data);
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
    if let Ok(manifest) = Manifest::decode(&bytes) {
        assert_eq!(manifest.encode().expect("what was read can be written"), bytes);
    }
});
