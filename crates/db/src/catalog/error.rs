//! Why a change is refused, a name is not found, or the file cannot be read.

use std::fmt;
use std::io;

use super::limits::{MAX_ENTRY_BYTES, MAX_PARTITIONS, MAX_SHARDS};
use super::version::CATALOG_VERSION;
use crate::ids::{ErrorClass, Metric};
use crate::replication::SharedLogError;
use crate::schema::{NameError, SchemaError};
use crate::value::DataType;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// A database.
    Database,
    /// A collection.
    Collection,
    /// Another name of a collection.
    Alias,
    /// A partition of a collection.
    Partition,
    /// An index on a field.
    Index,
    /// A field of a collection.
    Field,
}

impl EntityKind {
    const fn article(self) -> &'static str {
        match self {
            Self::Alias | Self::Index => "an",
            _ => "a",
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Collection => "collection",
            Self::Alias => "alias",
            Self::Partition => "partition",
            Self::Index => "index",
            Self::Field => "field",
        }
    }
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What keeps something from being dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Collections in a database.
    Collections(usize),
    /// Aliases of a collection.
    Aliases(Vec<String>),
    /// It is loaded.
    Loaded,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collections(count) => write!(f, "it holds {count} collections; drop them first"),
            Self::Aliases(names) => {
                write!(f, "it has the aliases {}; drop them first", names.join(", "))
            }
            Self::Loaded => f.write_str("it is loaded; release it first"),
        }
    }
}

/// Why a field cannot have an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexFault {
    /// A type that the engine does not search.
    #[error("{0} cannot be indexed in this version; it can be stored and read")]
    Unsupported(DataType),
    /// An index type that is not known for this kind of field.
    #[error("`{found}` is no index type for {data_type}; known are {known}")]
    UnknownKind {
        /// The name given.
        found: String,
        /// Type of the field.
        data_type: DataType,
        /// Names that are known.
        known: String,
    },
    /// A vector index without a metric.
    #[error("an index on a vector needs a metric")]
    NeedsMetric,
    /// A metric that such vectors are not compared by.
    #[error(
        "{data_type} fields are not compared by {metric}; binary vectors are by hamming and jaccard, all others by l2, ip and cosine"
    )]
    Metric {
        /// Type of the field.
        data_type: DataType,
        /// The metric asked for.
        metric: Metric,
    },
    /// A scalar index with a metric.
    #[error("an index on {0} has no metric")]
    NoMetric(DataType),
    /// A second index.
    #[error("it has the index `{0}` already; at most one distinct index is allowed per field")]
    Second(String),
    /// Another path would make it another index.
    #[error("the json_path of index `{0}` cannot be changed; create another index")]
    Path(String),
    /// Progress beyond the end.
    #[error("{rows_done} rows of {rows} cannot be done")]
    Progress {
        /// Rows said to be done.
        rows_done: u64,
        /// Rows there are.
        rows: u64,
    },
}

/// Why the bytes of the catalogue's file are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Too short to be whole.
    #[error("{found} bytes are too few, the file is cut off")]
    Short {
        /// Bytes found.
        found: usize,
    },
    /// Some other file.
    #[error("the file does not begin with PIPECATL, it is no catalogue")]
    Magic,
    /// A collection of an earlier build, whose vectors stand in its rows.
    #[error(
        "collection `{collection}`: the build that made it kept the {data_type} field `{field}` in rows, where this one does not look for it; copy the collection with that build into another field type, or drop it there"
    )]
    VectorsInRows {
        /// Name of the collection.
        collection: String,
        /// Name of the field.
        field: String,
        /// Type of the field.
        data_type: DataType,
    },
    /// A version that this build does not read.
    #[error("catalogue version {found} is unknown, this build reads 1 to {CATALOG_VERSION}")]
    Version {
        /// Version found.
        found: u32,
    },
    /// Cut off, or something appended.
    #[error("the file has {found} bytes, its header says {expected}")]
    Length {
        /// Bytes by the header.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Damaged.
    #[error("checksum is {found:#018x}, the bytes make {expected:#018x}; the file is damaged")]
    Checksum {
        /// Checksum of the bytes.
        expected: u64,
        /// Checksum in the file.
        found: u64,
    },
    /// Intact, and still no catalogue.
    #[error("the catalogue does not parse: {0}")]
    Body(String),
    /// A change that is intact and cannot be made.
    #[error("the change of the catalogue at byte {offset} cannot be made: {fault}")]
    Change {
        /// Where it begins in the file.
        offset: u64,
        /// Why not.
        fault: String,
    },
    /// A change that was on stable storage and is not there any more.
    #[error(
        "the change of the catalogue at byte {offset} was saved and cannot be read; the file is damaged"
    )]
    ChangeLost {
        /// Where it ought to begin in the file.
        offset: u64,
    },
    /// Intact, and it contradicts itself.
    #[error("the catalogue contradicts itself: {0}")]
    Contradiction(String),
}

