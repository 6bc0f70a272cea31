//! Asks the system for what an opening is about to read, before it reads the first of it.
//!
//! Read one after the other, each file would cost the time of some reads; so they come together.
//! It is advice only: where the system does not follow it, the files are read all the same.

use std::path::Path;

use super::part::OpenedPart;
use crate::format::constants::BLOCK_BYTES;
use crate::format::{FileHeader, FileKind, Manifest};

/// Asks for the files that are read whole, and for the checksums of codes.
pub(super) fn ask_ahead(path: &Path, manifest: &Manifest, part: &OpenedPart) {
    for file in [&manifest.head_file, &manifest.codebook_file] {
        ask(&path.join(file.path.as_str()), 0, file.bytes);
    }
    for (number, partition) in manifest.partitions.iter().enumerate() {
        let dir = path.join(partition.dir.as_str());
        let own = std::iter::once(&partition.page_map).chain(&partition.tombstones);
        for file in own.filter(|_| part.has(number)) {
            ask(&dir.join(file.path.as_str()), 0, file.bytes);
        }
        let codes = dir.join(partition.codes.path.as_str());
        ask(&codes, 0, FileHeader::BYTES as u64);
        let slots = u64::from(partition.pages) * manifest.layout.records_per_page() as u64;
        let body = slots * u64::from(manifest.code_bytes);
        if let Some(at) = FileKind::Codes.checksums_offset(body) {
            ask(&codes, at, body.div_ceil(BLOCK_BYTES as u64) * 8);
        }
    }
}

#[cfg(target_os = "linux")]
fn ask(path: &Path, offset: u64, bytes: u64) {
    use rustix::fs::{Advice, fadvise};
    if let Ok(file) = std::fs::File::open(path) {
        let _ = fadvise(&file, offset, std::num::NonZeroU64::new(bytes), Advice::WillNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask(_: &Path, _: u64, _: u64) {}
