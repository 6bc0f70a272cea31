//! What can go wrong with the graph of a field.

use std::io;
use std::path::{Path, PathBuf};

use pipeann_engine::build::BuildError;
use pipeann_engine::index::{OpenError, QueryError};
use pipeann_engine::memory::OverLimit;
use pipeann_engine::update::UpdateError;

use crate::flat::FlatError;
use crate::ids::ErrorClass;

/// What helps where rows have ids that are too high for a graph.
const NO_ROW_IDS: &str = "the collection has given out all row ids that a graph takes, one for each \
    row that was ever inserted or upserted: bring its rows into a new collection, which counts \
    from 0, or drop the index, without which searches are exact";

/// Why a graph was not built, opened, changed or searched.
#[derive(Debug, thiserror::Error)]
pub enum FieldIndexError {
    /// A parameter of the index that means nothing here.
    #[error("index parameter `{name}` is {value:?}: {why}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it has to be.
        why: &'static str,
    },
    /// The build does not fit the memory limit.
    #[error("the build does not fit: {0}")]
    Memory(#[from] OverLimit),
    /// The build failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The graph refuses or fails.
    #[error(transparent)]
    Graph(#[from] UpdateError),
    /// A search failed.
    #[error(transparent)]
    Search(#[from] QueryError),
    /// The vectors could not be read.
    #[error(transparent)]
    Vectors(#[from] FlatError),
    /// A directory could not be made or removed.
    #[error("cannot {action} {}: {source}", path.display())]
    Directory {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FieldIndexError {
    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Parameter { .. } | Self::Memory(_) => ErrorClass::FixInput,
            Self::Build(error) => error.class(),
            Self::Graph(error) => error.class(),
            Self::Search(error) => error.class(),
            Self::Vectors(error) => error.class(),
            Self::Directory { .. } => ErrorClass::Retry,
        }
    }

    /// Whether the graph asks for a checkpoint before it takes more.
    pub fn needs_checkpoint(&self) -> bool {
        matches!(self, Self::Graph(UpdateError::Full { .. } | UpdateError::Memory(_)))
    }

    /// Whether a row has an id that is too high for any graph.
    pub fn lacks_row_ids(&self) -> bool {
        matches!(self, Self::Graph(UpdateError::Row { .. }) | Self::Build(BuildError::Rows { .. }))
    }

    /// What it says, with what helps where the graph alone cannot know it.
    pub fn explained(&self) -> String {
        match self.lacks_row_ids() {
            true => format!("{self}; {NO_ROW_IDS}"),
            false => self.to_string(),
        }
    }

    /// Whether a row is so long or short beside the others that the graph has to be built again
    /// with codes of any scale.
    pub fn needs_any_scale(&self) -> bool {
        matches!(self, Self::Graph(UpdateError::Scale { .. }))
    }

    /// Whether the graph takes no changes any more until it is opened again.
    pub fn needs_opening(&self) -> bool {
        matches!(self, Self::Graph(UpdateError::Poisoned(_)))
    }

    /// Whether the files of the graph are missing or damaged, so that it has to be built again.
    pub fn needs_build(&self) -> bool {
        let Self::Graph(UpdateError::Open(error)) = self else { return false };
        match error {
            OpenError::NoIndex(_) | OpenError::Damaged(_) => true,
            OpenError::Format { source, .. } => source.class() == ErrorClass::Stop,
            OpenError::File { source, .. } => {
                let kind = source.kind();
                kind == io::ErrorKind::NotFound || kind == io::ErrorKind::UnexpectedEof
            }
            OpenError::Unread(_)
            | OpenError::Partition { .. }
            | OpenError::Memory(_)
            | OpenError::Io(_) => false,
        }
    }

    /// Whether the graph cannot be searched by this query, now or later, since something of it is
    /// damaged or cannot be read. The vectors stand apart from it.
    pub fn is_lasting_damage(&self) -> bool {
        matches!(self, Self::Search(QueryError::Search(error)) if error.is_lasting_damage())
    }

    /// For `map_err`: names the action and the directory.
    pub(super) fn directory<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Directory { action, path: path.to_owned(), source }
    }
}
