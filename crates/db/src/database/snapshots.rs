//! Snapshots and backups of a database that is open.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{Database, DatabaseError};
use crate::catalog::CollectionId;
use crate::collection::Finding;
use crate::snapshot::{
    self, BackupOptions, BackupReport, Captured, HoldFiles, SnapshotError, capture_kept,
};

impl Database {
    /// Makes a database of its own in `dir`, which is missing or empty, of what was answered so
    /// far. Files are shared by hard links where that can be, so it takes little time and space
    /// there. Reads and writes go on; where a flush is due, it waits some milliseconds.
    ///
    /// # Errors
    /// [`DatabaseError::Snapshot`]. There is nothing in `dir` then.
    pub fn snapshot_to(&self, dir: &Path) -> Result<Captured, DatabaseError> {
        self.holding(|hold| capture_kept(self.files()?, dir, hold))
    }

    /// Makes a backup in `dir`, which is missing or empty: copies with checksums, that
    /// [`restore`](crate::snapshot::restore) makes a database of. Files that the earlier backup
    /// `since` has are shared with it. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// [`DatabaseError::Snapshot`]. There is nothing in `dir` then.
    pub fn backup(&self, dir: &Path, since: Option<&Path>) -> Result<BackupReport, DatabaseError> {
        let options = BackupOptions {
            since: since.map(PathBuf::from),
            pins: None,
            now: (self.options.now)(),
        };
        self.holding(|hold| snapshot::backup(self.files()?, dir, &options, hold))
    }

    /// Reads everything in all collections and compares their components, as
    /// [`Collection::verify`](crate::collection::Collection::verify) says; findings with the names
    /// of database and collection.
    ///
    /// # Errors
    /// [`DatabaseError::Collection`] for one that accepts no writes any more.
    pub fn verify(&self) -> Result<Vec<(String, Finding)>, DatabaseError> {
        let catalog = self.catalog();
        let mut findings = Vec::new();
        for (database, _) in catalog.databases() {
            for entry in catalog.collections(database)? {
                let name = format!("{database}/{}", entry.name);
                let collection = self.collection(database, &entry.name)?;
                let found = collection.verify().map_err(DatabaseError::of(&entry.name))?;
                findings.extend(found.into_iter().map(|finding| (name.clone(), finding)));
            }
        }
        Ok(findings)
    }

    fn files(&self) -> Result<&Path, SnapshotError> {
        if self.home.row_cache.is_none() {
            Err(SnapshotError::InMemory)
        } else {
            Ok(&self.home.files)
        }
    }

    /// Calls `take` with what keeps flushes of one collection away. Changes of the catalogue are
    /// not kept away: `take` finds out.
    fn holding<T>(
        &self,
        take: impl FnOnce(&HoldFiles<'_>) -> Result<T, SnapshotError>,
    ) -> Result<T, DatabaseError> {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner).clone();
        let hold = |id: CollectionId| collections.get(&id).map(|c| c.hold_flushes());
        Ok(take(&hold)?)
    }
}
