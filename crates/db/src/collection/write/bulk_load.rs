//! Bulk loads: batches of a source that is read once from front to back, with a note of how far
//! it has come that no crash parts from the rows.
//!
//! Before a batch is given to the log, its number of rows and its first row id are noted durably
//! in the file `LOADS`, while no other write can take that row id. Row ids are never used twice,
//! so when the collection is opened again, the batch is there if and only if row ids were given
//! out beyond its first. A batch is followed by a sync of the log, whatever its level, before the
//! next one is announced; so all batches before the announced one are there for certain.
//!
//! A load that ended is remembered, so that repeating it adds nothing. There is room for
//! [`MAX_LOADS`]; the oldest ended one makes way.

use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};

use super::insert::InsertOutcome;
use super::loads::{LOADS_FILE, Loads};
use super::loads_file::{self, Announced, LoadEntry};
use crate::collection::load_bounds::{MAX_LOAD_NAME_BYTES, MAX_LOADS};
use crate::collection::{Collection, CollectionError};
use crate::disk::replace_file;
use crate::ids::RowId;
use crate::schema::Batch;

/// How far a load has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadState {
    /// Its name.
    pub name: String,
    /// Rows of its source that are in the collection.
    pub rows: u64,
    /// Whether it came to the end of its source.
    pub finished: bool,
}

/// A load under way. Dropped before [`finish`](Self::finish), it can be begun again.
#[derive(Debug)]
pub struct BulkLoad<'c> {
    collection: &'c Collection,
    name: String,
    done: u64,
    finished: bool,
}

impl Collection {
    /// Begins a load, or goes on with the one of this name. `source` tells its source from others.
    ///
    /// # Errors
    /// [`CollectionError::LoadName`], [`CollectionError::LoadRunning`],
    /// [`CollectionError::LoadSource`] where the load of this name had another source, and
    /// [`CollectionError::Loads`] where the file of loads is damaged.
    pub fn begin_load(&self, name: &str, source: u128) -> Result<BulkLoad<'_>, CollectionError> {
        if name.is_empty() || name.len() > MAX_LOAD_NAME_BYTES {
            return Err(CollectionError::LoadName { bytes: name.len() });
        }
        let mut loads = self.loads_state();
        let owned = || name.to_owned();
        if loads.running.contains(name) {
            return Err(CollectionError::LoadRunning { name: owned() });
        }
        let known = loads.known()?.iter().find(|load| load.name == name);
        if known.is_some_and(|load| load.source != source) {
            return Err(CollectionError::LoadSource { name: owned() });
        }
        let (done, finished) = known.map_or((0, false), |load| (load.done, load.finished));
        if known.is_none() {
            let new = LoadEntry { name: owned(), source, done, finished, announced: None };
            self.add_load(&mut loads, new)?;
        }
        loads.running.insert(owned());
        Ok(BulkLoad { collection: self, name: owned(), done, finished })
    }

    /// The loads that are remembered, oldest first.
    ///
    /// # Errors
    /// [`CollectionError::Loads`].
    pub fn loads(&self) -> Result<Vec<LoadState>, CollectionError> {
        let mut loads = self.loads_state();
        let state = |load: &LoadEntry| LoadState {
            name: load.name.clone(),
            rows: load.done,
            finished: load.finished,
        };
        Ok(loads.known()?.iter().map(state).collect())
    }

    /// Forgets a load that is not under way, so that it can be made again from its beginning; its
    /// rows stay. Returns whether there was one.
    ///
    /// # Errors
    /// [`CollectionError::LoadRunning`], [`CollectionError::Loads`], or a failed write.
    pub fn forget_load(&self, name: &str) -> Result<bool, CollectionError> {
        let mut loads = self.loads_state();
        if loads.running.contains(name) {
            return Err(CollectionError::LoadRunning { name: name.to_owned() });
        }
        let mut kept = loads.known()?.clone();
        kept.retain(|load| load.name != name);
        let found = kept.len() < loads.known()?.len();
        if found {
            self.save_loads(&kept)?;
            loads.entries = Ok(kept);
        }
        Ok(found)
    }

    fn add_load(&self, loads: &mut Loads, new: LoadEntry) -> Result<(), CollectionError> {
        let running = loads.running.clone();
        let mut entries = loads.known()?.clone();
        if entries.len() >= MAX_LOADS {
            let oldest = entries.iter().position(|e| e.finished && !running.contains(&e.name));
            entries.remove(oldest.ok_or(CollectionError::TooManyLoads)?);
        }
        entries.push(new);
        self.save_loads(&entries)?;
        loads.entries = Ok(entries);
        Ok(())
    }

    /// Changes the entry of a load, durably.
    fn note_load(
        &self,
        name: &str,
        change: impl FnOnce(&mut LoadEntry),
    ) -> Result<(), CollectionError> {
        let mut loads = self.loads_state();
        let mut entries = loads.known()?.clone();
        let entry = entries.iter_mut().find(|load| load.name == name);
        change(entry.expect("a load that runs is not forgotten"));
        self.save_loads(&entries)?;
        loads.entries = Ok(entries);
        Ok(())
    }

    fn save_loads(&self, entries: &[LoadEntry]) -> Result<(), CollectionError> {
        let bytes = loads_file::encode(self.identity.bytes(), entries);
        Ok(replace_file(&*self.disk, &self.path(LOADS_FILE), &bytes)?)
    }

    fn loads_state(&self) -> MutexGuard<'_, Loads> {
        // Entries change as a whole, after they were saved.
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BulkLoad<'_> {
    /// Rows of the source that are in the collection: where to go on.
    pub fn rows(&self) -> u64 {
        self.done
    }

    /// Whether the load had come to its end before.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Inserts the next rows of the source. They are on stable storage when this returns, whatever
    /// the level of the log.
    ///
    /// # Errors
    /// As [`Collection::insert`]; [`CollectionError::Disk`] where the disk is full, and nothing was
    /// changed. [`CollectionError::Stopped`] also where the note of the batch could not be written
    /// otherwise. Begun again after reopening, the load goes on with the right row.
    pub fn insert(
        &mut self,
        batch: Batch,
        partition: Option<&str>,
    ) -> Result<InsertOutcome, CollectionError> {
        let announce = |rows: Range<u64>| {
            let announced = Announced { rows: rows.end - rows.start, first: RowId(rows.start) };
            self.collection.note_load(&self.name, |entry| {
                entry.done = self.done;
                entry.finished = false;
                entry.announced = Some(announced);
            })
        };
        let outcome = self.collection.insert_announced(batch, partition, Some(&announce))?;
        self.collection.log.sync()?;
        self.done += outcome.rows.end - outcome.rows.start;
        // The file follows with the next batch: what it announces is there, as an opening finds.
        let mut loads = self.collection.loads_state();
        let entry = loads.known()?.iter_mut().find(|load| load.name == self.name);
        let entry = entry.expect("a load that runs is not forgotten");
        (entry.done, entry.announced) = (self.done, None);
        Ok(outcome)
    }

    /// Notes durably that the source is at its end.
    ///
    /// # Errors
    /// A failed write; the load can be begun again, and finished.
    pub fn finish(self) -> Result<(), CollectionError> {
        self.collection.note_load(&self.name, |entry| {
            entry.done = self.done;
            entry.finished = true;
            entry.announced = None;
        })
    }
}

impl Drop for BulkLoad<'_> {
    fn drop(&mut self) {
        self.collection.loads_state().running.remove(&self.name);
    }
}
