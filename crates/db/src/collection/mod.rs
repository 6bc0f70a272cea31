//! A collection: its log, its rows, its vectors and who may see what, as one thing that loses
//! nothing.
//!
//! The order of a write: it is checked against the schema, gets row ids, stands in the log as the
//! level asks, is applied to vectors, rows and live rows, is visible, and is answered. So at the
//! levels that sync no row is visible before it would survive a power cut, and a bad batch
//! changes nothing.
//!
//! **Writers** take their places in the log one after the other and wait for its sync together;
//! they are applied in the order of the log. **Readers** wait for no writer but for the moment in
//! which rows and live rows change; they see all that was answered before they began, and each
//! write as a whole.
//!
//! **A key that several rows have** (insert takes it as it comes): `get` reads the newest row,
//! `count` and `query` see every row, `search` answers with the nearest one only, `delete`
//! removes all, `upsert` replaces all.
//!
//! **When applying fails** behind the log, or the log itself, the collection goes on answering
//! reads and refuses writes until it is opened again; replay then repairs it.
//!
//! Components are derived from the log and may each be behind it; `recovery` has the rules.
//!
//! Six rooms are made of it: `write`, `read`, `search`, `filter`, `recovery` and `maintenance`. What
//! they share stands beside them: the components, the formats of a schema, live rows and their ages.
//! ARCHITECTURE.md says which of them may name which.

mod age_ranges;
mod ages;
mod ages_file;
mod components;
mod derived;
mod error;
mod expected_links;
mod field_vectors;
mod filter;
#[cfg(test)]
mod fixture;
mod formats;
mod identity;
mod live;
mod live_file;
mod load_bounds;
mod maintenance;
mod options;
mod partitions;
mod pinned_snapshot;
mod read;
mod recovery;
mod search;
mod write;
mod write_buffers;

pub use error::CollectionError;
pub use filter::explain::{ConditionPlan, FilterPlan, SearchPlan, Walk};
pub use filter::matching::Filter;
pub use filter::prefilter::{FilterRowSource, PrefilterAnswer};
pub use filter::scalars::ScalarMoment;
pub use identity::COLLECTIONS_DIR;
pub use load_bounds::{MAX_LOAD_NAME_BYTES, MAX_LOADS};
pub use maintenance::graphs::IndexStatus;
pub use maintenance::stats::CollectionStats;
pub use maintenance::verify::Finding;
pub use options::CollectionOptions;
pub use pinned_snapshot::PinnedSnapshot;
pub use read::iterate::RowIterator;
pub use read::query::{RowOrder, RowQuery};
pub use read::rows::FoundRow;
pub use search::answer::{BatchProgress, SearchAnswer, SearchHit, Stages};
pub use search::costs::SearchCosts;
pub use search::fuse::{Ranker, fuse};
pub use search::grouping::MOST_GROUPED;
pub use search::request::{GivenNames, Grouping, QueryVectors, SearchRequest};
pub use write::bulk_load::{BulkLoad, LoadState};
pub use write::delete::DeleteOutcome;
pub use write::insert::InsertOutcome;
pub use write::repeated::keys_of_request;

pub(crate) use identity::{AGES_FILE, CollectionIdentity, LIVE_FILE, LOG_DIR, collection_dir};
pub(crate) use maintenance::snapshot::{Component, part_of};
pub(crate) use recovery::recover::{Home, create, open};
pub(crate) use write::loads::LOADS_FILE;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use self::ages::Ages;
use self::components::Components;
use self::filter::filter_cache::FilterCache;
use self::filter::filter_result_cache::FilterResultCache;
use self::formats::Formats;
use self::live::Hidden;
use self::maintenance::flush_behind::FlushBehind;
use self::maintenance::signal::Signal;
use self::maintenance::unlogged::Unlogged;
use self::write::commit_sequencer::CommitSequencer;
use self::write::loads::Loads;
use self::write::state::WriterState;
use crate::catalog::{Catalog, CollectionEntry as Entry, UnixMs};
use crate::disk::{Disk, HeldDir};
use crate::wal::Log;

