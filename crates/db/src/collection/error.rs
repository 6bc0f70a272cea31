//! What can go wrong with a collection, and what helps.

use pipeann_engine::memory::OverLimit;

use super::load_bounds::{MAX_LOAD_NAME_BYTES, MAX_LOADS};
use crate::asker::{Gone, TooMuch};
use crate::catalog::CatalogError;
use crate::disk::DiskError;
use crate::docstore::StoreError;
use crate::expr::FilterError;
use crate::flat::FlatError;
use crate::ids::{ErrorClass, Metric, RowId, Seq, VectorType};
use crate::replication::SharedLogError;
use crate::scalar::ScalarError;
use crate::schema::{BatchError, KeyType};
use crate::value::RowError;
use crate::wal::WalError;

/// Why a collection refuses or fails.
#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    /// It was dropped while somebody still held it.
    #[error("the collection was dropped")]
    Dropped,
    /// It was opened for reading only.
    #[error("the database is open for reading only; write where it is open for writing")]
    ReadOnly,
    /// The batch does not fit the schema. Nothing was changed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// One key twice in an upsert: it would not be clear which row stays. Nothing was changed.
    #[error("rows {first} and {second} of the upsert have the same primary key {key}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Row of the batch, from 0.
        first: usize,
        /// Row of the batch, from 0.
        second: usize,
    },
    /// A key of another type than the primary key's.
    #[error("primary keys are of type {expected:?}, key {position} is of type {found:?}")]
    KeyType {
        /// Type of the primary key.
        expected: KeyType,
        /// Type found.
        found: KeyType,
        /// Position in the list of keys, from 0.
        position: usize,
    },
    /// No field of this name, or not of the kind that is needed.
    #[error("the schema has no {wanted} `{field}`")]
    Field {
        /// What was looked for.
        wanted: &'static str,
        /// Name given.
        field: String,
    },
    /// An expression that is no filter of the schema.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A delete whose filter would select every row because it is blank. Nothing was changed.
    #[error("a delete needs an expression; `true` selects every row")]
    BlankDelete,
    /// Rows of an iterator's moment were deleted since, and their vectors are on disk no more.
    #[error(
        "rows that the iterator has not come to were deleted, and their vectors are gone; begin again"
    )]
    Overtaken,
    /// A query vector that cannot be compared.
    #[error("query {query} for field `{field}`: {why}")]
    Query {
        /// Name of the field.
        field: String,
        /// Position of the query, from 0.
        query: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Queries of another dimension or type.
    #[error(
        "queries of {} {} for field `{field}`, which has {} {}",
        found.0, found.1, expected.0, expected.1
    )]
    QueryShape {
        /// Name of the field.
        field: String,
        /// Dimension and type of the field.
        expected: (usize, VectorType),
        /// Dimension and type of the queries.
        found: (usize, VectorType),
    },
    /// A metric beside that of the index.
    #[error("field `{field}` is indexed by {expected}, the search asks for {found}")]
    Metric {
        /// Name of the field.
        field: String,
        /// Metric of the index.
        expected: Metric,
        /// Metric asked for.
        found: Metric,
    },
    /// A metric that vectors of the field's type are not compared by.
    #[error("field `{field}` holds {ty} vectors, which are not compared by {metric}")]
    MetricOfType {
        /// Name of the field.
        field: String,
        /// Metric asked for.
        metric: Metric,
        /// Type of the vectors.
        ty: VectorType,
    },
    /// Neither search nor index says how to compare.
    #[error("field `{field}` has no index, so the search has to name a metric")]
    NoMetric {
        /// Name of the field.
        field: String,
    },
    /// Not loaded, so not searched.
    #[error("the collection or partition `{name}` is not loaded; load it first")]
    NotLoaded {
        /// Name of the collection or partition.
        name: String,
    },
    /// Partition, collection or index by a name that there is not, or a catalogue that cannot be
    /// changed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// More ids than a partition number can hold.
    #[error("partition id {id} does not fit 32 bits; make the database anew from a backup")]
    PartitionId {
        /// The id.
        id: u64,
    },
    /// A failed write: nothing of it is known to be lost, and nothing more is accepted.
    #[error(
        "the collection accepts no writes until it is opened again: {why}; what was \
         acknowledged is safe, what was not may be there or not"
    )]
    Stopped {
        /// What happened.
        why: String,
    },
    /// The log refuses or fails.
    #[error(transparent)]
    Log(#[from] WalError),
    /// Another server takes the writes of this collection, or what came from there does not fit.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
    /// The row store refuses or fails.
    #[error(transparent)]
    Rows(#[from] StoreError),
    /// The scalar indexes refuse or fail.
    #[error(transparent)]
    Scalars(#[from] ScalarError),
    /// The vectors of a field refuse or fail.
    #[error("field `{field}`: {source}")]
    Vectors {
        /// Name of the field.
        field: String,
        /// What is wrong.
        source: FlatError,
    },
    /// A file of the collection cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log begins too late to make good what a component lacks.
    #[error(
        "the {component} has come to record {}, and the log begins with record {}: \
         rows between are missing; restore the collection from a backup",
        applied.0, first.0
    )]
    LogTooShort {
        /// What lacks them.
        component: String,
        /// The last record that it includes.
        applied: Seq,
        /// The first record of the log.
        first: Seq,
    },
    /// A component includes records that the log does not have.
    #[error(
        "the {component} has come to record {}, and the log ends with record {}: \
         records of the log are missing; restore the collection from a backup",
        applied.0, last.0
    )]
    AheadOfLog {
        /// What includes them.
        component: String,
        /// The last record that it includes.
        applied: Seq,
        /// The last record of the log.
        last: Seq,
    },
    /// A stored row that is no row of the schema.
    #[error("row {} is damaged: {source}; restore the collection from a backup", row.0)]
    Row {
        /// The row.
        row: RowId,
        /// What is wrong.
        source: RowError,
    },
    /// A live row whose bytes or vector are missing.
    #[error("row {} is live, but its {what} is missing; restore the collection from a backup", row.0)]
    Missing {
        /// The row.
        row: RowId,
        /// What is missing.
        what: String,
    },
    /// The memory limit is too low.
    #[error(transparent)]
    Memory(#[from] OverLimit),
    /// Nobody waits for the answer any more, or it is to be asked for later.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The answer would be larger than its asker takes.
    #[error("the answer would have more than {most_bytes} bytes; ask for fewer rows or fields")]
    AnswerTooLarge {
        /// The most bytes.
        most_bytes: u64,
    },
    /// A load without a name, or with one that is too long.
    #[error("the name of a load has 1 to {MAX_LOAD_NAME_BYTES} bytes, {bytes} were given")]
    LoadName {
        /// Bytes of the name.
        bytes: usize,
    },
    /// A load that somebody in this process is at work on.
    #[error("the load `{name}` is under way already")]
    LoadRunning {
        /// Its name.
        name: String,
    },
    /// A load that was begun with another source.
    #[error(
        "the load `{name}` was begun with another source; give that one again, give this load \
         another name, or forget the first one"
    )]
    LoadSource {
        /// Its name.
        name: String,
    },
    /// More unfinished loads than are remembered.
    #[error("{MAX_LOADS} loads were begun and not finished; finish some, or forget them")]
    TooManyLoads,
    /// The notes of loads cannot be read.
    #[error(
        "how far bulk loads have come is not known: {why}; rows are safe, and loads are refused \
         until the file is restored from a backup, or removed where no load is to be continued"
    )]
    Loads {
        /// What is wrong.
        why: String,
    },
    /// An index cannot be built, opened or searched.
    #[error("index `{index}`: {why}")]
    Index {
        /// Its name.
        index: String,
        /// What is wrong.
        why: String,
        /// What helps.
        class: ErrorClass,
    },
}

