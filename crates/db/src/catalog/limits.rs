//! Limits of the catalogue, those of Milvus 2.6, and the names that are always there.

/// The database that always exists.
pub const DEFAULT_DATABASE: &str = "default";
/// The partition that every collection without a partition key has.
pub const DEFAULT_PARTITION: &str = "_default";
/// The most databases.
pub const MAX_DATABASES: usize = 64;
/// The most collections in all databases together.
pub const MAX_COLLECTIONS: usize = 65_536;
/// The most aliases of a database.
pub const MAX_ALIASES: usize = 65_536;
/// The most partitions of a collection.
pub const MAX_PARTITIONS: u32 = 1024;
/// Partitions of a collection with a partition key, unless it is created with another number.
pub const DEFAULT_KEY_PARTITIONS: u32 = 16;
/// The most shards of a collection. The number is kept for clients that ask; one machine has
/// one log.
pub const MAX_SHARDS: u32 = 16;
/// The most bytes of what is kept with a collection or a database, as they stand in the file: all of it is
/// in memory, and is written with each change of any of it. Milvus can keep 1.5 MiB of a change.
pub const MAX_ENTRY_BYTES: usize = 2 << 20;
