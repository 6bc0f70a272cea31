//! What row stores keep in memory of what was read, all of a database together.
//!
//! Rows that are asked for by id are kept one by one: the rows of an answer seldom stand together,
//! so of a block that is kept for one of them the rest is of no use. Blocks of the trees are kept
//! for what is left: their indexes, keys, and scans. Files of tables stay open, so many of all stores.
//!
//! Invariant: a row that is kept is what views see from its number on up to now. Whoever keeps one
//! or changes one does so while no other batch can be shown; see `lsm/published`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lsm_tree::DescriptorTable;
use pipeann_engine::memory::{Accountant, OverLimit, Pool, Reservation};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;

use crate::ids::RowId;

/// Blocks get this part of the memory, and no more than so many bytes.
const BLOCKS_SHARE: u64 = 4;
const MOST_BLOCK_BYTES: u64 = 8 << 20;
/// Memory of a row beside its bytes: its place in the table and the list, and what the allocator
/// and the counters of its owners take.
const ROW_OVERHEAD_BYTES: u64 = 128;
/// A row longer than one in so many bytes of all is not kept.
const LONG: u64 = 256;
/// Rows are as long as this where nobody knows; sizes the tables.
const USUAL_ROW_BYTES: u64 = 384;

/// Files of tables that stay open.
const OPEN_FILES: usize = 256;

/// See the module's description. Shared between stores by `Arc`.
pub struct RowCache {
    blocks: Arc<lsm_tree::Cache>,
    /// One for all stores, since it takes ten KiB while it is empty.
    open_files: Arc<DescriptorTable>,
    /// Replaced as a whole by [`trim`](Self::trim), which so returns its tables as well.
    rows: RwLock<Arc<RowCacheMap>>,
    row_bytes: u64,
    stores: AtomicU64,
    /// Whether a row was asked for since the last rest.
    asked: AtomicBool,
    accountant: Arc<Accountant>,
    /// For rows, while some are kept.
    row_memory: Mutex<Option<Reservation>>,
    /// Whether `row_memory` is there.
    keeps: AtomicBool,
    _block_memory: Reservation,
}

type RowCacheMap = Cache<RowKey, KeptRow, Weight, FxBuildHasher>;

/// A store, and a row of it.
type RowKey = (u64, RowId);

#[derive(Clone)]
struct KeptRow {
    /// Views from this number on see it.
    since: u64,
    blob: Arc<[u8]>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<RowKey, KeptRow> for Weight {
    fn weight(&self, _: &RowKey, kept: &KeptRow) -> u64 {
        kept.blob.len() as u64 + ROW_OVERHEAD_BYTES
    }
}

impl RowCache {
    /// A cache of so many bytes. Those for blocks are reserved at once, the others when the first
    /// row is kept; where the accountant does not grant those, none is.
    ///
    /// # Errors
    /// [`OverLimit`] where the accountant does not grant the bytes for blocks.
    pub fn new(accountant: &Arc<Accountant>, bytes: u64) -> Result<Arc<Self>, OverLimit> {
        let block_bytes = (bytes / BLOCKS_SHARE).min(MOST_BLOCK_BYTES);
        let memory = accountant.reserve(Pool::RowStore, block_bytes)?;
        let row_bytes = bytes - block_bytes;
        Ok(Arc::new(Self {
            blocks: Arc::new(lsm_tree::Cache::with_capacity_bytes(block_bytes)),
            open_files: Arc::new(DescriptorTable::new(OPEN_FILES)),
            rows: RwLock::new(Arc::new(rows_of(row_bytes))),
            row_bytes,
            stores: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            accountant: Arc::clone(accountant),
            row_memory: Mutex::default(),
            keeps: AtomicBool::new(false),
            _block_memory: memory,
        }))
    }

    /// Bytes of the rows that are kept, with what keeping them takes.
    pub fn row_bytes(&self) -> u64 {
        self.rows().weight()
    }