/// Why the catalogue refuses.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Nothing of this name.
    #[error("{kind} not found[{kind}={name}] in `{within}`")]
    NotFound {
        /// What was looked for.
        kind: EntityKind,
        /// Its name.
        name: String,
        /// The database or collection that was searched.
        within: String,
    },
    /// The name is taken.
    #[error("`{name}` is already the name of {} {kind} in `{within}`", kind.article())]
    Exists {
        /// What has the name.
        kind: EntityKind,
        /// The name.
        name: String,
        /// The database or collection.
        within: String,
    },
    /// The collection exists, and is another.
    #[error("create duplicate collection with different parameters, collection: {name}")]
    Differs {
        /// Its name.
        name: String,
    },
    /// As many as there can be.
    #[error("`{within}` has {most} of kind {kind} already, more are not possible")]
    Limit {
        /// Of what.
        kind: EntityKind,
        /// How many there can be.
        most: usize,
        /// The database or collection, `the catalogue` for all.
        within: String,
    },
    /// More text than is kept with an entry.
    #[error(
        "what is kept with it would take {bytes} bytes, at most {MAX_ENTRY_BYTES} are possible: names, descriptions, properties and parameters together"
    )]
    Long {
        /// What it would take in the file.
        bytes: usize,
    },
    /// Something needs it.
    #[error("{kind} `{name}` cannot be dropped: {usage}")]
    InUse {
        /// What it is.
        kind: EntityKind,
        /// Its name.
        name: String,
        /// What needs it.
        usage: Usage,
    },
    /// It is always there.
    #[error("the {kind} `{name}` cannot be dropped")]
    Permanent {
        /// What it is.
        kind: EntityKind,
        /// Its name.
        name: String,
    },
    /// An alias where the collection's own name is needed.
    #[error("cannot {action} the collection via alias = {alias}; its name is `{collection}`")]
    ViaAlias {
        /// What was to be done.
        action: &'static str,
        /// The alias.
        alias: String,
        /// Name of the collection.
        collection: String,
    },
    /// Partitions are the partition key's.
    #[error("collection `{collection}` has a partition key, its partitions cannot be named")]
    PartitionKeyed {
        /// Its name.
        collection: String,
    },
    /// A number of partitions without a key to spread rows by.
    #[error("collection `{collection}` has no partition key, and so no number of partitions")]
    NoPartitionKey {
        /// Its name.
        collection: String,
    },
    /// A number of partitions out of range.
    #[error("{found} partitions are not possible, 1 to {MAX_PARTITIONS} are")]
    Partitions {
        /// The number.
        found: u32,
    },
    /// A number of shards out of range.
    #[error("{found} shards are not possible, 1 to {MAX_SHARDS} are")]
    Shards {
        /// The number.
        found: u32,
    },
    /// An index that cannot be.
    #[error("field `{field}`: {fault}")]
    Index {
        /// The field.
        field: String,
        /// Why not.
        fault: IndexFault,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A schema that is none.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// No catalogue was saved.
    #[error("there is no catalogue here")]
    Missing,
    /// A catalogue where none was expected.
    #[error("there is a catalogue here already")]
    AlreadyThere,
    /// The file cannot be read.
    #[error("the catalogue cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file's bytes are refused.
    #[error("catalogue: {0}")]
    File(#[from] FileError),
    /// The change could not be saved and did not happen.
    #[error("the catalogue was not changed, since it cannot be saved: {0}")]
    NotSaved(#[source] io::Error),
    /// It is unknown whether the change was saved. No change is accepted until it is reopened.
    #[error(
        "saving the catalogue failed, and either state may be on disk: {0}; reopen the database"
    )]
    Unknown(#[source] io::Error),
    /// An earlier save failed.
    #[error("saving the catalogue failed earlier; reopen the database")]
    Poisoned,
    /// The change could not be put into the log that servers share, or what came from there does not
    /// fit.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
}

impl CatalogError {
    pub(super) fn not_found(kind: EntityKind, name: &str, within: &str) -> Self {
        // The message stays short whatever the input was.
        Self::NotFound { kind, name: name.chars().take(255).collect(), within: within.into() }
    }

    pub(super) fn exists(kind: EntityKind, name: &str, within: &str) -> Self {
        Self::Exists { kind, name: name.into(), within: within.into() }
    }

    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotSaved(_) => ErrorClass::Retry,
            Self::Shared(error) => error.class(),
            Self::Unreadable(_) | Self::Unknown(_) | Self::Poisoned => ErrorClass::Stop,
            Self::File(
                FileError::Version { .. } | FileError::VectorsInRows { .. } | FileError::Magic,
            ) => ErrorClass::FixInput,
            Self::File(_) => ErrorClass::Stop,
            _ => ErrorClass::FixInput,
        }
    }
}
