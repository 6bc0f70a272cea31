//! The live index: what callers see of this room.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::error::UpdateError;
use super::files::{DiskFiles, Files, IndexLock};
use super::generation::Generation;
use super::insert::LinkedRow;
use super::orphan_files::remove_orphans;
use super::pass::Pass;
use super::rows::RowTable;
use crate::filter::AllowSet;
use crate::index::{
    Index, OpenError, OpenOptions, PageStats, QueryError, VerifyReport, check_vector,
};
use crate::search::{PageSource, scan_pays};
use crate::types::{NodeId, RowId, VectorType};

/// How to open a live index.
#[derive(Clone)]
pub struct LiveOptions {
    /// How the pages on disk are opened and read. `spare_slots` is set by this room, and
    /// `leave_bytes` added to.
    pub open: OpenOptions,
    /// Rows that fit behind the last page until the next checkpoint. `None`: a quarter of the
    /// index, 65,536 at least.
    pub fresh_rows: Option<u32>,
    /// Memory for pages that a checkpoint or a consolidation reads more than once, bytes; a
    /// sixteenth of the limit at most, where there is one.
    pub cache_bytes: usize,
    /// Whether checkpoints and consolidation read the vectors of all candidates of a list that
    /// they prune. Else pages that are not at hand are not read for it, and the vectors in them
    /// are what their codes stand for: some ninety reads fewer for each page.
    pub exact_prunes: bool,
    /// Threads of the process's pool (rayon's) that a checkpoint or a step of consolidation
    /// occupies at most; `None` for all of them.
    pub threads: Option<usize>,
    /// What writes the files of a checkpoint.
    pub files: Arc<dyn Files>,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            fresh_rows: None,
            cache_bytes: 32 << 20,
            exact_prunes: false,
            threads: None,
            files: Arc::new(DiskFiles),
        }
    }
}

impl LiveOptions {
    /// Ids behind the last page until the next checkpoint, in an index of so many slots.
    pub(super) fn spare_slots(&self, slots: u64) -> u32 {
        let quarter = u32::try_from(slots / 4).unwrap_or(u32::MAX).max(65_536);
        self.fresh_rows.unwrap_or(quarter)
    }

    /// Bytes of a limit that resident pages leave free, so that they seldom have to give way to
    /// changes.
    fn leave_bytes(&self) -> u64 {
        const SHARE_OF_LIMIT: u64 = 32;
        let changes = self.open.accountant.limit_bytes().unwrap_or(0) / SHARE_OF_LIMIT;
        self.open.leave_bytes + changes
    }

    pub(super) fn threads(&self) -> usize {
        let all = rayon::current_num_threads();
        self.threads.map_or(all, |threads| threads.clamp(1, all))
    }
}

/// Rows to search among, as nodes of an index.
#[derive(Clone, Debug)]
pub struct AllowList {
    /// Of the nodes; `None` where they are not known.
    numbering: Option<u64>,
    nodes: Arc<AllowSet>,
}

impl AllowList {
    /// The rows, about `expected` of them, that pass a test. Making it costs nothing, and it serves
    /// any index; but a search asks it of rows that it has read only, and where few of those near
    /// a query pass it may end [`in_vain`](crate::search::SearchStats::in_vain).
    pub fn tested(expected: u64, test: impl Fn(RowId) -> bool + Send + Sync + 'static) -> Self {
        Self { numbering: None, nodes: Arc::new(AllowSet::tested(expected, test)) }
    }

    /// Whether none of the rows is in the index.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many of the rows are in the index, or about so many.
    pub fn len(&self) -> u64 {
        self.nodes.len()
    }

    /// Bytes that they take up.
    pub fn bytes(&self) -> u64 {
        self.nodes.bytes()
    }

    pub(super) fn nodes_in(&self, generation: &Generation) -> Result<&Arc<AllowSet>, QueryError> {
        let holds = self.numbering.is_none_or(|numbering| numbering == generation.numbering);
        holds.then_some(&self.nodes).ok_or(QueryError::Renumbered)
    }
}