    /// To be called now and then: drops the rows if none was asked for since the last time, and
    /// says whether it did. Reading them again costs little.
    pub fn trim(&self) -> bool {
        let rests = !self.asked.swap(false, Ordering::Relaxed) && !self.rows().is_empty();
        if rests {
            let rows = Arc::new(rows_of(self.row_bytes));
            *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
            let mut memory = self.row_memory.lock().unwrap_or_else(PoisonError::into_inner);
            self.keeps.store(false, Ordering::Release);
            *memory = None;
        }
        rests
    }

    /// Whether there is memory for rows.
    fn may_keep(&self) -> bool {
        if self.keeps.load(Ordering::Acquire) {
            return true;
        }
        // Who cannot have the lock at once reads on without keeping.
        let Ok(mut memory) = self.row_memory.try_lock() else { return false };
        if memory.is_none() {
            *memory = self.accountant.reserve(Pool::RowStore, self.row_bytes).ok();
        }
        self.keeps.store(memory.is_some(), Ordering::Release);
        memory.is_some()
    }

    /// The blocks of all trees.
    pub(super) fn blocks(&self) -> &Arc<lsm_tree::Cache> {
        &self.blocks
    }

    /// The files of all trees.
    pub(super) fn open_files(&self) -> &Arc<DescriptorTable> {
        &self.open_files
    }

    /// The part of another store.
    pub(super) fn part(self: &Arc<Self>) -> RowCachePart {
        let store = self.stores.fetch_add(1, Ordering::Relaxed);
        RowCachePart { cache: Arc::clone(self), store }
    }

    fn rows(&self) -> Arc<RowCacheMap> {
        Arc::clone(&self.rows.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn rows_of(bytes: u64) -> RowCacheMap {
    let items = usize::try_from(bytes / USUAL_ROW_BYTES).unwrap_or(usize::MAX);
    let mut options = OptionsBuilder::new();
    options.estimated_items_capacity(items).weight_capacity(bytes);
    let options = options.build().expect("capacities are all that it needs");
    Cache::with_options(options, Weight, FxBuildHasher, DefaultLifecycle::default())
}

/// What is kept for one store; gone with it.
pub(super) struct RowCachePart {
    cache: Arc<RowCache>,
    store: u64,
}

impl Drop for RowCachePart {
    fn drop(&mut self) {
        self.cache.rows().retain(|(store, _), _| *store != self.store);
    }
}

impl RowCachePart {
    /// For the rows of one reading. To be taken after what is read was pinned.
    pub(super) fn reading(&self) -> Reading<'_> {
        if !self.cache.asked.load(Ordering::Relaxed) {
            self.cache.asked.store(true, Ordering::Relaxed);
        }
        Reading { rows: self.cache.rows(), part: self }
    }

    /// Rows that a batch changes, before it is shown.
    pub(super) fn forget(&self, changed: impl IntoIterator<Item = RowId>) {
        let rows = self.cache.rows();
        for row in changed {
            rows.remove(&(self.store, row));
        }
    }
}

/// The rows as they are kept while some are read.
pub(super) struct Reading<'a> {
    rows: Arc<RowCacheMap>,
    part: &'a RowCachePart,
}

impl Reading<'_> {
    /// The row as a view sees it that is as of this number.
    pub(super) fn find(&self, row: RowId, as_of: u64) -> Option<Arc<[u8]>> {
        let kept = self.rows.get(&(self.part.store, row))?;
        (kept.since <= as_of).then_some(kept.blob)
    }

    /// Whether a row of so many bytes is worth keeping.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.part.cache.row_bytes / LONG && self.part.cache.may_keep()
    }

    /// Keeps a row that views from this number on see.
    pub(super) fn keep(&self, row: RowId, since: u64, blob: Arc<[u8]>) {
        self.rows.insert((self.part.store, row), KeptRow { since, blob });
    }
}
