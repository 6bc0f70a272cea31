//! Why a build was not made.

use std::io;
use std::path::{Path, PathBuf};

use super::progress::Cancelled;
use crate::format::{DiskannError, FormatError, LayoutError};
use crate::quant::CodeKind;
use crate::types::{ErrorClass, Metric, VectorType};

/// Why a build was not made. Nothing is left behind in any of these cases.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No rows.
    #[error("the input has no vectors; an index needs at least one")]
    Empty,
    /// A metric that vectors of the type are not compared by.
    #[error(
        "{ty} vectors are not compared by {metric}; binary ones are by hamming and jaccard, all others by l2, ip and cosine"
    )]
    Metric {
        /// Type of the vectors.
        ty: VectorType,
        /// The metric asked for.
        metric: Metric,
    },
    /// A component is NaN or infinite.
    #[error("row {row} has a component that is not finite ({value})")]
    NotFinite {
        /// Position in the input.
        row: u64,
        /// What was found.
        value: f32,
    },
    /// A vector too long for distances in f32.
    #[error(
        "row {row} has a squared norm of {squared_norm:e}; distances are computed in f32, which holds {:e} at most",
        f32::MAX
    )]
    Norm {
        /// Position in the input.
        row: u64,
        /// Sum of the squares of its components.
        squared_norm: f64,
    },
    /// More rows than a graph in memory numbers.
    #[error("{rows} rows are more than one build can link (4294967294)")]
    TooManyRows {
        /// Rows of the input.
        rows: u64,
    },
    /// Row ids that cannot be stored.
    #[error("row id {row}: {why}")]
    Rows {
        /// The first one that is wrong.
        row: u64,
        /// What it must be.
        why: &'static str,
    },
    /// An option out of its range.
    #[error("option {option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What it must be.
        why: &'static str,
    },
    /// Codes of a length that their kind does not have.
    #[error("{kind} codes of {dim} components have {least} to {most} bytes, not {asked}")]
    CodeBytes {
        /// What the codes are made of.
        kind: CodeKind,
        /// Components of a vector.
        dim: usize,
        /// Length asked for.
        asked: usize,
        /// The shortest.
        least: usize,
        /// The longest.
        most: usize,
    },
    /// Records of this shape cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The directory holds an index, and nothing was said about replacing it.
    #[error("{} already holds an index", dir.display())]
    Exists {
        /// The directory asked for.
        dir: PathBuf,
    },
    /// The path holds something that is no index; it is never replaced.
    #[error("{} is not empty and holds no index", dir.display())]
    Occupied {
        /// The path asked for.
        dir: PathBuf,
    },
    /// A file system is mounted at the directory, so that no rename puts an index there.
    #[error(
        "{} is where a file system is mounted, and cannot become an index itself; name a directory inside it",
        dir.display()
    )]
    MountPoint {
        /// The directory asked for.
        dir: PathBuf,
    },
    /// Something that is not of the index lies in its directory, and would go with it.
    #[error("{} is no part of the index in {}: move it elsewhere before the index is replaced", path.display(), dir.display())]
    Stranger {
        /// The directory of the index.
        dir: PathBuf,
        /// What lies there.
        path: PathBuf,
    },
    /// The disk is too small.
    #[error("no space for the index in {}: {needed} bytes needed, {available} free", dir.display())]
    NoSpace {
        /// Where the index would have stood.
        dir: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// The memory limit leaves too little to work with.
    #[error("the memory limit of {limit} bytes is too small for this build, which needs {needed}")]
    MemoryLimit {
        /// The limit, bytes.
        limit: u64,
        /// The smallest that would do, bytes.
        needed: u64,
    },
    /// The memory that searches will have is too little for them.
    #[error(
        "{limit} bytes of memory are too little for searches of this index, which need {needed} even with the shortest codes"
    )]
    SearchMemory {
        /// The memory that they were to have, bytes.
        limit: u64,
        /// The least that would do, bytes.
        needed: u64,
    },
    /// A row of the input cannot be read.
    #[error("row {row} and those behind it cannot be read")]
    Source {
        /// The first of the rows that were asked for.
        row: u64,
        /// What the system said.
        source: io::Error,
    },
    /// An index of DiskANN that cannot be imported.
    #[error("cannot import {}: {problem}", path.display())]
    Diskann {
        /// The file that tells so.
        path: PathBuf,
        /// What is wrong with it.
        problem: DiskannError,
    },
    /// Stopped at the caller's wish.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What was built is not valid; a defect.
    #[error("the built index is not valid")]
    Format(#[from] FormatError),
}

impl BuildError {
    /// What helps against it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled(_) | Self::NoSpace { .. } | Self::Io { .. } | Self::Source { .. } => {
                ErrorClass::Retry
            }
            Self::Format(_) => ErrorClass::Stop,
            _ => ErrorClass::FixInput,
        }
    }

    /// For `map_err`: names the action and the file.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
