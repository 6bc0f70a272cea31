//! The vectors of one field, searched exactly, and what its graph is built from.
//!
//! A collection keeps the vectors of all rows here, whether a graph holds them too or not: in
//! immutable segment files, and in a tail in memory for what was appended since the last flush.
//! State derived from the log: what is not flushed is lost with the process and replayed.
//!
//! ```text
//! LOCK               held while the store is open
//! FLAT               the list of segments, and up to where they have come; see `manifest`
//! segment-000001     blocks of row ids and vectors, each with a checksum; see `block`
//! ```
//!
//! Invariants:
//! - a batch is visible as a whole or not at all, and once: a batch at or below
//!   [`applied`](FlatVectors::applied) is skipped;
//! - a segment is written whole and synced before `FLAT` lists it, and never changed. A file that
//!   `FLAT` does not list is what an interrupted flush left, and is removed on opening;
//! - memory holds the tail, at most its budget, 16 bytes for each block on disk, and the buffers
//!   of running searches. It does not grow with the vectors on disk.
//!
//! Deliberately absent: deletion by log record. Row ids are never reused, so a row that is gone
//! is passed over by the caller's `allow`, and leaves the files with the next
//! [`retain`](FlatVectors::retain).

mod block;
mod error;
mod export;
mod files;
mod flush;
mod gather;
mod manifest;
mod memtable;
mod merge;
mod open;
mod search;
mod segment;
#[cfg(test)]
mod tests;

pub use error::FlatError;
pub use files::current_files;
pub use search::{FlatHit, FlatSearch};

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use pipeann_engine::memory::Accountant;
use pipeann_engine::types::VectorSet;

use self::block::BlockShape;
use self::manifest::SegmentsManifest;
use self::memtable::Memtable;
use self::segment::VectorSegment;
use crate::files::FileLock;
use crate::ids::{RowId, Seq, VectorType};

/// How vectors without a graph are opened.
#[derive(Clone, Debug)]
pub struct FlatOptions {
    /// Identity of the vector field that they belong to; another one's are refused.
    pub field: [u8; 16],
    /// Components of a vector, at least 1.
    pub dim: usize,
    /// Type of the components.
    pub vector_type: VectorType,
    /// Bytes of vectors that may wait for a flush, reserved by whoever appends. Half of it is where
    /// [`VectorPressure::Flush`] begins, so that appends can go on while a flush runs.
    pub tail_bytes: u64,
    /// Who grants the memory.
    pub accountant: Arc<Accountant>,
    /// Whether the directory is locked; needless where its owner holds a lock, and a descriptor.
    pub lock: bool,
}

impl FlatOptions {
    /// A tail of 32 MiB, from the accountant of the process.
    #[must_use]
    pub fn new(field: [u8; 16], dim: usize, vector_type: VectorType) -> Self {
        let accountant = Accountant::process();
        Self { field, dim, vector_type, tail_bytes: 32 << 20, accountant, lock: true }
    }
}

/// What the caller of [`FlatVectors::append`] should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorPressure {
    /// Nothing.
    Low,
    /// Flush soon. When the tail is full, `append` refuses.
    Flush,
}

/// Vectors by row, searched exactly. See the [module](self) for what always holds.
pub struct FlatVectors {
    dir: PathBuf,
    shape: BlockShape,
    tail_bytes: u64,
    state: Mutex<VectorsState>,
    /// What `FLAT` says; held while a flush runs.
    on_disk: Mutex<SegmentsManifest>,
    accountant: Arc<Accountant>,
    _lock: Option<FileLock>,
}

/// What readers see, and the writer's part of it. Copied for each of them, so that nobody waits for a search.
#[derive(Clone)]
struct VectorsState {
    applied: Seq,
    durable: Seq,
    /// How often rows were left out.
    cuts: u64,
    segments: Arc<Vec<Arc<VectorSegment>>>,
    /// Being flushed, after a failed flush still waiting for it.
    sealed: Arc<Memtable>,
    /// The number up to which `segments` and `sealed` together have come.
    sealed_at: Seq,
    /// Being appended to.
    active: Arc<Memtable>,
}

impl VectorsState {
    /// Bytes that a flush would put on disk.
    fn held_bytes(&self) -> u64 {
        self.active.bytes() + self.sealed.bytes()
    }
}

