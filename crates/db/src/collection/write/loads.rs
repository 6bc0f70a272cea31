//! The loads of a collection that are remembered, and what the file of them says.

use std::collections::BTreeSet;

use super::loads_file::{self, LoadEntry};
use crate::collection::CollectionError;
use crate::disk::{Disk, DiskError, read_file, replace_file};

/// Name of the file inside the directory of the collection.
pub(crate) const LOADS_FILE: &str = "LOADS";

/// All loads of a collection.
#[derive(Debug)]
pub(in crate::collection) struct Loads {
    /// Oldest first; or why they are not known.
    pub(super) entries: Result<Vec<LoadEntry>, String>,
    /// Names of those under way in this process.
    pub(super) running: BTreeSet<String>,
}

impl Loads {
    /// The loads of the collection in `dir`, when the log has been applied and `next_row` is the
    /// next row id to be given out: announced batches are found to be there or not.
    pub(in crate::collection) fn open(
        disk: &dyn Disk,
        dir: &str,
        collection: [u8; 16],
        next_row: u64,
    ) -> Result<Self, DiskError> {
        let path = format!("{dir}/{LOADS_FILE}");
        let mut entries = match read_file(disk, &path, loads_file::MAX_LOADS_BYTES) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            read => loads_file::decode(collection, &read?)
                .map_err(|why| format!("{}: {why}", disk.locate(&path).display())),
        };
        let mut changed = false;
        for load in entries.iter_mut().flatten() {
            if let Some(announced) = load.announced.take() {
                changed = true;
                if announced.first.0 < next_row {
                    load.done += announced.rows;
                }
            }
        }
        // Before anybody is given the row ids of a batch that is not there.
        if let (true, Ok(loads)) = (changed, &entries) {
            replace_file(disk, &path, &loads_file::encode(collection, loads))?;
        }
        Ok(Self { entries, running: BTreeSet::new() })
    }

    pub(super) fn known(&mut self) -> Result<&mut Vec<LoadEntry>, CollectionError> {
        self.entries.as_mut().map_err(|why| CollectionError::Loads { why: why.clone() })
    }
}
