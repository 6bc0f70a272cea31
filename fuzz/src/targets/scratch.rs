//! A directory in memory for decoders that read files by name, one for each thread.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where files live that no disk should see.
const IN_MEMORY: &str = "/dev/shm";

thread_local! {
    static DIR: TempDir = if Path::new(IN_MEMORY).is_dir() {
        tempfile::tempdir_in(IN_MEMORY)
    } else {
        tempfile::tempdir()
    }
    .expect("a directory for the files of an input can be made");
}

/// The directory `name` with just these files.
pub(super) fn dir_with(name: &str, files: &[(String, &[u8])]) -> PathBuf {
    let dir = DIR.with(|dir| dir.path().join(name));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory in memory can be made");
    for (name, bytes) in files {
        std::fs::write(dir.join(name), bytes).expect("a file in memory can be written");
    }
    dir
}

/// Splits an input into a part whose length stands in its first two bytes, and the rest.
pub(super) fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*length).into())
}

/// What [`split`] takes apart.
pub(crate) fn joined(first: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(first.len()).expect("seeds are small");
    [&length.to_le_bytes(), first, rest].concat()
}

/// The bytes of a file with a header of 24 bytes and a checksum behind, the length of what is
/// between them, in the last eight bytes of the header, made right.
pub(super) fn with_length(data: &[u8]) -> Vec<u8> {
    const FIELD: std::ops::Range<usize> = 16..24;
    let mut bytes = data.to_vec();
    if let (Some(length), Some(field)) = (data.len().checked_sub(24 + 8), bytes.get_mut(FIELD)) {
        field.copy_from_slice(&(length as u64).to_le_bytes());
    }
    bytes
}

/// The bytes with their last eight made the xxh3-64 of all before.
pub(super) fn sealed_xxh3(data: &[u8]) -> Option<Vec<u8>> {
    let body = data.len().checked_sub(8)?;
    let mut bytes = data.to_vec();
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum.to_le_bytes());
    Some(bytes)
}
