//! Names of what belongs to a collection: in the directory, and inside its files.
//!
//! Files that could be confused carry an identity of 16 bytes: the XXH3-128, big-endian, of the
//! collection's creation time in Unix milliseconds, its id, and the id of a field or zero, each
//! 8 bytes little-endian. So a file of another collection, or of one that had the same id in
//! another database, is refused.

use crate::catalog::{CollectionId, IndexId, UnixMs};
use crate::schema::FieldId;
use crate::wal::LogId;

/// The directory, below that of the database, that holds all collections.
pub const COLLECTIONS_DIR: &str = "collections";

/// Directory of the log inside that of the collection.
pub(crate) const LOG_DIR: &str = "wal";
/// Directory of the row store.
pub(super) const ROWS_DIR: &str = "rows";
/// Directory of the scalar indexes.
pub(super) const SCALARS_DIR: &str = "scalars";
/// Begins the name of the directory of a field's vectors, before the field's id.
pub(super) const VECTORS_PREFIX: &str = "vectors-";
/// Begins the name of the directory of an index's graph, before the index's id.
pub(super) const INDEX_PREFIX: &str = "index-";
/// File of the live rows.
pub(crate) const LIVE_FILE: &str = "LIVE";
/// File of the ages of rows, where they have a time to live.
pub(crate) const AGES_FILE: &str = "AGES";

/// Who a collection is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionIdentity {
    /// Its id.
    pub(crate) id: CollectionId,
    /// When it was created.
    pub(crate) created: UnixMs,
}

impl CollectionIdentity {
    /// What row store and live rows carry.
    pub(super) fn bytes(self) -> [u8; 16] {
        self.hash(0)
    }

    /// What the log carries.
    pub(crate) fn log(self) -> LogId {
        LogId(self.bytes())
    }

    /// What the vectors of a field carry. Field ids begin at 1 or later.
    pub(super) fn field(self, field: FieldId) -> [u8; 16] {
        assert!(field.0 > 0, "0 stands for the collection itself");
        self.hash(u64::from(field.0))
    }

    fn hash(self, part: u64) -> [u8; 16] {
        let words = [self.created.0, self.id.0, part].map(u64::to_le_bytes);
        xxhash_rust::xxh3::xxh3_128(words.as_flattened()).to_be_bytes()
    }
}

/// Directory of a collection, from that of the database.
pub(crate) fn collection_dir(id: CollectionId) -> String {
    format!("{COLLECTIONS_DIR}/{}", id.0)
}

/// Directory of a field's vectors inside that of the collection.
pub(super) fn vectors_dir(field: FieldId) -> String {
    format!("{VECTORS_PREFIX}{}", field.0)
}

/// Directory of an index's graph inside that of the collection.
pub(super) fn index_dir(index: IndexId) -> String {
    format!("{INDEX_PREFIX}{}", index.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_identity() {
        let identity = CollectionIdentity { id: CollectionId(2), created: UnixMs(1_000) };
        let again = CollectionIdentity { id: CollectionId(2), created: UnixMs(1_001) };
        let hex = |id: [u8; 16]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(identity.bytes()),
            "038f867e49fa2c764a1567c2ab4c60bd",
            "existing files would be refused"
        );
        assert_eq!(
            hex(identity.field(FieldId(100))),
            "102940f0f468e9ec91a01506f20ad4dd",
            "existing files would be refused"
        );
        assert_ne!(identity.bytes(), again.bytes());
    }
}
