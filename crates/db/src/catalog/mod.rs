//! What databases and collections there are: schemas, partitions, aliases, indexes, whether they
//! are loaded. One file holds all of it: a catalogue, and behind it the changes since it was written.
//! Now and then it is replaced by one that holds them.
//!
//! A change is saved before anybody sees it: [`Catalog::apply`] edits a copy, writes what is
//! otherwise in it through the [`CatalogStore`], and only then hands it to readers. Readers hold a [`Snapshot`], which
//! never changes. Two rules hold by construction: collections and aliases of a database share
//! one map of names, so that neither can shadow the other; and all ids come from one counter,
//! saved with the rest, so that none is used twice. The clock is the caller's.
//!
//! Absent on purpose: what a load or a build is doing right now (only what was asked for and
//! how it ended is kept), and rows.

mod apply;
mod change;
mod delta;
mod edit_collection;
mod edit_contents;
mod edit_names;
mod entries;
mod error;
mod file;
mod index_kind;
pub mod limits;
mod shared_map;
mod snapshot;
mod store;
mod tail;
mod validate;
mod version;

#[cfg(test)]
mod tests;

pub use apply::Catalog;
pub use change::{Applied, CollectionPath, EntryChange, NewCollection, NewIndex, Subject};
pub use entries::{
    CollectionEntry, CollectionId, CollectionPartition, ConsistencyLevel, DatabaseEntry,
    DatabaseId, IndexDefinition, IndexId, IndexState, NOTED, NameTarget, PartitionId, Properties,
    TIME_TO_LIVE, UnixMs, WantedLoad, WriteTarget,
};
pub use error::{CatalogError, EntityKind, FileError, IndexFault, Usage};
pub use file::{CATALOG_FILE, CATALOG_MAGIC, file_header};
pub use index_kind::{BINARY_INDEX_KINDS, SCALAR_INDEX_KINDS, VECTOR_INDEX_KINDS, is_exact_kind};
pub use shared_map::SharedMap;
pub use snapshot::Snapshot;
pub use store::{CatalogStore, MemoryStore, SaveError};
pub use tail::{CHANGE_MAGIC, KIND_CHANGE, KIND_CHANGE_MARK, change_header};
pub use version::CATALOG_VERSION;