/// See the module's description. Shared between threads by reference. Lock order:
/// `opening`, `linking`, `order`, `flushing` or `loads`, then the locks of components. Nobody waits for his
/// turn under `linking`.
pub struct Collection {
    identity: CollectionIdentity,
    disk: Arc<dyn Disk>,
    /// On `disk`.
    dir: String,
    catalog: Arc<Catalog>,
    options: CollectionOptions,
    components: Components,
    turns: CommitSequencer,
    order: Mutex<WriterState>,
    log: Log,
    formats: Mutex<Arc<Formats>>,
    filters: FilterCache,
    answers: FilterResultCache,
    flushing: Mutex<()>,
    flush_behind: FlushBehind,
    /// Of rows, where they have a time to live.
    ages: Ages,
    hidden: Mutex<Hidden>,
    /// Moments that somebody keeps.
    held: Mutex<Vec<Weak<PinnedSnapshot>>>,
    /// A buffer is half full.
    pressed: AtomicBool,
    /// Bytes of records since the last flush.
    logged_bytes: AtomicU64,
    loads: Mutex<Loads>,
    /// The real directory that `dir` shows, for graphs.
    files: PathBuf,
    now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    /// Held while rows enter a graph and their links the log.
    linking: Mutex<Unlogged>,
    /// Held while a graph is opened and made the one that is searched.
    opening: Mutex<()>,
    /// Rows that entered a graph by links of another server.
    adopted: AtomicU64,
    signal: Arc<Signal>,
    me: Weak<Self>,
    /// Of a reader: the directory that it reads, which stays until nobody does. Dropped last.
    pin: Option<Arc<HeldDir>>,
}

impl Drop for Collection {
    fn drop(&mut self) {
        self.stop_background();
        if self.pin.is_none() && self.entry().is_ok() {
            self.log.note_end();
        }
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Collection {
    /// What the catalogue says about it now.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`].
    pub fn entry(&self) -> Result<Arc<Entry>, CollectionError> {
        let snapshot = self.catalog.snapshot();
        snapshot.collection_by_id(self.identity.id).cloned().ok_or(CollectionError::Dropped)
    }

    /// How it was opened.
    pub fn options(&self) -> &CollectionOptions {
        &self.options
    }

    /// Bytes that its disk has left for this user.
    ///
    /// # Errors
    /// [`CollectionError::Disk`].
    pub fn available_bytes(&self) -> Result<u64, CollectionError> {
        Ok(self.disk.available_bytes()?)
    }

    /// Does something while no write is under way.
    pub(crate) fn without_writers<T>(
        &self,
        work: impl FnOnce() -> T,
    ) -> Result<T, CollectionError> {
        let _order = self.order_when_applied()?;
        Ok(work())
    }

    /// Accepts no writes any more, for this reason.
    pub(crate) fn stop(&self, why: &str) {
        self.turns.stop(why);
    }

    /// A name in its directory, on `disk`.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn current_formats(&self) -> Result<Arc<Formats>, CollectionError> {
        Ok(self.formats(&*self.entry()?))
    }

    /// The formats of the schema at hand.
    fn formats(&self, entry: &Entry) -> Arc<Formats> {
        let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        // A writer may come with an older schema than the last one did.
        if formats.schema.version() < entry.schema.version() {
            *formats = Arc::new(Formats::new(Arc::clone(&entry.schema)));
        } else if formats.schema.version() > entry.schema.version() {
            return Arc::new(Formats::new(Arc::clone(&entry.schema)));
        }
        Arc::clone(&formats)
    }
}

/// Whether bytes are what the file `name` of a collection holds; for fuzzing, which cannot reach
/// the decoders otherwise. The identity is taken from the bytes.
#[doc(hidden)]
pub fn decodes(name: &str, bytes: &[u8]) -> bool {
    let id = bytes.get(16..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    match name {
        AGES_FILE => ages_file::decode(id, bytes).is_ok(),
        LIVE_FILE => live_file::decode(id, bytes).is_ok(),
        LOADS_FILE => write::loads_file::decode(id, bytes).is_ok(),
        _ => false,
    }
}
