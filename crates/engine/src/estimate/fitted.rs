//! The coefficients of the model.
//!
//! `bench/fit-estimate` prints the numbers: least squares over one million SIFT descriptors
//! (u8 x 128: 62,500, 250,000 and 1,000,000 of them) and 120,000 embeddings of sentences
//! (f32 x 384: 15,000 and 60,000), also in pages of 16 and 4 KiB, R=64 and L=96 of the build, lists of 12 to 64, on two cores
//! with AVX-512 and a virtio SSD.

use std::ops::RangeInclusive;

use super::{Device, Errors};

/// Lists for which the model holds: those that were measured, and a little beyond.
pub(super) const LISTS: RangeInclusive<usize> = 10..=80;

/// Coefficients of a product of powers, as logarithms: constant, list, list squared, rows, list by
/// rows, records, list by records, shape, list by shape.
type Powers = [f64; 9];

/// What searches of a kind of load find, look at and compute.
pub(super) struct Load {
    /// What is lost.
    pub(super) lost: Powers,
    /// The pages looked at.
    pub(super) pages: Powers,
    /// Microseconds of a search: constant, for a page, for each KiB of its vectors, for a read.
    pub(super) cpu_us: [f64; 4],
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
pub(super) const IDLE: Load = Load {
    lost: [-3.5895, -2.1371, -0.5733, 3.8597, 2.2794, -0.3063, -0.0847, 0.5522, 0.0966],
    pages: [3.1692, 0.5895, 0.2002, 0.6858, 0.6133, -0.1923, -0.0462, 0.2129, 0.4959],
    cpu_us: [52.1487, 5.4673, 0.1464, 6.9058],
};

/// Eight searches in flight on each of two threads.
pub(super) const BUSY: Load = Load {
    lost: [-3.5784, -2.1302, -0.5975, 3.9891, 2.4759, -0.2856, -0.0608, 0.5727, 0.1344],
    pages: [3.1634, 0.5852, 0.2042, 0.6744, 0.6117, -0.1896, -0.0484, 0.2222, 0.4799],
    cpu_us: [33.9483, 6.0120, 0.0063, 2.7562],
};

/// Where every page is in memory; records have no part there.
pub(super) const IN_MEMORY: InMemory = InMemory {
    lost: [-4.0312, -1.8497, -0.1992, 6.3202, 2.1855, 0.0, 0.0, 1.0219, 0.8511],
    cpu_us: [4.8689, 0.7207, 0.0360, 2.7518, 0.1161, 0.0, 0.0, 0.4463, 0.0273],
    busy: 0.9838,
};

/// How fast the share of pages that are read falls with that of the pages that are not resident.
/// From 250,000 rows of SIFT at a quarter, a half and three quarters, filling included: 1.18, 1.11
/// and 0.99. To be fitted again whenever what stays in memory changes.
pub(super) const HITS_BY_RESIDENT: f64 = 1.15;

/// Reads at equal recall by the length of codes over the usual one: twice as long ones spare 27% on
/// SIFT and 31% on embeddings (docs/decisions/0025-kinds-of-codes.md).
pub(super) const PAGES_BY_CODES: f64 = -0.5;

/// What the latency of a search alone adds up to: reads alone, reads, and computing.
pub(super) const IDLE_US: [f64; 3] = [0.8395, 0.0616, 1.3839];

/// Of computing and reading: what passes between two answers of a busy index.
pub(super) const BUSY_US: f64 = 0.8857;

/// Searches in flight on each thread of a busy index.
pub(super) const BUSY_IN_FLIGHT: f64 = 8.0;

/// Nine in ten cases that were not fitted were nearer: other numbers of rows of the two sets, and
/// 100,000 rows of a made one (f32 x 256), at the floor and with all pages in memory. Without the made
/// set: recall 0.007, reads 0.12, QPS 0.25, latency 0.25.
pub(super) const ERRORS: Errors = Errors { recall: 0.01, reads: 0.40, qps: 0.41, latency: 0.35 };

/// Random reads of pages of so many bytes on the device of the fit.
pub(super) fn device(page_bytes: usize) -> Device {
    let more_us = page_bytes.saturating_sub(4096) as f64 / BYTES_PER_S * 1e6;
    Device {
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
