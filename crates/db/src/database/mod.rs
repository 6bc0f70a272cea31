//! A database: a directory with a lock, a catalogue and collections.
//!
//! ```text
//! LOCK                     who has it open
//! CATALOG                  names, schemas, partitions, indexes
//! ACCESS                   users, roles, grants; missing until there is more than the first user
//! REPLICA                  in one of several servers: how much of their log it has applied
//! generations/             in one of several servers: files that come from their store or go there
//! pins/                    what is read beside the writer; see `snapshot`
//! collections/<id>/        one collection; see `docs/database-format.md`
//! ```
//!
//! All collections are opened with the database. The catalogue decides what there is: see `open`
//! and `changes` for the order of things around a crash. The clock is an input.

mod catalog_file;
mod changes;
mod error;
mod open;
mod read_only;
mod read_only_source;
mod shared;
mod snapshots;

pub use crate::catalog::CATALOG_FILE;

/// File in the directory of one of several servers: how much of the log that they share it has
/// applied. Whoever composes them reads and writes it.
pub const REPLICA_FILE: &str = "REPLICA";
pub use error::DatabaseError;
pub use read_only::ReadOnlyOptions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use pipeann_engine::io::Backend;
use pipeann_engine::memory::{self, Accountant, MemoryLimit, OverLimit, Pool};

use self::read_only_source::ReadOnlySource;
use crate::access::Access;
use crate::catalog::{
    Catalog, CollectionId, CollectionPath, EntryChange, NewCollection, Snapshot, UnixMs,
};
use crate::collection::{Collection, CollectionOptions, Home};
use crate::disk::DirectoryLock;
use crate::docstore::RowCache;
use crate::replication::KnownRequests;

/// How a database is opened: settings, and the clock.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// How its collections are opened.
    pub collection: CollectionOptions,
    /// Bytes of rows that are kept in memory, of all collections together.
    pub row_cache_bytes: u64,
    /// Whether several servers have it, by a log that they share; it then is opened following.
    pub shared: bool,
    /// The time. It may go backwards; nothing but what people see depends on it.
    pub now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
}

impl DatabaseOptions {
    /// Default settings with this clock; 32 MiB of rows.
    pub fn new(now: impl Fn() -> UnixMs + Send + Sync + 'static) -> Self {
        let collection = CollectionOptions::default();
        Self { collection, row_cache_bytes: 32 << 20, shared: false, now: Arc::new(now) }
    }
}

/// The part of a limit that each buffer gets at most, and the least that one needs.
const SHARE_OF_LIMIT: u64 = 16;
const LEAST_BUFFER_BYTES: u64 = 1 << 20;

impl DatabaseOptions {
    /// The same under a memory limit, for all collections together: what they need comes first,
    /// and the pages of their graphs fill what is left. Buffers are smaller where the limit is low.
    #[must_use]
    pub fn under(mut self, limit: MemoryLimit) -> Self {
        self.collection.accountant = limit.accountant();
        self.collection.graph.resident = limit.into();
        if let Some(bytes) = self.collection.accountant.limit_bytes() {
            for buffer in [
                &mut self.collection.row_buffer_bytes,
                &mut self.collection.tail_bytes,
                &mut self.collection.scalar_buffer_bytes,
                &mut self.row_cache_bytes,
            ] {
                let most = (bytes / SHARE_OF_LIMIT).max(LEAST_BUFFER_BYTES);
                *buffer = most.min(*buffer);
            }
        }
        self
    }

    /// Refuses a limit that leaves no room for the rows that are kept and for the first write to a
    /// collection: it would be found out when somebody writes.
    fn check_limit(&self) -> Result<(), OverLimit> {
        let Some(limit_bytes) = self.collection.accountant.limit_bytes() else { return Ok(()) };
        let CollectionOptions { row_buffer_bytes, tail_bytes, scalar_buffer_bytes, .. } =
            self.collection;
        let buffers = [row_buffer_bytes, tail_bytes, scalar_buffer_bytes, self.row_cache_bytes];
        let asked_bytes = buffers.into_iter().fold(0, u64::saturating_add);
        if asked_bytes <= limit_bytes {
            return Ok(());
        }
        Err(OverLimit { pool: Pool::RowStore, asked_bytes, held_bytes: 0, limit_bytes })
    }

