//! The coefficients of the model.
//!
//! `bench/fit-estimate` prints the numbers: least squares over one million SIFT descriptors
//! (u8 x 128: 62,500, 250,000 and 1,000,000 of them) and 120,000 embeddings of sentences
//! (f32 x 384: 15,000 and 60,000), also in pages of 16 and 4 KiB, R=64 and L=96 of the build, lists of 12 to 64, on two cores
//! with AVX-512 and a virtio SSD.

use std::ops::RangeInclusive;

use super::{DeviceSpeed, Errors};

/// Lists for which the model holds: those that were measured, and a little beyond.
pub(super) const LISTS: RangeInclusive<usize> = 10..=80;

/// Coefficients of a product of powers, as logarithms: constant, list, list squared, rows, list by
/// rows, records, list by records, shape, list by shape.
type Powers = [f64; 9];

/// What searches of a kind of load find and look at.
pub(super) struct FittedLoad {
    /// What is lost.
    pub(super) lost: Powers,
    /// The pages looked at.
    pub(super) pages: Powers,
}

/// What searches find and take where every page is in memory.
pub(super) struct InMemory {
    /// What is lost.
    pub(super) lost: Powers,
    /// Microseconds of a search.
    pub(super) cpu_us: Powers,
    /// Of a search on each thread over one alone.
    pub(super) busy: f64,
}

/// One search after the other, on one thread.
pub(super) const IDLE: FittedLoad = FittedLoad {
    lost: [-3.5362, -2.0918, -0.6131, 4.1540, 2.8305, -0.3123, -0.1253, 0.5725, 0.1290],
    pages: [3.1588, 0.5871, 0.2056, 0.6686, 0.5990, -0.1931, -0.0455, 0.2089, 0.4888],
};

/// Eight searches in flight on each of two threads.
pub(super) const BUSY: FittedLoad = FittedLoad {
    lost: [-3.5505, -2.0658, -0.5854, 4.0937, 2.8696, -0.3454, -0.1828, 0.4941, 0.0712],
    pages: [3.1654, 0.5747, 0.2081, 0.6945, 0.5617, -0.1899, -0.0473, 0.2224, 0.4756],
};

/// Microseconds that a search computes among others: constant, for a page, for each KiB of its
/// vectors, for a read. One that is alone looks for its reads meanwhile, which takes CPU as well, but
/// no time.
pub(super) const CPU_US: [f64; 4] = [25.9882, 6.3905, 0.0012, 0.9446];

/// Where every page is in memory; records have no part there.
pub(super) const IN_MEMORY: InMemory = InMemory {
    lost: [-4.0589, -1.8830, -0.1750, 6.2380, 1.9469, 0.0, 0.0, 1.0285, 0.8016],
    cpu_us: [4.7487, 0.7152, 0.0385, 1.9717, -0.0284, 0.0, 0.0, 0.2688, -0.0010],
    busy: 1.0539,
};

/// How fast the share of pages that are read falls with that of the pages that are not resident,
/// where half of them are, the ones that searches use most. To be fitted again whenever what stays in
/// memory changes.
pub(super) const HITS_BY_RESIDENT: f64 = 1.8753;

/// Reads at equal recall by the length of codes over the usual one: twice as long ones spare 27% on
/// SIFT and 31% on embeddings (docs/decisions/0025-kinds-of-codes.md).
pub(super) const PAGES_BY_CODES: f64 = -0.5;

/// What the latency of a search alone adds up to: reads alone, reads, and computing.
pub(super) const IDLE_US: [f64; 3] = [0.7938, 0.2091, 0.4461];

/// Of computing and reading: what passes between two answers of a busy index.
pub(super) const BUSY_US: f64 = 0.8590;

/// Searches in flight on each thread of a busy index.
pub(super) const BUSY_IN_FLIGHT: f64 = 8.0;

/// Nine in ten cases that were not fitted were nearer: other numbers of rows of the two sets, and
/// 100,000 rows of a made one (f32 x 256), with none, a quarter, three quarters and all of the pages in
/// memory. Reads are off that much where few are left; SIFT alone: recall 0.003, QPS 0.25.
pub(super) const ERRORS: Errors = Errors { recall: 0.01, reads: 1.23, qps: 0.39, latency: 0.36 };

/// Random reads of pages of so many bytes on the device of the fit.
pub(super) fn device(page_bytes: usize) -> DeviceSpeed {
    let more_us = page_bytes.saturating_sub(4096) as f64 / BYTES_PER_S * 1e6;
    DeviceSpeed {
        read_us: READ_US + more_us,
        reads_per_s: READS_PER_S.min(BYTES_PER_S / page_bytes as f64),
    }
}

/// Microseconds of a read of 4 KiB alone.
const READ_US: f64 = 65.0;
/// Reads of 4 KiB a second, 64 in flight.
const READS_PER_S: f64 = 115_000.0;
/// What reads of larger pages are bound by: 86,000 reads a second of 12 KiB.
const BYTES_PER_S: f64 = 1.05e9;
