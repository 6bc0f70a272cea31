//! One query in flight after the other, each latency noted: alone for a while, or beside a load
//! for as long as that lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use pipeann_cli::measure::{Latency, rounded};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::VectorSet;
use pipeann_engine::update::LiveIndex;
use serde_json::{Value, json};

/// Searches that one thread makes, one after the other.
#[derive(Clone)]
pub(crate) struct Beside<'a> {
    /// The index.
    pub(crate) index: &'a LiveIndex,
    /// Asked in turn, again from the first after the last.
    pub(crate) queries: VectorSet<'a>,
    /// How.
    pub(crate) params: SearchParams,
}

/// Latencies of some searches.
#[derive(Clone, Debug, Default)]
pub(crate) struct BesideLatencies {
    times_ns: Vec<u64>,
    reads: u64,
}

/// How long a search takes at the beginning is not counted: buffers are made then.
const WARM_UP: usize = 64;

impl Beside<'_> {
    /// Searches for so long.
    ///
    /// # Errors
    /// What a search fails at.
    pub(crate) fn alone(&self, length: Duration) -> Result<BesideLatencies> {
        for i in 0..WARM_UP {
            self.index.search(self.queries.row(i % self.queries.rows()), &self.params, None)?;
        }
        let until = Instant::now() + length;
        self.searches(|| Instant::now() < until)
    }

    /// Searches until `ended` is set.
    ///
    /// # Errors
    /// As [`alone`](Self::alone).
    pub(crate) fn until(&self, ended: &AtomicBool) -> Result<BesideLatencies> {
        self.searches(|| !ended.load(Ordering::Relaxed))
    }

    fn searches(&self, more: impl Fn() -> bool) -> Result<BesideLatencies> {
        let mut searched = BesideLatencies::default();
        for i in (0..self.queries.rows()).cycle() {
            if !more() {
                break;
            }
            let begun = Instant::now();
            let answer = self.index.search(self.queries.row(i), &self.params, None)?;
            searched.times_ns.push(begun.elapsed().as_nanos() as u64);
            searched.reads += answer.stats.reads;
        }
        Ok(searched)
    }
}

impl BesideLatencies {
    /// Both together.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.times_ns.extend(other.times_ns);
        self.reads += other.reads;
        self
    }

    /// The figures under the names that scripts know.
    pub(crate) fn json(&self) -> Value {
        let latency = Latency::of(&mut self.times_ns.clone());
        let count = self.times_ns.len().max(1) as f64;
        json!({
            "queries": self.times_ns.len(), "mean_us": rounded(latency.mean_us, 2),
            "p50_us": rounded(latency.p50_us, 2), "p99_us": rounded(latency.p99_us, 2),
            "reads": rounded(self.reads as f64 / count, 3),
        })
    }

    /// Mean and 99th percentile in words.
    pub(crate) fn words(&self) -> String {
        let latency = Latency::of(&mut self.times_ns.clone());
        format!(
            "mean {:.0} us, p99 {:.0} us over {} queries",
            latency.mean_us,
            latency.p99_us,
            self.times_ns.len()
        )
    }
}
