//! What can go wrong with a live index.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::FormatError;
use crate::index::{OpenError, QueryError};
use crate::io::IoError;
use crate::memory::OverLimit;
use crate::search::SearchError;
use crate::types::{ErrorClass, NodeId, RowId};

/// Why a change was not made. The index is as it was before, unless it is
/// [`Poisoned`](Self::Poisoned).
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The directory cannot be opened as an index.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Another process, or another live index of this one, holds the directory.
    #[error("{} is open for writing elsewhere{}", path.display(), holder_text(*.holder))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that wrote its number there.
        holder: Option<u32>,
    },
    /// Live changes need one partition.
    #[error("the index has {found} partitions; inserts and deletes need an index of one")]
    Partitions {
        /// Partitions of the index.
        found: usize,
    },
    /// A vector of another shape, or one that no distance is defined for.
    #[error("the vector cannot be inserted: {0}")]
    Vector(QueryError),
    /// The row has a node already.
    #[error("row {} is in the index already", .0.0)]
    RowExists(RowId),
    /// A row id for which the row map has no place.
    #[error("row {} is not below {limit}, where the row ids of an index end", row.0)]
    Row {
        /// The row.
        row: RowId,
        /// Row ids are below this.
        limit: u64,
    },
    /// A row so much longer or shorter than those that the codes of the index were trained on that
    /// no search would find it.
    #[error(
        "row {} has a norm of {norm:.3e}, which the codes of this index cannot tell from others; build \
         it anew from all rows, with codes of any scale (--any-scale)", .row.0
    )]
    Scale {
        /// The row.
        row: RowId,
        /// The norm of its vector.
        norm: f64,
    },
    /// No node id is left. A checkpoint makes room unless the ids of the format are used up.
    #[error("no node id is left below {limit}; make a checkpoint, or rebuild the index")]
    Full {
        /// Node ids are below this.
        limit: u64,
    },
    /// A link that does not fit the index: it was made by another index, or out of order.
    #[error("the link of row {} to node {} does not fit: {why}", .row.0, .node.0)]
    Link {
        /// Row of the link.
        row: RowId,
        /// Node of the link.
        node: NodeId,
        /// What is wrong.
        why: &'static str,
    },
    /// A link most of whose neighbours are not in the index any more: the row is to be inserted.
    #[error("most neighbours of row {} in its link are not in the index; insert it anew", row.0)]
    Stray {
        /// The row.
        row: RowId,
    },
    /// The memory limit leaves no room for further changes. A checkpoint gives memory back.
    #[error("{0}; a checkpoint gives memory of pending changes back")]
    Memory(#[from] OverLimit),
    /// Pages could not be read.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// No queue, or reading failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The directory holds another index, or a generation that was written elsewhere.
    #[error("{} was replaced since it was opened; open it again", path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// A file of the next generation could not be written. The one before stands.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A defect: what would have been written is not valid.
    #[error("the next generation is not valid: {0}")]
    Format(#[from] FormatError),
    /// A checkpoint failed where nobody can tell what is on stable storage. Searches go on;
    /// open the index again to write.
    #[error("writing has ended until the index is opened again, since {0}")]
    Poisoned(String),
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(", by process {pid}"))
}

impl UpdateError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Open(e) => e.class(),
            Self::Io(e) => e.class(),
            Self::Search(e) => e.class(),
            Self::Locked { .. } | Self::Memory(_) | Self::File { .. } | Self::Full { .. } => {
                ErrorClass::Retry
            }
            Self::Partitions { .. }
            | Self::Vector(_)
            | Self::RowExists(_)
            | Self::Row { .. }
            | Self::Stray { .. }
            | Self::Scale { .. } => ErrorClass::FixInput,
            Self::Link { .. } | Self::Replaced { .. } | Self::Format(_) | Self::Poisoned(_) => {
                ErrorClass::Stop
            }
        }
    }

    /// For `map_err`: names the action and the file.
    pub(super) fn file<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}
