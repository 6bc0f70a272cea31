//! Reading a database beside whoever writes it.
//!
//! A reader takes the files of a moment into a pin and opens that like a database after a crash:
//! it sees every write that was answered before, flushed or not, perhaps one more whose answer is
//! on its way, and nothing later. The writer is not asked, and need not be there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::open_home;
use super::read_only_source::ReadOnlySource;
use super::{Database, DatabaseError, DatabaseOptions};
use crate::collection::Home;
use crate::disk::RealDisk;
use crate::snapshot::{Captured, pinned};

/// How a database is opened for reading.
#[derive(Clone, Debug)]
pub struct ReadOnlyOptions {
    /// How its collections are opened.
    pub database: DatabaseOptions,
    /// The directory for the pin; in the database's directory unless given. It is needed where
    /// this user may not write there. On another file system, or where the files belong to another
    /// user, the pin is a copy.
    pub pins: Option<PathBuf>,
}

impl ReadOnlyOptions {
    /// With the pin in the directory of the database.
    #[must_use]
    pub fn new(database: DatabaseOptions) -> Self {
        Self { database, pins: None }
    }
}

impl Database {
    /// Opens the database in `path` for reading, as it is now: with all writes that were answered
    /// before. What is written or removed later, by whomever, does not change what is read, and
    /// the files stay until this and all collections taken from it are dropped. Nothing of the
    /// database is changed, but for the pin. Writes are refused with [`DatabaseError::ReadOnly`]
    /// and [`CollectionError::ReadOnly`](crate::collection::CollectionError::ReadOnly).
    ///
    /// # Errors
    /// [`DatabaseError::Snapshot`] where there is no database, no place for the pin, or no still
    /// moment; else as [`open`](Self::open). Messages about damage name files in the pin, under
    /// the same names as in the database.
    pub fn open_read_only(path: &Path, options: ReadOnlyOptions) -> Result<Self, DatabaseError> {
        let directory = |source| DatabaseError::Directory { dir: path.to_owned(), source };
        let source = path.canonicalize().map_err(directory)?;
        let (pin, captured) = pinned(&source, options.pins.as_deref(), &|_| None)?;
        let files = pin.path().to_owned();
        let disk = Arc::new(RealDisk::open(&files)?);
        let now = Arc::clone(&options.database.now);
        let row_cache = Some(options.database.row_cache()?);
        let home = Home { disk, files, row_cache, pin: Some(Arc::new(pin)), shared: None, now };
        let mut database = open_home(home, options.database, None)?;
        database.reader = Some(ReadOnlySource { source, pins: options.pins, captured });
        Ok(database)
    }

    /// Moves a database that is open for reading to what is there now. Collections that were taken
    /// from it before stay where they are. Changes nothing for one that is open for writing.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only); it then shows what it showed.
    pub fn refresh(&mut self) -> Result<(), DatabaseError> {
        if let Some(reader) = &self.reader {
            let (database, pins) = (self.options.clone(), reader.pins.clone());
            *self = Self::open_read_only(&reader.source, ReadOnlyOptions { database, pins })?;
        }
        Ok(())
    }

    /// Which state is read, where the database is open for reading only.
    #[must_use]
    pub fn as_of(&self) -> Option<&Captured> {
        self.reader.as_ref().map(|reader| &reader.captured)
    }

    /// Refuses a change where the database is open for reading only.
    pub(super) fn check_writable(&self) -> Result<(), DatabaseError> {
        match &self.reader {
            Some(reader) => Err(DatabaseError::ReadOnly { dir: reader.source.clone() }),
            None => Ok(()),
        }
    }
}
