//! What the log's records say, as values and as bytes.
//!
//! A record is one request: all of its rows or none. Records are idempotent: rows, deletions and
//! links name what they change by ids that the collection gave out, so applying a record again
//! changes nothing. Keys and blobs are bytes to the log. The decoder accepts any bytes: what is
//! not valid becomes a [`RecordError`], and it allocates no more than a small multiple of them.

mod bytes;
mod codec;
mod error;

pub use codec::PayloadTooLarge;
pub use error::RecordError;

use super::constants::{KIND_DELETE, KIND_LINK, KIND_PUT, KIND_UPSERT};
use crate::ids::{NodeId, RowId};

/// What kind of record a frame holds. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RecordKind {
    /// [`Record::Put`].
    Put = KIND_PUT,
    /// [`Record::Delete`].
    Delete = KIND_DELETE,
    /// [`Record::Upsert`].
    Upsert = KIND_UPSERT,
    /// [`Record::Link`].
    Link = KIND_LINK,
}

impl RecordKind {
    /// The number on disk.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The kind with this number on disk, if this version knows it.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            KIND_PUT => Some(Self::Put),
            KIND_DELETE => Some(Self::Delete),
            KIND_UPSERT => Some(Self::Upsert),
            KIND_LINK => Some(Self::Link),
            _ => None,
        }
    }
}

/// One row that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRow<'a> {
    /// The id that the collection gave it.
    pub row: RowId,
    /// Number of the partition within the collection.
    pub partition: u32,
    /// The primary key, as the collection encodes it.
    pub key: &'a [u8],
    /// All fields, as the collection encodes them.
    pub blob: &'a [u8],
}

/// One row's place in the graph of one vector field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the vector field.
    pub field: u32,
    /// The node that the row got.
    pub node: NodeId,
    /// The row.
    pub row: RowId,
    /// The node's neighbours, after pruning.
    pub neighbours: Vec<NodeId>,
    /// The nodes that got an edge back to this one.
    pub back_edges: Vec<NodeId>,
}

/// One request, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Rows that are new.
    Put(Vec<PutRow<'a>>),
    /// Rows that are gone.
    Delete(Vec<RowId>),
    /// Rows that are gone and rows that are new, at once.
    Upsert {
        /// Rows that are gone.
        deleted: Vec<RowId>,
        /// Rows that are new.
        rows: Vec<PutRow<'a>>,
    },
    /// Rows that entered a graph.
    Link(Vec<Link>),
}

impl Record<'_> {
    /// The kind of this record.
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Put(_) => RecordKind::Put,
            Self::Delete(_) => RecordKind::Delete,
            Self::Upsert { .. } => RecordKind::Upsert,
            Self::Link(_) => RecordKind::Link,
        }
    }
}