    fn row_cache(&self) -> Result<Arc<RowCache>, OverLimit> {
        RowCache::new(&self.collection.accountant, self.row_cache_bytes)
    }
}

impl fmt::Debug for DatabaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseOptions")
            .field("collection", &self.collection)
            .field("row_cache_bytes", &self.row_cache_bytes)
            .finish_non_exhaustive()
    }
}

/// See the module's description. Shared between threads by reference. Dropped, it loses nothing
/// that was answered.
pub struct Database {
    home: Home,
    access: Access,
    catalog: Arc<Catalog>,
    options: DatabaseOptions,
    collections: RwLock<BTreeMap<CollectionId, Arc<Collection>>>,
    /// Held while the catalogue changes, so that ids can be foretold.
    changing: Mutex<()>,
    /// Where it is open for reading only.
    reader: Option<ReadOnlySource>,
    /// Those that are applied once; the log that servers share has them too.
    requests: Arc<KnownRequests>,
    _lock: Option<Arc<DirectoryLock>>,
}

impl Drop for Database {
    /// Waits for the background work of the collections, which ends at the next step.
    fn drop(&mut self) {
        for collection in self.write_collections().values() {
            collection.stop_background();
        }
        // While the lock is held.
        self.catalog.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("files", &self.home.files).finish_non_exhaustive()
    }
}

impl Database {
    /// To be called now and then: what searches have had kept in memory is returned to the system
    /// where nobody has searched since the last call, but for pages of graphs; and so is the memory
    /// of write buffers where all is flushed and nobody has written. A search that comes later
    /// reads or makes it again, which costs it little.
    pub fn trim(&self) {
        let open = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        let collections: Vec<_> = open.values().cloned().collect();
        drop(open);
        let mut rested = self.home.row_cache.as_ref().is_some_and(|rows| rows.trim());
        for collection in collections {
            rested |= collection.trim();
        }
        if rested {
            memory::return_freed();
            // For pages, which gave way to it before.
            self.options.collection.accountant.balance();
        }
    }

    /// Who may do what.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Who grants the memory of all collections.
    pub fn accountant(&self) -> &Arc<Accountant> {
        &self.options.collection.accountant
    }

    /// By what pages of graphs are read, where that was chosen.
    pub fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.options.collection.graph.backend.as_ref()
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.home.files
    }

    /// What there is now. It does not change; ask again to see later changes.
    pub fn catalog(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    /// The collection of this name or alias.
    ///
    /// # Errors
    /// [`DatabaseError::Catalog`] where there is no such database or collection.
    pub fn collection(&self, database: &str, name: &str) -> Result<Arc<Collection>, DatabaseError> {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.collection(database, name)?;
        let missing = || crate::collection::CollectionError::Dropped;
        collections.get(&entry.id).cloned().ok_or_else(missing).map_err(DatabaseError::of(name))
    }

    /// Creates a collection; one that exists and is the same in all that was given is fine.
    ///
    /// # Errors
    /// As [`apply`](Self::apply). Then there is no new collection.
    pub fn create_collection(
        &self,
        database: &str,
        name: &str,
        new: NewCollection,
    ) -> Result<Arc<Collection>, DatabaseError> {
        let place = CollectionPath::new(database, name);
        self.apply(EntryChange::CreateCollection { place, new: Box::new(new) })?;
        self.collection(database, name)
    }

    /// Drops a collection with all of its rows. Whoever still holds it finds it stopped.
    ///
    /// # Errors
    /// As [`apply`](Self::apply). Then it is still there.
    pub fn drop_collection(&self, database: &str, name: &str) -> Result<(), DatabaseError> {
        self.apply(EntryChange::DropCollection { place: CollectionPath::new(database, name) })?;
        Ok(())
    }

    fn write_collections(&self) -> RwLockWriteGuard<'_, BTreeMap<CollectionId, Arc<Collection>>> {
        let collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(leadership) = self.leadership() {
            // Under the lock: whoever looks because of it sees what comes in.
            leadership.stops().count();
        }
        collections
    }
}
