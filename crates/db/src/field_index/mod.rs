//! The graph index of one vector field: rows in the graph, and rows that wait to enter it.
//!
//! The graph is the engine's [`LiveIndex`], in a directory of its own. Every vector also stands in
//! [`flat`](crate::flat), so the graph is derived state: lost, damaged or dropped, it is built
//! again, and rows that it does not hold yet are searched exactly beside it.
//!
//! Invariants:
//! - each live row is in the graph or pending, from the moment it is visible; it may be both while
//!   it is being linked, so whoever reads looks at the pending rows first and at the graph after;
//! - rows are told gone after they are invisible, and [`removals`](FieldIndex::removals) count up
//!   before the graph lets go of them, so that a reader notices that it may have missed some;
//! - a [`Link`] is written to the log after the graph has it. A graph on disk that names a number
//!   of the log includes all links up to it.
//!
//! Deliberately absent: threads. Whoever owns the field links, checkpoints and consolidates.

mod adopting;
mod build;
mod error;
mod kept_links;
mod parameters;
mod search;
#[cfg(test)]
mod tests;

pub use build::{BuildProgress, BuildRequest, build};
pub use error::FieldIndexError;
pub use kept_links::LinkOf;
pub use parameters::{GraphOptions, has_graph};
pub use search::{AllowedRows, GraphHit, GraphOutcome, StillWanted};

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use pipeann_engine::format::constants::ROW_ID_LIMIT;
use pipeann_engine::index::{Index, PageStats, VerifyReport};
use pipeann_engine::memory::Accountant;
use pipeann_engine::update::{Due, LinkPace, LiveIndex, RowLink, UpdateError, UpkeepOptions};
use roaring::RoaringTreemap;

use self::kept_links::KeptLinks;
use crate::ids::{RowId, Seq};
use crate::wal::Link;

/// Rows that may wait while links give way to searches.
const MOST_WAITING: u64 = 5_000;

/// See the module's description. Shared between threads by reference.
pub struct FieldIndex {
    graph: LiveIndex,
    /// Number of the vector field, as links name it.
    field: u32,
    pending: RwLock<Arc<RoaringTreemap>>,
    removals: AtomicU64,
    /// Rows that ceased to be pending, and times when its nodes were numbered anew.
    entered: AtomicU64,
    /// Since links were last made.
    searched: AtomicBool,
    /// Since the last [`trim`](Self::trim).
    asked: AtomicBool,
    ended: AtomicBool,
    /// Whether it was told that searches cannot read it.
    damaged: AtomicBool,
    /// Where other servers may want them.
    kept: Mutex<Option<KeptLinks>>,
    /// Links that were ever kept.
    links_kept: AtomicU64,
    deleted_share: f64,
    upkeep: UpkeepOptions,
    /// Dropped last, when the graph has let go of its directory.
    open: Arc<()>,
}

impl FieldIndex {
    /// Opens the graph in `dir`. No row is pending until [`begin`](Self::begin) says which.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`]: it is in use, damaged, or does not fit the memory limit.
    pub fn open(
        dir: &Path,
        field: u32,
        options: &GraphOptions,
        accountant: &Arc<Accountant>,
    ) -> Result<Self, FieldIndexError> {
        Ok(Self {
            graph: LiveIndex::open(dir, options.live(accountant))?,
            field,
            pending: RwLock::default(),
            removals: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            searched: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            kept: Mutex::default(),
            links_kept: AtomicU64::new(0),
            deleted_share: options.deleted_share,
            upkeep: options.upkeep(),
            open: Arc::default(),
        })
    }

    /// Something that is alive until the directory can be opened again.
    pub fn while_open(&self) -> Weak<()> {
        Arc::downgrade(&self.open)
    }

    /// Notes that searches cannot read it. Whether that is news.
    pub fn note_damage(&self) -> bool {
        !self.damaged.swap(true, Ordering::Relaxed)
    }

    /// The rows in the graph.
    pub fn rows_in_graph(&self) -> RoaringTreemap {
        let ids = self.graph.row_ids();
        RoaringTreemap::from_sorted_iter(ids.iter().map(|row| row.0))
            .expect("the graph tells its rows in ascending order")
    }

