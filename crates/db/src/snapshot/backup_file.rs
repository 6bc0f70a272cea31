//! The file `BACKUP`: what a backup holds, with the length and checksum of each file.
//!
//! A header, JSON, a checksum, as the catalogue has them, and for the same reasons. It is written
//! last, so a directory without it is no backup. `docs/database-format.md` has the byte table.

use std::fs;
use std::io;
use std::path::Path;

use pipeann_engine::format::RelativePath;
use pipeann_engine::format::constants::ByteField;
use serde::{Deserialize, Serialize};

use super::capture::Captured;
use super::error::SnapshotError;
use super::transfer::{FileDigest, write_new};
use crate::catalog::UnixMs;
use crate::files::agrees;

/// Name of the file.
pub const BACKUP_FILE: &str = "BACKUP";
/// Directory beside it that holds the files of the database.
pub(super) const FILES_DIR: &str = "files";

/// First bytes of the file.
const BACKUP_MAGIC: [u8; 8] = *b"PIPEBKUP";
/// Version that this build writes; it reads no other.
pub const BACKUP_VERSION: u32 = 1;

const MAGIC: ByteField = ByteField { name: "magic", offset: 0, bytes: 8 };
const VERSION: ByteField = ByteField { name: "version", offset: 8, bytes: 4 };
const RESERVED: ByteField = ByteField { name: "reserved", offset: 12, bytes: 4 };
const BODY_BYTES: ByteField = ByteField { name: "body bytes", offset: 16, bytes: 8 };
/// All fields in order.
#[cfg(test)]
const FIELDS: &[ByteField] = &[MAGIC, VERSION, RESERVED, BODY_BYTES];
const HEADER_BYTES: usize = 24;
/// CRC-64/NVMe of everything before it.
const CHECKSUM_BYTES: usize = 8;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    /// When it was made.
    pub created: UnixMs,
    /// The collections and the last write of each.
    pub database: Captured,
    /// All files, by path.
    pub files: Vec<BackedUpFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackedUpFile {
    /// Where it is in the database, with `/` between the parts.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-128 of its bytes, 32 digits in hexadecimal.
    pub xxh3: String,
}

impl BackedUpFile {
    pub(super) fn new(path: String, content: FileDigest) -> Self {
        Self { path, bytes: content.bytes, xxh3: format!("{:032x}", content.xxh3) }
    }

    /// Whether `content` is that of this file.
    pub(super) fn has(&self, content: FileDigest) -> bool {
        self.bytes == content.bytes && self.xxh3 == format!("{:032x}", content.xxh3)
    }
}

impl BackupManifest {
    /// Reads the manifest of the backup in `dir`.
    ///
    /// # Errors
    /// [`SnapshotError::NotABackup`], [`SnapshotError::Version`], [`SnapshotError::Damaged`].
    pub fn read(dir: &Path) -> Result<Self, SnapshotError> {
        let path = dir.join(BACKUP_FILE);
        let bytes = fs::read(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                SnapshotError::NotABackup { dir: dir.to_owned(), file: BACKUP_FILE }
            }
            _ => SnapshotError::file("read", &path)(e),
        })?;
        decode(&bytes, &path)
    }

    /// The manifest of a file's bytes; `path` is for messages.
    ///
    /// # Errors
    /// [`SnapshotError::Version`], [`SnapshotError::Damaged`].
    pub fn from_file_bytes(bytes: &[u8], path: &Path) -> Result<Self, SnapshotError> {
        decode(bytes, path)
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), SnapshotError> {
        write_new(&dir.join(BACKUP_FILE), &encode(self))
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

fn encode(manifest: &BackupManifest) -> Vec<u8> {
    let body = serde_json::to_vec(manifest).expect("structures of texts and numbers");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len() + CHECKSUM_BYTES);
    bytes.extend(BACKUP_MAGIC);
    bytes.extend(BACKUP_VERSION.to_le_bytes());
    bytes.extend([0; RESERVED.bytes]);
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.extend(crc_fast::crc64_nvme(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], path: &Path) -> Result<BackupManifest, SnapshotError> {
    let damaged =
        |what: &str| SnapshotError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let get = |field: ByteField| bytes.get(field.offset..field.offset + field.bytes);
    if get(MAGIC) != Some(&BACKUP_MAGIC) {
        return Err(damaged("it does not begin with PIPEBKUP"));
    }
    let version = get(VERSION).and_then(|bytes| bytes.try_into().ok());
    let found = u32::from_le_bytes(version.ok_or_else(|| damaged("it is cut off"))?);
    if found != BACKUP_VERSION {
        let path = path.to_owned();
        return Err(SnapshotError::Version { path, supported: BACKUP_VERSION, found });
    }
    let split = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    let (covered, checksum) = split.ok_or_else(|| damaged("it is cut off"))?;
    if !agrees(u64::from_le_bytes(*checksum), crc_fast::crc64_nvme(covered)) {
        return Err(damaged("its checksum is wrong"));
    }
    let body = covered.get(HEADER_BYTES..).ok_or_else(|| damaged("it is cut off"))?;
    if get(BODY_BYTES) != Some(&(body.len() as u64).to_le_bytes()[..]) {
        return Err(damaged("its body has another length"));
    }
    let manifest: BackupManifest =
        serde_json::from_slice(body).map_err(|e| damaged(&e.to_string()))?;
    match manifest.files.iter().find(|file| RelativePath::new(&file.path).is_err()) {
        Some(file) => Err(damaged(&format!("it names `{}`", file.path))),
        None => Ok(manifest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> BackupManifest {
        let content = FileDigest { bytes: 3, xxh3: 0xabc };
        BackupManifest {
            created: UnixMs(7),
            database: Captured { revision: 2, collections: Vec::new() },
            files: vec![BackedUpFile::new("collections/2/LIVE".to_owned(), content)],
        }
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let (path, bytes) = (Path::new("BACKUP"), encode(&some()));
        assert_eq!(decode(&bytes, path).unwrap(), some());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], path).is_err(), "{length} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes, path).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_path_that_leaves_the_backup_is_refused() {
        let mut manifest = some();
        manifest.files[0].path = "../../.profile".to_owned();
        let refused = decode(&encode(&manifest), Path::new("BACKUP")).unwrap_err();
        assert!(refused.to_string().contains("../../.profile"), "{refused}");
    }

    #[test]
    fn the_header_has_no_gap_and_is_documented() {
        let mut end = 0;
        for field in FIELDS {
            assert_eq!(field.offset, end, "{}", field.name);
            end += field.bytes;
        }
        assert_eq!(end, HEADER_BYTES);
        let page = include_str!("../../../../docs/database-format.md");
        let section = page.split_once("### Header of BACKUP").expect("the section is there").1;
        for field in FIELDS {
            let row = format!("| {} | {} | {} |", field.offset, field.bytes, field.name);
            assert!(section.contains(&row), "no row `{row}`");
        }
        for text in ["PIPEBKUP", &format!("| backup version | {BACKUP_VERSION} |")] {
            assert!(page.contains(text), "no `{text}`");
        }
    }
}
