//! What is answered: the layout of an index, its memory, and how its searches do.

use super::shape::{MemoryBytes, Shape};
use crate::build;

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