    /// Brings the index in line with the rows that live: those that `graph` lacks are pending from
    /// now on. `graph` is what [`rows_in_graph`](Self::rows_in_graph) said. Returns the rows of the
    /// graph that do not live, for [`remove`](Self::remove).
    pub fn begin(&self, live: &RoaringTreemap, graph: &RoaringTreemap) -> RoaringTreemap {
        *self.pending.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live - graph);
        graph - live
    }

    /// Rows that are about to become visible.
    pub fn add(&self, rows: impl IntoIterator<Item = RowId>) {
        let mut pending = self.pending.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut pending).extend(rows.into_iter().map(|row| row.0));
    }

    /// Rows that are not visible any more.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`] where the graph takes no writes any more: it goes on answering
    /// these rows until it is opened again, and readers have to pass over them.
    pub fn remove(&self, rows: impl IntoIterator<Item = RowId>) -> Result<(), FieldIndexError> {
        self.removals.fetch_add(1, Ordering::SeqCst);
        for row in rows {
            self.forget(row);
            self.noted(self.graph.delete(row))?;
        }
        Ok(())
    }

    fn forget(&self, row: RowId) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let mut pending = self.pending.write().unwrap_or_else(PoisonError::into_inner);
        if pending.contains(row.0) {
            Arc::make_mut(&mut pending).remove(row.0);
        }
    }

    /// How often rows were told gone: a reader for whom this is more than before its moment looks
    /// for rows that are not found any more.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// Counts up when what [`allow`](Self::allow) said before may lack rows that have entered the
    /// graph, before they cease to be pending; or names nodes that are numbered anew.
    pub fn entered(&self) -> u64 {
        self.entered.load(Ordering::SeqCst)
    }

    /// Whether rows wait that can never enter the graph, since their ids are too high for it.
    pub fn lacks_row_ids(&self) -> bool {
        self.pending().max().is_some_and(|row| row >= ROW_ID_LIMIT)
    }

    /// The rows that wait to enter the graph.
    pub fn pending(&self) -> Arc<RoaringTreemap> {
        Arc::clone(&self.pending.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Told by a thread that was started to search this graph, before it does.
    pub fn enter_search_thread(&self) {
        self.graph.enter_search_thread();
    }

    /// Told by a thread that was started to link rows, before it does.
    pub fn enter_link_thread(&self) {
        self.graph.enter_link_thread();
    }

    /// Links pending rows, which are pending no more then, some of them at once, and adds to
    /// `links` what was made. Nothing is made for a row that is in the graph already, and for a
    /// vector that no distance is defined for, which no search can find.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`], the first of them; rows that failed stay pending.
    /// [`FieldIndexError::needs_checkpoint`] tells whether a checkpoint helps.
    pub fn link(
        &self,
        rows: &[(RowId, &[u8])],
        links: &mut Vec<Link>,
    ) -> Result<(), FieldIndexError> {
        let mut failed = Ok(());
        let called = self.graph.insert_many(rows, self.pace(), &mut |nth, outcome| match outcome {
            Ok(link) => {
                self.keep_link(|| RowLink::from(&link));
                self.forget(link.row);
                links.push(Link {
                    field: self.field,
                    node: link.node,
                    row: link.row,
                    neighbours: link.neighbours,
                    back_edges: link.back_edges,
                });
            }
            Err(UpdateError::RowExists(_) | UpdateError::Vector(_)) => self.forget(rows[nth].0),
            Err(error) if failed.is_ok() => failed = self.noted(Err(error)),
            Err(_) => {}
        });
        self.noted(called).and(failed)
    }

    /// Links give way to searches, but not where so many rows wait that looking at these costs a
    /// search more.
    fn pace(&self) -> LinkPace {
        let searched = self.searched.swap(false, Ordering::Relaxed);
        if searched && self.pending().len() < MOST_WAITING {
            LinkPace::Gentle
        } else {
            LinkPace::Full
        }
    }

    /// Makes a link of the log again, for a row that is pending and is not any more then.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`]: the row stays pending, to be linked anew.
    pub fn link_again(&self, link: &Link, vector: &[u8]) -> Result<(), FieldIndexError> {
        let link = pipeann_engine::update::LinkedRow {
            node: link.node,
            row: link.row,
            neighbours: link.neighbours.clone(),
            back_edges: link.back_edges.clone(),
            neighbour_rows: Vec::new(),
        };
        self.graph.apply_link(&link, vector)?;
        self.forget(link.row);
        Ok(())
    }

    /// What is wrong with the graph as it was written last; reads all of its pages.
    ///
    /// # Errors
    /// [`FieldIndexError::Search`] where nothing can be read at all.
    pub fn damage(&self) -> Result<Vec<String>, FieldIndexError> {
        Ok(told(self.graph.verify()?))
    }

    /// The number of the log that the graph on disk includes.
    pub fn applied(&self) -> Seq {
        Seq(self.graph.applied())
    }

    /// Whether something changed since the graph was written.
    pub fn is_changed(&self) -> bool {
        self.graph.pending_bytes() > 0
    }

    /// Whether so much changed that a checkpoint is due.
    pub fn is_checkpoint_due(&self) -> bool {
        self.graph.pending_bytes() >= self.upkeep.dirty_bytes
    }

    /// Whether the graph takes no changes any more, since a checkpoint failed where nobody can tell
    /// what is on stable storage, or another one has its directory. Opened again it does.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Notes an error after which the graph takes no changes.
    fn noted<T>(&self, outcome: Result<T, UpdateError>) -> Result<T, FieldIndexError> {
        outcome.map_err(|error| {
            let error = FieldIndexError::from(error);
            self.ended.fetch_or(error.needs_opening(), Ordering::Relaxed);
            error
        })
    }

    /// Writes the graph with all changes. `applied` is on stable storage in the log, and no row is
    /// linked meanwhile. Searches go on.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`]; the graph on disk is as before.
    pub fn checkpoint(&self, applied: Seq) -> Result<(), FieldIndexError> {
        self.noted_written(self.graph.checkpoint(applied.0).map(drop))
    }

    fn noted_written(&self, outcome: Result<(), UpdateError>) -> Result<(), FieldIndexError> {
        match outcome {
            // A graph that was just built stands there instead, and holds all that this one does:
            // it is opened in place of this one, if it is not yet.
            Err(UpdateError::Replaced { .. }) => {
                self.ended.store(true, Ordering::Relaxed);
                Ok(())
            }
            outcome => self.noted(outcome),
        }
    }

    /// Whether so many rows came since the pages were laid out that this is due anew. It is done
    /// best when a consolidation has just ended, or no deleted row is in the graph.
    pub fn is_layout_due(&self) -> bool {
        self.graph.due(&self.upkeep) == Some(Due::Rewrite)
    }

    /// As [`checkpoint`](Self::checkpoint), with all pages laid out anew, and with codes by
    /// another codebook where the rows have become others. A checkpoint alone where memory leaves
    /// no room for more.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`]; the graph on disk is as before.
    pub fn reorder(&self, applied: Seq) -> Result<(), FieldIndexError> {
        let written = self.noted_written(self.graph.reorder(applied.0, &self.upkeep).map(drop));
        self.entered.fetch_add(1, Ordering::SeqCst);
        written
    }

    /// Whether enough deleted rows are in the graph that they should leave it.
    pub fn is_consolidation_due(&self) -> bool {
        let dead = self.graph.tombstones() as f64;
        dead > 0.0 && dead >= self.deleted_share * (self.graph.rows() as f64 + dead)
    }

    /// One step of taking deleted rows out of the graph; `true` when that is done, and a
    /// checkpoint will make their room free.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`].
    pub fn consolidate(&self) -> Result<bool, FieldIndexError> {
        /// Pages of a step.
        const PAGES: u32 = 256;
        Ok(self.graph.consolidate(PAGES)?.finished)
    }

    /// Which pages of the graph are in memory, and how many searches found there.
    pub fn page_stats(&self) -> PageStats {
        self.graph.page_stats()
    }

    /// Rows in the graph that live.
    pub fn linked(&self) -> u64 {
        self.graph.rows()
    }

    /// Rows that were deleted and are part of the graph still.
    pub fn deleted(&self) -> u64 {
        self.graph.tombstones()
    }
}

/// As [`FieldIndex::damage`], of a graph in `dir` that is not open. Its codes are read into memory
/// for it, within the accountant's limit.
///
/// # Errors
/// [`FieldIndexError::Graph`]: it does not open; see [`FieldIndexError::needs_build`].
pub fn damage(
    dir: &Path,
    options: &GraphOptions,
    accountant: &Arc<Accountant>,
) -> Result<Vec<String>, FieldIndexError> {
    let index = Index::open(dir, &options.live(accountant).open).map_err(UpdateError::from)?;
    Ok(told(index.verify(&mut |_| {})?))
}

fn told(report: VerifyReport) -> Vec<String> {
    report.damage.into_iter().map(|damage| damage.0).collect()
}
