//! The room `estimate`: what an index will cost and give, told before any of its data exists.
//!
//! Counts of bytes follow from the layout and are exact but for a page or two. Recall, reads and
//! times come from a model with few coefficients (`fitted`), which were fitted to measured
//! indexes; how far off it was on sets and limits that it had not seen is told with each estimate.
//! How hard a set is cannot be known from its shape: the model answers for vectors that are about
//! as hard as those it was fitted to, descriptors of images and embeddings of sentences.

mod error;
mod fitted;
mod model;
mod shape;
#[cfg(test)]
mod tests;

pub use error::EstimateError;
pub use shape::{MemoryBytes, Shape};

use crate::build::{self, BuildOptions};
use crate::types::VectorType;
use model::CostModel;

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

/// What searches of one kind of load find and take, for 10 results each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadSpeed {
    /// Recall@10.
    pub recall: f64,
    /// Pages read from the device for a query.
    pub reads: f64,
    /// Mean latency, microseconds.
    pub mean_us: f64,
    /// Queries a second.
    pub qps: f64,
}

/// How far off the model was on indexes that it had not seen: nine in ten of them were nearer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Of recall, absolute.
    pub recall: f64,
    /// Of reads, as a share.
    pub reads: f64,
    /// Of queries a second, as a share.
    pub qps: f64,
    /// Of the latency of a search that is alone, as a share.
    pub latency: f64,
}

/// What an index is expected to cost and give.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Its layout.
    pub shape: Shape,
    /// Memory that searching takes.
    pub memory: MemoryBytes,
    /// Share of the pages that stay in memory.
    pub resident: f64,
    /// What building it costs, and its size on disk.
    pub build: build::Estimate,
    /// Length of the candidate list.
    pub list: usize,
    /// One search after the other, on one thread.
    pub idle: LoadSpeed,
    /// Eight searches in flight on each thread.
    pub busy: LoadSpeed,
    /// How far off this may be.
    pub errors: Errors,
}

/// Estimates an index.
///
/// # Errors
/// [`EstimateError`] where no index can be built so, where the limit is below the floor (with the
/// number needed), or where no list is expected to have the recall.
pub fn expect(question: &Question) -> Result<Expectation, EstimateError> {
    let Question { rows, dim, vector_type, build: options, .. } = question;
    if *rows == 0 {
        return Err(EstimateError::NoRows);
    }
    let build = build::estimate(*rows, *dim, *vector_type, options)?;
    let shape = Shape::of(*rows, *dim, *vector_type, options)?;
    let memory = shape.memory(question.limit)?;
    let resident = shape.resident_share(&memory);
    let Machine { threads, device } = question.machine;
    let device = device.unwrap_or_else(|| fitted::device(shape.page_bytes));
    let model = CostModel { shape: &shape, resident, threads: threads as f64, device };
    let list = match question.effort {
        Effort::List(list) if fitted::LISTS.contains(&list) => list,
        Effort::List(list) => return Err(EstimateError::List { list, known: fitted::LISTS }),
        Effort::Recall(recall) => model.list_for(recall)?,
    };
    let (idle, busy) = (model.idle(list), model.busy(list));
    Ok(Expectation { shape, memory, resident, build, list, idle, busy, errors: fitted::ERRORS })
}
