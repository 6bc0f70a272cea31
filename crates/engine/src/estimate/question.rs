//! What is asked: an index, the memory and the effort of its searches, and what they run on.

use crate::build::BuildOptions;
use crate::types::VectorType;

/// Memory that searches will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The least that the index opens with.
    Floor,
    /// So many bytes.
    Bytes(u64),
    /// All pages in memory.
    All,
}

/// How much a search does, of which its recall follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    /// Length of the candidate list.
    List(usize),
    /// Recall@10 among many searches, by the shortest list that is expected to have it.
    Recall(f64),
}

/// What random reads of an index's pages take, as `pipeann raw` measures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// Time of one read alone, microseconds.
    pub read_us: f64,
    /// Reads a second, many in flight.
    pub reads_per_s: f64,
}

/// What searches will run on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Threads that search when the index is busy.
    pub threads: usize,
    /// The device; `None` for the one that the model was fitted on.
    pub device: Option<DeviceSpeed>,
}

/// What is to be estimated.
#[derive(Clone, Debug)]
pub struct Question {
    /// Rows.
    pub rows: u64,
    /// Components of a vector.
    pub dim: usize,
    /// Their type.
    pub vector_type: VectorType,
    /// How the index will be built.
    pub build: BuildOptions,
    /// Memory for searching.
    pub limit: Limit,
    /// How much a search does.
    pub effort: Effort,
    /// What it runs on.
    pub machine: Machine,
}
