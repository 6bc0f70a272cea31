//! The file `CATALOG`, on a disk.

use std::io;
use std::sync::Arc;

use crate::catalog::{CATALOG_FILE, CatalogStore, ReplaceError};
use crate::disk::{Action, Disk, read_file, replace_file};

/// More than a catalogue can have.
const MAX_CATALOG_BYTES: u64 = 1 << 30;

/// Keeps the catalogue in the directory of the database.
#[derive(Debug)]
pub(super) struct CatalogFile(pub(super) Arc<dyn Disk>);

impl CatalogStore for CatalogFile {
    fn load(&mut self) -> io::Result<Option<Vec<u8>>> {
        match read_file(&*self.0, CATALOG_FILE, MAX_CATALOG_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), ReplaceError> {
        replace_file(&*self.0, CATALOG_FILE, bytes).map_err(|error| match error.action() {
            // From the rename on, the new file may be the one that is found.
            Some(Action::Rename | Action::SyncDir) => {
                ReplaceError::Unknown(io::Error::other(error))
            }
            _ => ReplaceError::Unchanged(io::Error::other(error)),
        })
    }
}
