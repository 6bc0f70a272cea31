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
    ///
    /// Where one is not there, and the disk is too full to note that, this comes with the error: no
    /// row id may be given out before the next opening.
    pub(in crate::collection) fn open(
        disk: &dyn Disk,
        dir: &str,
        collection: [u8; 16],
        next_row: u64,
    ) -> Result<(Self, Option<DiskError>), DiskError> {
        let path = format!("{dir}/{LOADS_FILE}");
        let mut entries = match read_file(disk, &path, loads_file::MAX_LOADS_BYTES) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            read => loads_file::decode(collection, &read?)
                .map_err(|why| format!("{}: {why}", disk.locate(&path).display())),
        };
        let mut missing = false;
        for load in entries.iter_mut().flatten() {
            match load.announced.take() {
                // Row ids only grow, so that the next opening finds the same; nothing is written,
                // since a load may have filled the disk.
                Some(announced) if announced.first.0 < next_row => load.done += announced.rows,
                Some(_) => missing = true,
                None => {}
            }
        }
        let mut full = None;
        // Before anybody is given the row ids of a batch that is not there.
        if let (true, Ok(loads)) = (missing, &entries) {
            match replace_file(disk, &path, &loads_file::encode(collection, loads)) {
                Err(error @ DiskError::NoSpace { .. }) => full = Some(error),
                replaced => replaced?,
            }
        }
        Ok((Self { entries, running: BTreeSet::new() }, full))
    }

    pub(super) fn known(&mut self) -> Result<&mut Vec<LoadEntry>, CollectionError> {
        self.entries.as_mut().map_err(|why| CollectionError::Loads { why: why.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::loads_file::Announced;
    use super::*;
    use crate::disk::CrashDisk;
    use crate::ids::RowId;

    const ID: [u8; 16] = *b"a collection id.";

    /// A full disk with a load of 10 rows, and 5 more from row 10 on that were announced.
    fn full() -> CrashDisk {
        let disk = CrashDisk::new();
        let announced = Some(Announced { rows: 5, first: RowId(10) });
        let (name, source, done, finished) = ("load".to_owned(), 7, 10, false);
        let load = LoadEntry { name, source, done, finished, announced };
        disk.create_dir("c").unwrap();
        replace_file(&disk, "c/LOADS", &loads_file::encode(ID, &[load])).unwrap();
        disk.set_capacity(Some(0));
        disk
    }

    fn open(disk: &CrashDisk, next_row: u64) -> (u64, Option<DiskError>) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let (mut loads, full) = Loads::open(&*disk, "c", ID, next_row).unwrap();
        let load = loads.known().unwrap().remove(0);
        assert_eq!(load.announced, None);
        (load.done, full)
    }

    #[test]
    fn a_batch_that_is_there_needs_no_room() {
        let disk = full();
        for next_row in [15, 11, 20] {
            assert_eq!(open(&disk, next_row), (15, None));
        }
    }

    #[test]
    fn a_batch_that_is_not_there_is_noted_as_soon_as_there_is_room() {
        let disk = full();
        for _ in 0..2 {
            let (done, full) = open(&disk, 10);
            assert!(done == 10 && matches!(full, Some(DiskError::NoSpace { .. })), "{full:?}");
        }
        disk.set_capacity(None);
        assert_eq!(open(&disk, 10), (10, None));
        assert_eq!(open(&disk, 15), (10, None), "others have its row ids");
    }
}
