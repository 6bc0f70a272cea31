//! Rows on disk, in two log-structured merge trees of the crate `lsm-tree`.
//!
//! ```text
//! LOCK         held while the store is open
//! STATE        whose store it is, up to where it has come, counters; see `state_file`
//! rows/        tree: row id -> partition, key, blob
//! keys/        tree: key, row id -> nothing
//! ```
//!
//! Rows arrive in the order of their ids, so the tables of `rows` hardly overlap and are moved
//! from level to level without being rewritten; keys come in any order and take little space.
//! That is why there are two trees, and why nothing that changes with each batch stands in one.
//!
//! The trees have no journal and do not share a commit. What holds them together:
//! - both rotate their write buffers between the same two batches;
//! - a flush writes keys, then `STATE` with the counters, then rows, then `STATE` again. A
//!   deletion finds the key of its row in `rows`, which is never ahead of the others;
//! - replay starts behind `durable`. Up to `counted`, keys and counters are skipped, and rows are
//!   written once more, which changes nothing that is already there;
//! - batches that were applied late are in `late` until somebody needs the trees. They count as
//!   buffered, and a flush writes them first.

mod batch;
mod files;
mod flush;
mod late;
mod open;
mod published;
mod read;
mod store;
mod version_check;
mod write;

pub(super) use files::{current_files, damaged_files};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lsm_tree::{AbstractTree as _, AnyTree, DescriptorTable, SequenceNumberCounter};

use self::batch::RowsAhead;
use self::late::Late;
use self::published::Published;
use super::StoreError;
use super::row_cache::{RowCache, RowCachePart};
use super::state_file::StoreState;
use crate::files::FileLock;
use crate::ids::Seq;

/// How a store on disk is opened.
#[derive(Clone)]
pub struct RowStoreOptions {
    /// Identity of the collection that the rows belong to; another one's store is refused.
    pub collection: [u8; 16],
    /// What is kept of what is read, shared with other stores.
    pub cache: Arc<RowCache>,
    /// Bytes of rows that may wait for a flush, reserved by whoever writes. Half of it is where
    /// [`RowPressure::Flush`](super::RowPressure::Flush) begins, so that batches can go on while a flush runs.
    pub buffer_bytes: u64,
    /// Whether the directory is locked; needless where its owner holds a lock, and a descriptor.
    pub lock: bool,
}

/// A row store on disk. Dropped without a flush it loses what was applied since the last one.
pub struct LsmRows {
    dir: PathBuf,
    rows: AnyTree,
    keys: AnyTree,
    /// Numbers the batches and the versions of both trees; has nothing to do with the log's.
    batches: SequenceNumberCounter,
    published: Published,
    cache: RowCachePart,
    /// Files of tables that stay open, of all stores.
    open_files: Arc<DescriptorTable>,
    late: Late,
    /// Held while a batch is applied, or the write buffers are rotated.
    writer: Mutex<TreeWriter>,
    /// What `STATE` says; held while a flush runs.
    on_disk: Mutex<StoreState>,
    buffer_bytes: u64,
    _lock: Option<FileLock>,
}

impl Drop for LsmRows {
    /// Closes its files: the room of those that are removed is free then.
    fn drop(&mut self) {
        for tree in [&self.rows, &self.keys] {
            for table in tree.current_version().iter_tables() {
                self.open_files.remove_for_table(&(tree.id(), table.id()).into());
            }
        }
    }
}

/// What only the writer knows.
struct TreeWriter {
    /// As `counted` in `STATE` when the store was opened.
    counted: Seq,
    /// Estimated bytes in the buffers being written.
    active_bytes: u64,
    /// Estimated bytes in the buffers being flushed.
    sealed_bytes: u64,
    ahead: Option<RowsAhead>,
}

impl TreeWriter {
    fn buffered_bytes(&self) -> u64 {
        self.active_bytes + self.sealed_bytes
    }
}

impl LsmRows {
    /// Bytes of the tables on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.rows.disk_space() + self.keys.disk_space()
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, TreeWriter> {
        self.writer.lock().expect("no panic while a batch is applied")
    }
}

/// Runs `work` on a tree. The crate checks what it reads by checksums, but asserts in some places
/// what a file can contradict; a panic there is damage as well.
fn tree<T>(
    action: &'static str,
    dir: &Path,
    work: impl FnOnce() -> lsm_tree::Result<T>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(tree_error(action, dir, error)),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err(StoreError::damaged(dir, format!("cannot {action} it: {said}")))
        }
    }
}

fn tree_error(action: &'static str, dir: &Path, error: lsm_tree::Error) -> StoreError {
    use lsm_tree::Error;
    match error {
        // A file that is shorter than its index says, or gone; of one that is shorter than what
        // stands at its end, a place before its beginning is asked for.
        Error::Io(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::UnexpectedEof
                    | std::io::ErrorKind::NotFound
                    | std::io::ErrorKind::InvalidData
                    | std::io::ErrorKind::InvalidInput
            ) =>
        {
            StoreError::damaged(dir, format!("cannot {action} it: {e}"))
        }
        Error::Io(e) => StoreError::io(action, dir)(e),
        Error::ChecksumMismatch { got, expected } => StoreError::damaged(
            dir,
            format!(
                "checksum mismatch: {got} found, {expected} expected (while trying to {action} it)"
            ),
        ),
        other => StoreError::damaged(dir, format!("cannot {action} it: {other}")),
    }
}
