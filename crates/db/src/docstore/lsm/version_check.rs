//! A tree's list of tables, read and checked without opening the tree.
//!
//! The crate `lsm-tree` (3.1) writes the checksum of its version file beside the file's name and
//! does not compare it when it opens. A list with a flipped bit could lose a table in silence,
//! and delete its file as an orphan.

use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::docstore::StoreError;

/// The file that names the current version: its number (8 bytes), the XXH3-128 of its file (16
/// bytes) and the kind of checksum (1 byte, 0).
pub(super) const CURRENT: &str = "current";
const CURRENT_BYTES: usize = 25;

/// The files that say what tables a tree has, checked against each other.
pub(super) struct VersionFiles {
    /// Bytes of [`CURRENT`].
    pub(super) current: Vec<u8>,
    /// Name of the version's file.
    pub(super) name: String,
    /// Its bytes.
    pub(super) version: Vec<u8>,
}

/// Reads the version of the tree `name` of the store `dir`, and checks it.
pub(super) fn read_version(dir: &Path, name: &str) -> Result<VersionFiles, StoreError> {
    let damaged = |what: String| StoreError::damaged(dir, format!("{name}/{what}"));
    let read = |file: &str| {
        fs::read(dir.join(name).join(file)).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => damaged(format!("{file} is missing")),
            _ => StoreError::io("open", dir)(e),
        })
    };
    let bytes = read(CURRENT)?;
    let Ok(current) = <[u8; CURRENT_BYTES]>::try_from(&bytes[..]) else {
        let found = bytes.len();
        return Err(damaged(format!("{CURRENT} has {found} bytes instead of {CURRENT_BYTES}")));
    };
    let (number, rest) = current.split_first_chunk().expect("25 bytes begin with 8");
    let (checksum, kind) = rest.split_first_chunk().expect("17 bytes begin with 16");
    if kind != [0] {
        return Err(damaged(format!("{CURRENT} names an unknown kind of checksum")));
    }
    let name = format!("v{}", u64::from_le_bytes(*number));
    let version = read(&name)?;
    if xxh3_128(&version) != u128::from_le_bytes(*checksum) {
        return Err(damaged(format!("{name} fails the checksum in {CURRENT}")));
    }
    Ok(VersionFiles { current: bytes, name, version })
}
