//! The model: recall, reads and times by the list, the shape, the share of resident pages and the
//! device. `bench/harness/estimator.py` fits its coefficients to measured cases with these terms.
//!
//! - What is lost, `1 - recall`, and the pages that a search looks at are products of powers: of
//!   the list, of the logarithm of the rows, of the records in a page, and of the components of a
//!   vector, which stand for how hard it is: nothing else of that is known beforehand.
//! - Codes of other lengths change how many pages are read at equal recall, so a list stands for
//!   the recall that codes of the usual length have with it.
//! - Of the pages looked at a share is resident, which is larger than the share of all pages that
//!   is: pages that many searches look at come into memory first.
//! - Among many searches computing and reading add up to the time between two answers: a thread
//!   does the one or the other. One that is alone waits for its beginning and, less than once
//!   for each read, for its pipeline.
//! - Where every page is in memory, time is a product of powers too.

use super::fitted::{self, FittedLoad};
use super::{DeviceSpeed, EstimateError, LoadSpeed, Shape};

/// The terms of a shape, a share of resident pages, threads and a device.
pub(super) struct CostModel<'a> {
    pub(super) shape: &'a Shape,
    pub(super) resident: f64,
    pub(super) threads: f64,
    pub(super) device: DeviceSpeed,
}

/// Sums coefficients times terms.
fn sum<const N: usize>(coefficients: [f64; N], terms: [f64; N]) -> f64 {
    coefficients.iter().zip(terms).map(|(c, t)| c * t).sum()
}

impl CostModel<'_> {
    /// The terms of a product of powers, as logarithms relative to a list of 25, a million rows
    /// and what `records` and `shape` are relative to.
    fn terms(&self, list: usize, records: f64, shape: f64) -> [f64; 9] {
        let l = (list as f64 / 25.0).ln();
        let n = ((self.shape.rows as f64).max(16.0).ln() / 1e6_f64.ln()).ln();
        [1.0, l, l * l, n, l * n, records, l * records, shape, l * shape]
    }

    fn in_memory(&self) -> bool {
        self.resident >= 1.0
    }

    /// The terms of searches that read pages.
    fn page_terms(&self, list: usize) -> [f64; 9] {
        self.terms(list, (self.shape.records_per_page as f64 / 12.0).ln(), self.dim())
    }

    fn dim(&self) -> f64 {
        (self.shape.dim as f64 / 128.0).ln()
    }

    fn recall(&self, load: &FittedLoad, list: usize) -> f64 {
        let lost = if self.in_memory() {
            sum(fitted::IN_MEMORY.lost, self.terms(list, 0.0, self.dim()))
        } else {
            sum(load.lost, self.page_terms(list))
        };
        1.0 - lost.exp().min(1.0)
    }

    /// Pages that a search looks at, resident ones included.
    fn pages(&self, load: &FittedLoad, list: usize) -> f64 {
        let codes = fitted::PAGES_BY_CODES * self.shape.code_length.ln();
        (sum(load.pages, self.page_terms(list)) + codes).exp()
    }

    /// Pages that a search reads.
    fn reads(&self, load: &FittedLoad, list: usize) -> f64 {
        if self.in_memory() {
            return 0.0;
        }
        self.pages(load, list) * (1.0 - self.resident).powf(fitted::HITS_BY_RESIDENT)
    }

    fn cpu_us(&self, load: &FittedLoad, list: usize) -> f64 {
        let (pages, reads) = (self.pages(load, list), self.reads(load, list));
        let page_kib = (self.shape.records_per_page * self.shape.vector_bytes) as f64 / 1024.0;
        sum(fitted::CPU_US, [1.0, pages, pages * page_kib, reads])
    }

    /// CPU of a search where everything is in memory.
    fn cpu_in_memory_us(&self, list: usize) -> f64 {
        let vector = (self.shape.vector_bytes as f64 / 128.0).ln();
        sum(fitted::IN_MEMORY.cpu_us, self.terms(list, 0.0, vector)).exp()
    }

    /// One search after the other.
    pub(super) fn idle(&self, list: usize) -> LoadSpeed {
        let load = &fitted::IDLE;
        let mean_us = if self.in_memory() {
            self.cpu_in_memory_us(list)
        } else {
            let (reads, read_us) = (self.reads(load, list), self.device.read_us);
            sum(fitted::IDLE_US, [read_us, reads * read_us, self.cpu_us(load, list)])
        };
        self.speed(load, list, mean_us, 1.0)
    }

    /// Eight searches in flight on each thread.
    pub(super) fn busy(&self, list: usize) -> LoadSpeed {
        let load = &fitted::BUSY;
        let spacing_us = if self.in_memory() {
            fitted::IN_MEMORY.busy * self.cpu_in_memory_us(list) / self.threads
        } else {
            let reading = self.reads(load, list) / self.device.reads_per_s * 1e6;
            fitted::BUSY_US * (self.cpu_us(load, list) / self.threads + reading)
        };
        let in_flight = self.threads * fitted::BUSY_IN_FLIGHT;
        self.speed(load, list, spacing_us * in_flight, in_flight)
    }

    fn speed(&self, load: &FittedLoad, list: usize, mean_us: f64, in_flight: f64) -> LoadSpeed {
        let (recall, reads) = (self.recall(load, list), self.reads(load, list));
        LoadSpeed { recall, reads, mean_us, qps: in_flight * 1e6 / mean_us }
    }

    /// The shortest list that is expected to have the recall when the index is busy.
    pub(super) fn list_for(&self, recall: f64) -> Result<usize, EstimateError> {
        let of = |list| self.recall(&fitted::BUSY, list);
        let longest = *fitted::LISTS.end();
        let found = fitted::LISTS.into_iter().find(|&list| of(list) >= recall);
        found.ok_or_else(|| EstimateError::Recall { recall, longest, most: of(longest) })
    }
}
