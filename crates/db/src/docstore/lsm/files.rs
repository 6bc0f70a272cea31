//! Which files a store consists of, read beside whoever has it open.
//!
//! The crate `lsm-tree` lists a tree's tables in a version file, an archive of the crate `sfa`
//! whose section `tables` holds: levels (1 byte), for each its runs (1), for each its tables (4),
//! for each its number (8), kind of checksum (1, 0), XXH3-128 of its file (16) and a number (8).
//! All are little-endian. A version that is not laid out so is refused, never guessed at.

use std::fs;
use std::io::{self, Cursor};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::open::{KEYS_NAME, ROWS_NAME};
use super::version_check::{CURRENT, read_version};
use crate::disk::{FileSet, ImmutableFile};
use crate::docstore::StoreError;
use crate::docstore::state_file::{STATE_NAME, StoreState};

/// Folder of a tree's tables.
const TABLES: &str = "tables";

pub(in crate::docstore) fn current_files(dir: &Path) -> Result<Option<FileSet>, StoreError> {
    let state = match fs::read(dir.join(STATE_NAME)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && !dir.exists() => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoStore { dir: dir.to_owned(), file: STATE_NAME });
        }
        state => state.map_err(StoreError::io("read", dir))?,
    };
    StoreState::decode(&state, dir)?;
    let mut files = FileSet::default();
    files.manifests.push((STATE_NAME.to_owned(), state));
    for tree in [ROWS_NAME, KEYS_NAME] {
        let version = read_version(dir, tree)?;
        let tables = tables_of(&version.version).ok_or_else(|| {
            StoreError::damaged(dir, format!("{tree}/{} lists no tables", version.name))
        })?;
        files.named.extend(tables.into_iter().map(|(number, xxh3)| ImmutableFile {
            path: format!("{tree}/{TABLES}/{number}"),
            xxh3: Some(xxh3),
        }));
        files.manifests.push((format!("{tree}/{}", version.name), version.version));
        files.manifests.push((format!("{tree}/{CURRENT}"), version.current));
    }
    Ok(Some(files))
}

/// Reads all tables of the store in `dir`, and says which are not what they were when they were
/// written. Nothing may be replaced meanwhile.
pub(in crate::docstore) fn damaged_files(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut damaged = Vec::new();
    for file in current_files(dir)?.unwrap_or_default().named {
        match fs::read(dir.join(&file.path)) {
            Ok(bytes) if file.xxh3 == Some(xxh3_128(&bytes)) => {}
            Ok(_) => damaged.push(format!("{} fails its checksum", file.path)),
            Err(e) => damaged.push(format!("{} cannot be read: {e}", file.path)),
        }
    }
    Ok(damaged)
}

/// Numbers and checksums of the tables that a version lists.
fn tables_of(version: &[u8]) -> Option<Vec<(u64, u128)>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(version)).ok()?;
    let section = archive.toc().section(TABLES.as_bytes())?;
    let from = usize::try_from(section.pos()).ok()?;
    let to = from.checked_add(usize::try_from(section.len()).ok()?)?;
    let mut list = List(version.get(from..to)?);
    let mut tables = Vec::new();
    let [levels] = list.take()?;
    for _ in 0..levels {
        let [runs] = list.take()?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(list.take()?) {
                let number = u64::from_le_bytes(list.take()?);
                let [kind] = list.take()?;
                let checksum = u128::from_le_bytes(list.take()?);
                let _: [u8; 8] = list.take()?;
                if kind != 0 {
                    return None;
                }
                tables.push((number, checksum));
            }
        }
    }
    list.0.is_empty().then_some(tables)
}

/// Bytes that are read from front to back.
struct List<'a>(&'a [u8]);

impl List<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}