/// An index that takes inserts and deletes while it is searched. Shared between threads by
/// reference; see the room's description for who waits for whom.
pub struct LiveIndex {
    pub(super) path: PathBuf,
    pub(super) options: LiveOptions,
    pub(super) current: RwLock<Arc<Generation>>,
    /// Shared by inserts, held alone by checkpoints and consolidation.
    writers: RwLock<()>,
    /// Why writing has ended.
    pub(super) poisoned: OnceLock<String>,
    /// While a checkpoint is under way: rows deleted since it took its snapshot.
    pub(super) late: Mutex<Option<Vec<RowId>>>,
    /// The consolidation under way.
    pub(super) pass: Mutex<Option<Pass>>,
    /// Rows linked since the last rewrite, but for those of the current generation.
    pub(super) fragmented: AtomicU64,
    _lock: IndexLock,
}

impl LiveIndex {
    /// Opens the index in `path` for reading and writing, and keeps other writers out.
    ///
    /// Waits until all codes are in memory. Files that an interrupted checkpoint has left are
    /// removed.
    ///
    /// # Errors
    /// [`UpdateError`]: another writer holds the directory, the index does not open, or it has
    /// several partitions.
    pub fn open(path: &Path, options: LiveOptions) -> Result<Self, UpdateError> {
        crate::index::check_built(path)?;
        let lock = IndexLock::take(path)?;
        let generation = open_generation(path, &options)?;
        // A crash may have come between the exchange and its sync: a power cut behind this one must
        // not bring back a manifest whose files are gone.
        options.files.sync_dir(path).map_err(UpdateError::file("sync", path))?;
        remove_orphans(path, &generation.index, options.files.as_ref())?;
        Ok(Self {
            path: path.to_owned(),
            options,
            current: RwLock::new(Arc::new(generation)),
            writers: RwLock::new(()),
            poisoned: OnceLock::new(),
            late: Mutex::default(),
            pass: Mutex::default(),
            fragmented: AtomicU64::new(0),
            _lock: lock,
        })
    }

    /// Told by a thread that was started to search: the backend may want it on a certain processor.
    pub fn enter_search_thread(&self) {
        self.current().index.backend().enter_search_thread();
    }

    /// The same, told by a thread that was started to link rows.
    pub fn enter_link_thread(&self) {
        self.current().index.backend().enter_link_thread();
    }

    pub(super) fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn check_sound(&self) -> Result<(), UpdateError> {
        let why = self.poisoned.get();
        why.map_or(Ok(()), |why| Err(UpdateError::Poisoned(why.clone())))
    }

