//! The files of a store, for whoever copies or checks them beside it.

use std::path::Path;

use super::{StoreError, key_bytes, lsm, state_file};
use crate::disk::FileSet;
use crate::ids::RowId;

/// The files of the store in `dir` as they stand, whoever has it open; `None` where there is no
/// such directory. They are of one moment if a second look finds the same.
///
/// # Errors
/// [`StoreError::NoStore`], [`StoreError::Damaged`] and [`StoreError::Io`], also where the store changes meanwhile.
pub fn current_files(dir: &Path) -> Result<Option<FileSet>, StoreError> {
    lsm::current_files(dir)
}

/// Reads all tables of the store in `dir`, and says which are not what they were when they were
/// written; none where there is no store. Nothing may be flushed or compacted meanwhile.
///
/// # Errors
/// As [`current_files`].
pub fn damaged_files(dir: &Path) -> Result<Vec<String>, StoreError> {
    lsm::damaged_files(dir)
}

/// Whether bytes are what the file `STATE`, an entry of the key tree or a row of the row tree
/// holds; for fuzzing.
#[doc(hidden)]
pub fn decodes(part: &str, bytes: &[u8]) -> bool {
    match part {
        "state" => state_file::StoreState::decode(bytes, Path::new("a store")).is_ok(),
        "key" => key_bytes::decode_entry(bytes, &mut Vec::new()).is_some(),
        "row" => key_bytes::decode_row(RowId(0), bytes).is_some(),
        _ => false,
    }
}
