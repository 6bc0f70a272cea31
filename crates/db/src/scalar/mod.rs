//! Scalar indexes: for every declared field of scalars or arrays of them, which rows have which
//! value, and a signature of bounded width for each row. Derived state, made by itself.
//!
//! ```text
//! SCALARS            the list of runs, and up to where they have come; see `manifest`
//! run-000001         entries and signatures of a span of rows; see `run`
//! ```
//!
//! A flush makes a run of the rows that came since the one before, and merges the small runs at
//! the end with it, so nothing is read to be modified. A run is complete in itself: for each column
//! it has entries (a key and its rows, in the order of keys), and the signatures with the code that
//! was learned from its own rows. Rows that are not flushed wait as they came, in chunks that become
//! small runs in memory when the first view wants them. A predicate is compiled for each run and asked of all.
//!
//! Invariants:
//! - every live row stands in exactly one run or among the newest; a deleted row may stand there
//!   until its run is merged, and is passed over by the live rows of the moment;
//! - what is said without the row never rules out one that matches: see `truth`;
//! - a view is immutable, and shares everything with the views before and after it;
//! - a file that `SCALARS` does not list is what an interrupted flush left, and is removed on
//!   opening. What is missing or damaged is made anew from the rows.
//!
//! Deliberately absent: JSON and dynamic fields, the language of filters, the values themselves,
//! which stand in the rows.

mod buckets;
mod chunk;
mod column;
mod cursor;
mod directory;
mod elements;
mod entries;
mod error;
mod estimate;
mod files;
mod flush;
mod key;
mod manifest;
mod merge;
mod open;
mod pending;
mod postings;
mod predicate;
mod row_map;
mod run;
mod signature;
#[cfg(test)]
mod tests;
mod truth;
mod value_keys;
mod view;
mod write;

pub use column::ScalarColumn;
pub use error::ScalarError;
pub use estimate::MatchEstimate;
pub use files::{current_files, damaged_files};
pub use flush::Judged;
pub use postings::Postings;
pub use predicate::{Condition, KeyPredicate};
pub use signature::{SignatureTest, Sketch, Verdict};
pub use view::ScalarView;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeann_engine::memory::Accountant;

use self::chunk::Chunk;
use self::manifest::RunsManifest;
use self::pending::PendingRows;
use self::run::OpenRun;
use self::value_keys::ValueKeys;
use crate::ids::{RowId, Seq};
use crate::value::ValueRef;

/// Rows of a chunk, which are made a run in memory together.
const CHUNK_ROWS: usize = 2048;

/// How scalar indexes are opened.
#[derive(Clone, Debug)]
pub struct ScalarOptions {
    /// Identity of the collection that they belong to; those of another are refused.
    pub collection: [u8; 16],
    /// Bytes that may wait for a flush, reserved by whoever writes. Half of it is where
    /// [`Pressure::Flush`] begins.
    pub buffer_bytes: u64,
    /// Who grants the memory.
    pub accountant: Arc<Accountant>,
}

/// What the caller of [`ScalarIndexes::apply`] should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Nothing.
    Low,
    /// Flush soon. When the buffer is full, `apply` refuses.
    Flush,
}

/// Rows on their way into the indexes.
#[derive(Debug)]
pub struct ScalarBatch {
    columns: Arc<[ScalarColumn]>,
    parts: Vec<PendingRows>,
    keys: ValueKeys,
}

impl ScalarBatch {
    /// No rows yet, of these columns.
    #[must_use]
    pub fn new(columns: Arc<[ScalarColumn]>) -> Self {
        Self { columns, parts: Vec::new(), keys: ValueKeys::default() }
    }

    /// Adds a row behind all others, given the value of each column, which is of its type or null.
    pub fn push<'v>(&mut self, row: RowId, values: impl IntoIterator<Item = ValueRef<'v>>) {
        let high = Some((row.0 >> 32) as u32);
        let full = |part: &PendingRows| part.len() >= CHUNK_ROWS || part.high() != high;
        if self.parts.last().is_none_or(full) {
            self.parts.push(PendingRows::new(Arc::clone(&self.columns)));
        }
        let part = self.parts.last_mut().expect("a part with room was made");
        part.push(row, values, &mut self.keys);
    }
}

/// The scalar indexes of a collection. See the [module](self) for what always holds.
pub struct ScalarIndexes {
    dir: PathBuf,
    options: ScalarOptions,
    state: Mutex<IndexesState>,
    /// Held while rows are added; taken before `state`.
    adding: Mutex<()>,
    /// What `SCALARS` says; held while a flush runs.
    on_disk: Mutex<RunsManifest>,
    /// Whether signatures are wanted in memory.
    loaded: AtomicBool,
    /// Something on disk cannot be read: the next opening makes everything anew.
    damaged: Arc<AtomicBool>,
}

/// What readers see, and the writer's part of it.
struct IndexesState {
    applied: Seq,
    durable: Seq,
    columns: Arc<[ScalarColumn]>,
    /// In ascending order of their rows; chunks come behind runs, the newest behind chunks.
    runs: Arc<Vec<OpenRun>>,
    chunks: Vec<Arc<Chunk>>,
    newest: Arc<PendingRows>,
}

