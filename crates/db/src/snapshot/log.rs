//! The log of a collection: linked before its components, and its end copied after them.
//!
//! So it begins no later than any component needs, and ends no earlier than any component has
//! come. All segments but the last never change; the last one grows, and is copied up to its
//! last whole record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::component::take_file;
use super::error::{Missed, SnapshotError};
use super::transfer::copy;
use crate::collection::LOG_DIR;
use crate::disk::{Disk, RealDisk};
use crate::ids::Seq;
use crate::wal::{self, LogId};

/// A log whose segments so far are linked.
pub(super) struct LinkedLog {
    /// The directory of the collection.
    disk: Arc<dyn Disk>,
    id: LogId,
    from: PathBuf,
    into: PathBuf,
    /// Name of the newest segment.
    newest: String,
}

/// Links the log of the collection in `from` into the directory `into` of another one.
pub(super) fn link(from: &Path, into: &Path, id: LogId) -> Result<LinkedLog, Missed> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(from).map_err(Missed::moved)?);
    let (from, into) = (from.join(LOG_DIR), into.join(LOG_DIR));
    fs::create_dir_all(&into).map_err(SnapshotError::file("create", &into))?;
    let names = wal::segment_names(&*disk, LOG_DIR).map_err(Missed::moved)?;
    for name in &names {
        take_file(&from.join(name), &into.join(name))?;
    }
    let missing = || wal::WalError::NoLog { dir: from.clone() };
    let newest = names.into_iter().next_back().ok_or_else(missing).map_err(Missed::moved)?;
    Ok(LinkedLog { disk, id, from, into, newest })
}

impl LinkedLog {
    /// Takes what has come since, and returns the last record.
    pub(super) fn finish(self) -> Result<Seq, Missed> {
        let names = wal::segment_names(&*self.disk, LOG_DIR).map_err(Missed::moved)?;
        // Segments are removed oldest first, so none that was not seen is gone if this one is not.
        if !names.contains(&self.newest) {
            return Err(Missed::Moved(SnapshotError::Busy { path: self.from }));
        }
        let end = wal::find_end(&*self.disk, LOG_DIR, self.id).map_err(Missed::moved)?;
        // The newest may have grown since, or another one may have its name: one without records
        // is replaced.
        for name in names.iter().filter(|name| self.newest <= **name && **name < end.segment) {
            remove(&self.into.join(name))?;
            take_file(&self.from.join(name), &self.into.join(name))?;
        }
        let (from, to) = (self.from.join(&end.segment), self.into.join(&end.segment));
        remove(&to)?;
        let copied = copy(&from, &to, end.bytes).map_err(SnapshotError::file("copy", &from));
        if copied.map_err(Missed::moved)?.bytes < end.bytes {
            return Err(Missed::Moved(SnapshotError::Busy { path: from }));
        }
        Ok(end.last)
    }
}

fn remove(path: &Path) -> Result<(), SnapshotError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(SnapshotError::file("remove", path)(e))
        }
        _ => Ok(()),
    }
}