impl FlatVectors {
    /// Appends the vectors of `rows`, and notes `seq`, the number of the batch's last log record.
    /// An empty batch only moves the number. At or below [`applied`](Self::applied) nothing
    /// happens. A row has one vector: its id must not have been appended before.
    ///
    /// # Errors
    /// [`FlatError::Shape`] for vectors of another type or dimension, [`FlatError::TailFull`]
    /// where a flush has to come first. Nothing of the batch is appended then.
    ///
    /// # Panics
    /// Where `rows` and `vectors` differ in number.
    pub fn append(
        &self,
        seq: Seq,
        rows: &[RowId],
        vectors: VectorSet<'_>,
    ) -> Result<VectorPressure, FlatError> {
        assert_eq!(rows.len(), vectors.rows(), "each row has one vector");
        self.check_shape(vectors)?;
        let mut state = self.state();
        if seq <= state.applied {
            return Ok(self.pressure(&state));
        }
        if !rows.is_empty() && state.held_bytes() >= self.tail_bytes {
            let held = state.held_bytes();
            return Err(FlatError::TailFull { held, limit: self.tail_bytes });
        }
        if !rows.is_empty() {
            Arc::make_mut(&mut state.active).append(rows, vectors.bytes());
        }
        state.applied = seq;
        Ok(self.pressure(&state))
    }

    fn pressure(&self, state: &VectorsState) -> VectorPressure {
        if state.active.bytes() >= self.tail_bytes / 2 {
            VectorPressure::Flush
        } else {
            VectorPressure::Low
        }
    }

    /// Whether a flush has to come before more vectors.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.state().held_bytes() >= self.tail_bytes
    }

    /// The number up to which the log is applied, and visible to searches.
    #[must_use]
    pub fn applied(&self) -> Seq {
        self.state().applied
    }

    /// The number up to which the vectors would survive the process.
    #[must_use]
    pub fn durable(&self) -> Seq {
        self.state().durable
    }

    /// Vectors appended, whether their rows still live or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        let view = self.view();
        let on_disk: u64 = view.segments.iter().map(|segment| segment.rows()).sum();
        on_disk + (view.sealed.rows() + view.active.rows()) as u64
    }

    /// Whether nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the segments on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.view().segments.iter().map(|segment| segment.file_bytes()).sum()
    }

    /// Puts what is applied on stable storage and returns its number: the log may be cut behind
    /// it. The log itself has to be durable up to [`applied`](Self::applied) before, or the
    /// vectors would be ahead of it after a power cut. Searches and appends go on meanwhile.
    /// Small segments at the end are merged with the new one.
    ///
    /// # Errors
    /// A failed write or sync, or a damaged block in a segment that is merged. Everything applied
    /// stays visible, the last durable number stays valid, and the call may be repeated.
    pub fn flush(&self) -> Result<Seq, FlatError> {
        self.flush_tail()
    }

    /// Flushes, and rewrites all segments with the rows that `keep` lets pass only: after rows
    /// were deleted, or have joined a graph. Rows that are appended while it runs stay. Until it
    /// is done, and after a crash in the middle of it, rows that are not kept are still there, so
    /// the `allow` of searches has to pass over them until then. Needs room for a second copy of
    /// what is kept.
    ///
    /// # Errors
    /// As [`flush`](Self::flush). The call may be repeated.
    pub fn retain(&self, keep: &dyn Fn(RowId) -> bool) -> Result<Seq, FlatError> {
        self.rewrite(keep)
    }

    /// How often [`retain`](Self::retain) has left rows out: a reader of an earlier moment may miss
    /// some where this has changed since.
    pub fn cuts(&self) -> u64 {
        self.state().cuts
    }

    /// Bytes of one vector.
    pub fn vector_bytes(&self) -> usize {
        self.shape.vector_bytes()
    }

    /// The vector of `row`, into `out` (length: bytes of a vector); `false`, and `out` as it was,
    /// where it was never appended.
    ///
    /// # Errors
    /// A failed read or a damaged block.
    ///
    /// # Panics
    /// Where `out` has another length.
    pub fn get(&self, row: RowId, out: &mut [u8]) -> Result<bool, FlatError> {
        assert_eq!(out.len(), self.shape.vector_bytes(), "room for one vector");
        let view = self.view();
        for tail in [&view.active, &view.sealed] {
            if let Some(vector) = tail.get(row, self.shape.vector_bytes()) {
                out.copy_from_slice(vector);
                return Ok(true);
            }
        }
        let mut buffer = Vec::new();
        for segment in view.segments.iter().rev() {
            if let Some(vector) = segment.find(row, &mut buffer)? {
                out.copy_from_slice(vector);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_shape(&self, vectors: VectorSet<'_>) -> Result<(), FlatError> {
        let found = (vectors.dim(), vectors.vector_type());
        let expected = (self.shape.dim(), self.shape.vector_type());
        if found == expected { Ok(()) } else { Err(FlatError::Shape { found, expected }) }
    }

    fn state(&self) -> MutexGuard<'_, VectorsState> {
        self.state.lock().expect("no panic while the state is locked")
    }

    fn view(&self) -> VectorsState {
        self.state().clone()
    }
}