impl ScalarIndexes {
    /// Adds a batch, and notes `seq`, the number of its last log record. At or below
    /// [`applied`](Self::applied) nothing happens. Rows have to come in ascending order of their
    /// ids.
    ///
    /// # Errors
    /// [`ScalarError::BufferFull`] where a flush has to come first. Nothing is added then.
    pub fn apply(&self, seq: Seq, batch: &ScalarBatch) -> Result<Pressure, ScalarError> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if seq <= self.state().applied {
            return Ok(Pressure::Low);
        }
        let pressure = self.add_parts(batch)?;
        self.state().applied = seq;
        Ok(pressure)
    }

    /// Adds rows of the row store while the indexes are made anew; [`made`](Self::made) ends that.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn add_stored(&self, batch: &ScalarBatch) -> Result<Pressure, ScalarError> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        self.add_parts(batch)
    }

    /// All rows up to this record were added.
    pub fn made(&self, applied: Seq) {
        self.state().applied = applied;
    }

    fn add_parts(&self, batch: &ScalarBatch) -> Result<Pressure, ScalarError> {
        let limit = self.options.buffer_bytes;
        if self.is_full() && !batch.parts.is_empty() {
            return Err(ScalarError::BufferFull { held: self.held_bytes(), limit });
        }
        for part in &batch.parts {
            let mut state = self.state();
            if !state.fits(part) {
                state.end_chunk();
            }
            if state.newest.is_empty() {
                state.columns = Arc::clone(&part.columns);
                state.newest = Arc::new(part.clone());
            } else {
                Arc::make_mut(&mut state.newest).extend(part);
            }
        }
        Ok(if self.held_bytes() >= limit / 2 { Pressure::Flush } else { Pressure::Low })
    }

    /// Whether a flush has to come before more rows.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.held_bytes() >= self.options.buffer_bytes
    }

    fn held_bytes(&self) -> u64 {
        let state = self.state();
        state.chunks.iter().map(|chunk| chunk.bytes()).sum::<u64>() + state.newest.bytes()
    }

    /// The number up to which the log is applied, and visible to views.
    #[must_use]
    pub fn applied(&self) -> Seq {
        self.state().applied
    }

    /// The number up to which the indexes would survive the process.
    #[must_use]
    pub fn durable(&self) -> Seq {
        self.state().durable
    }

    /// What is there now, to be asked as often as wanted.
    #[must_use]
    pub fn view(&self) -> ScalarView {
        let (mut runs, chunks, newest) = {
            let state = self.state();
            (Arc::clone(&state.runs), state.chunks.clone(), Arc::clone(&state.newest))
        };
        if !chunks.is_empty() {
            Arc::make_mut(&mut runs).extend(chunks.iter().map(|chunk| chunk.run().clone()));
        }
        ScalarView { runs, newest, damaged: Arc::clone(&self.damaged) }
    }

    /// Reads the signatures into memory, as far as there is room.
    ///
    /// # Errors
    /// A failed read or damage.
    pub fn load(&self) -> Result<(), ScalarError> {
        // No flush replaces runs meanwhile.
        let _on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.loaded.store(true, Ordering::Relaxed);
        let runs = Arc::clone(&self.state().runs);
        for OpenRun { run, .. } in runs.iter().filter(|open| open.signatures.is_none()) {
            let Some(read) = self.noting_damage(run.load(&self.options.accountant))? else {
                continue;
            };
            let read = Arc::new(read);
            let mut state = self.state();
            let same = |open: &&mut OpenRun| Arc::ptr_eq(&open.run, run);
            if let Some(open) = Arc::make_mut(&mut state.runs).iter_mut().find(same) {
                open.signatures = Some(read);
            }
        }
        Ok(())
    }

    /// Drops the signatures of what is on disk; their memory is free when the last view goes.
    pub fn release(&self) {
        let _on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.loaded.store(false, Ordering::Relaxed);
        let mut state = self.state();
        for open in Arc::make_mut(&mut state.runs) {
            open.signatures = None;
        }
    }

    fn noting_damage<T>(&self, result: Result<T, ScalarError>) -> Result<T, ScalarError> {
        result.inspect_err(|error| {
            if error.is_damage() {
                self.damaged.store(true, Ordering::Relaxed);
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, IndexesState> {
        self.state.lock().expect("no panic while the state is locked")
    }
}

impl IndexesState {
    /// Whether rows can join the newest.
    fn fits(&self, part: &PendingRows) -> bool {
        self.newest.is_empty()
            || self.newest.len() + part.len() <= CHUNK_ROWS && self.newest.is_like(part)
    }

    /// The newest rows become a chunk.
    fn end_chunk(&mut self) {
        if !self.newest.is_empty() {
            let none = PendingRows::new(Arc::clone(&self.newest.columns));
            let newest = std::mem::replace(&mut self.newest, Arc::new(none));
            self.chunks.push(Arc::new(Chunk::new(newest)));
        }
    }
}