    pub(super) fn shared_writer(&self) -> Result<RwLockReadGuard<'_, ()>, UpdateError> {
        let guard = self.writers.read().unwrap_or_else(PoisonError::into_inner);
        self.check_sound().map(|()| guard)
    }

    /// Changes the memory limit while searches go on, as
    /// [`Index::set_memory_limit`](crate::index::Index::set_memory_limit) does. Waits for the
    /// changes under way.
    ///
    /// # Errors
    /// [`UpdateError::Memory`] where the limit is below what is held beside pages, with the number
    /// needed; [`UpdateError::Poisoned`].
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) -> Result<(), UpdateError> {
        let _alone = self.only_writer()?;
        Ok(self.current().index.set_memory_limit(limit_bytes)?)
    }

    /// Reads all pages of the generation on disk and names all damage, as
    /// [`Index::verify`](crate::index::Index::verify) does; its codes are those in memory.
    ///
    /// # Errors
    /// [`QueryError`] where the I/O queue itself fails.
    pub fn verify(&self) -> Result<VerifyReport, QueryError> {
        self.current().index.verify(&mut |_| {})
    }

    /// Which pages are in memory, and how many searches found there.
    pub fn page_stats(&self) -> PageStats {
        self.current().index.page_stats()
    }

    pub(super) fn only_writer(&self) -> Result<RwLockWriteGuard<'_, ()>, UpdateError> {
        let guard = self.writers.write().unwrap_or_else(PoisonError::into_inner);
        self.check_sound().map(|()| guard)
    }

    /// Makes a link again that [`insert`](Self::insert) made before, without a search. Links are
    /// applied in the order in which they were made, mixed with deletes as they came. A link
    /// whose row is in the index already changes nothing: the row is where the link has put it,
    /// or where a [`rewrite`](Self::rewrite) has.
    ///
    /// Neighbours that are not in the index are left out, since links of rows that were deleted need
    /// not be made again. Rows are inserted when all links are made, which name their nodes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), [`UpdateError::Link`] where the link contradicts the index, and
    /// [`UpdateError::Stray`] where most of its neighbours are not in the index, so that the row is
    /// to be inserted.
    pub fn apply_link(&self, link: &LinkedRow, vector: &[u8]) -> Result<(), UpdateError> {
        let _shared = self.shared_writer()?;
        let generation = self.current();
        check_shape(&generation.index, vector).map_err(UpdateError::Vector)?;
        generation.apply(link, vector)
    }

    /// Deletes a row: no search that begins after this returns answers it. False where there is
    /// no such row, which changes nothing. Waits for no checkpoint; whether one under way
    /// includes the delete is not said, so it goes into the log under a later sequence number.
    ///
    /// # Errors
    /// [`UpdateError::Poisoned`].
    pub fn delete(&self, row: RowId) -> Result<bool, UpdateError> {
        self.check_sound()?;
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let was_there = self.current().delete(row).is_some();
        if let Some(rows) = &mut *late
            && was_there
        {
            rows.push(row);
        }
        Ok(was_there)
    }

    /// The nodes of about `expected` rows, for searching among them only; rows that the index does not
    /// hold are left out. `rows` hands them on in batches, fastest where they ascend.
    pub fn among(&self, expected: u64, rows: impl FnOnce(&mut dyn FnMut(&[RowId]))) -> AllowList {
        let generation = self.current();
        let slots = generation.node_slots.load(Ordering::Acquire);
        let nodes = generation.rows.allow_set(slots, expected, rows);
        AllowList { numbering: Some(generation.numbering), nodes: Arc::new(nodes) }
    }

    /// Whether a search among these rows ranks all of them by code instead of walking the graph.
    pub fn scans(&self, among: &AllowList) -> bool {
        scan_pays(&among.nodes, self.current().index.view().codes_per_read)
    }

    /// The node of a live row.
    pub fn node_of(&self, row: RowId) -> Option<NodeId> {
        self.current().rows.get(row)
    }

    /// The ids of all live rows, ascending; 8 bytes each.
    pub fn row_ids(&self) -> Vec<RowId> {
        self.current().rows.ids()
    }

    /// Components of a vector.
    pub fn dim(&self) -> usize {
        self.current().layout().dim()
    }

    /// Type of a vector's components.
    pub fn vector_type(&self) -> VectorType {
        self.current().vector_type()
    }

    /// Live rows.
    pub fn rows(&self) -> u64 {
        self.current().rows.len()
    }

    /// Nodes that were deleted and are still part of the graph.
    pub fn tombstones(&self) -> u64 {
        self.current().tombstones()
    }

    /// Bytes of memory that pending changes hold; a checkpoint gives them back.
    pub fn pending_bytes(&self) -> u64 {
        self.current().patches.bytes()
    }

    /// The sequence number that the generation on disk includes.
    pub fn applied(&self) -> u64 {
        self.current().index.manifest().applied
    }

    /// The generation on disk; counts up with each checkpoint.
    pub fn generation(&self) -> u64 {
        self.current().index.manifest().generation
    }

    /// Rows that were linked since the generation was opened.
    pub fn linked(&self) -> u64 {
        self.current().linked.load(Ordering::Relaxed)
    }
}

/// Address space for codes and resident pages is taken for so many generations' fresh rows; after
/// them they are in memory twice for a moment.
const GENERATIONS: u32 = 4;

/// Opens the index on disk and lays empty changes over it.
pub(super) fn open_generation(
    path: &Path,
    options: &LiveOptions,
) -> Result<Generation, UpdateError> {
    let manifest = crate::index::read_manifest(path)?;
    if manifest.partitions.len() != 1 {
        return Err(UpdateError::Partitions { found: manifest.partitions.len() });
    }
    let spare_slots = options.spare_slots(manifest.slots());
    let open = OpenOptions {
        spare_slots: spare_slots.saturating_mul(GENERATIONS),
        leave_bytes: options.leave_bytes(),
        ..options.open.clone()
    };
    let index = Index::open(path, &open)?;
    index.wait_resident().map_err(|e| OpenError::of_read(path, e))?;
    let rows = RowTable::from_map(&index.row_nodes()?);
    Generation::new(index, rows, spare_slots, None)
}

pub(super) fn check_shape(index: &Index, vector: &[u8]) -> Result<(), QueryError> {
    let layout = index.layout();
    if vector.len() != layout.vector_bytes() {
        let found = layout.vector_type().dim_of(vector.len());
        return Err(QueryError::Dimension { expected: layout.dim(), found });
    }
    check_vector(vector, layout.vector_type(), 0)
}