impl CollectionError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Dropped
            | Self::ReadOnly
            | Self::DuplicateKey { .. }
            | Self::KeyType { .. }
            | Self::Field { .. }
            | Self::Query { .. }
            | Self::QueryShape { .. }
            | Self::Metric { .. }
            | Self::MetricOfType { .. }
            | Self::NoMetric { .. }
            | Self::BlankDelete
            | Self::NotLoaded { .. }
            | Self::LoadName { .. }
            | Self::LoadSource { .. }
            | Self::TooManyLoads
            | Self::AnswerTooLarge { .. }
            | Self::Memory(_) => ErrorClass::FixInput,
            Self::LoadRunning { .. } | Self::Overtaken | Self::Gone(_) => ErrorClass::Retry,
            Self::PartitionId { .. }
            | Self::Stopped { .. }
            | Self::LogTooShort { .. }
            | Self::AheadOfLog { .. }
            | Self::Row { .. }
            | Self::Loads { .. }
            | Self::Missing { .. } => ErrorClass::Stop,
            Self::Batch(error) => error.class(),
            Self::Filter(error) => error.class(),
            Self::Catalog(error) => error.class(),
            Self::Log(error) => error.class(),
            Self::Shared(error) => error.class(),
            Self::Rows(error) => error.class(),
            Self::Scalars(error) => error.class(),
            Self::Vectors { source, .. } => source.class(),
            Self::Disk(error) => error.class(),
            Self::Index { class, .. } => *class,
        }
    }

    /// For `map_err`: names the field.
    pub(super) fn vectors<'a>(field: &'a str) -> impl Fn(FlatError) -> Self + use<'a> {
        move |source| match source {
            FlatError::Gone(why) => Self::Gone(why),
            source => Self::Vectors { field: field.to_owned(), source },
        }
    }
}

impl From<TooMuch> for CollectionError {
    fn from(refused: TooMuch) -> Self {
        match refused {
            TooMuch::Answer { most_bytes } => Self::AnswerTooLarge { most_bytes },
            TooMuch::Memory(refused) => Self::Memory(refused),
        }
    }
}
