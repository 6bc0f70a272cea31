//! What a page read costs in codes, learnt from the searches themselves.
//!
//! The choice between ranking all allowed nodes by code and walking the graph depends on the
//! machine, on its load, and on how much of the index is resident. So each search that ends notes
//! what it took: one that walked, its time for a page; one that ranked many codes, its time for a
//! code. Means that forget follow the load within some ten searches.

use std::sync::atomic::{AtomicU32, Ordering};

use super::stats::SearchStats;

/// The part that one search has in a mean.
const WEIGHT: f64 = 1.0 / 16.0;
/// Codes that a search must have ranked for its time to be theirs.
const MANY_CODES: u64 = 8192;
/// Pages that a search must have taken for its time to be theirs.
const MANY_PAGES: u64 = 8;

/// See the module's description. Shared by all searches of an index.
#[derive(Debug)]
pub struct ReadCosts {
    /// Nanoseconds for a page, with the computing for it.
    page_ns: AtomicU32,
    /// Picoseconds for a code of a scan.
    code_ps: AtomicU32,
    /// Codes for a page, whatever searches take.
    given: Option<u32>,
}

impl Default for ReadCosts {
    fn default() -> Self {
        Self { page_ns: AtomicU32::new(20_000), code_ps: AtomicU32::new(8_000), given: None }
    }
}

impl ReadCosts {
    /// So many codes for a page whatever searches take, where they are given.
    pub fn new(codes_per_read: Option<u32>) -> Self {
        Self { given: codes_per_read, ..Self::default() }
    }

    /// Notes a search that ended, one of `in_flight` on its thread.
    pub fn note(&self, stats: &SearchStats, in_flight: usize) {
        let pages = stats.reads + stats.resident_pages;
        // A walk by exact distances alone takes from a page what others do not.
        let by_codes = stats.code_distances > 0;
        if by_codes && stats.codes_ranked == 0 && pages >= MANY_PAGES {
            let shared = stats.latency_ns as f64 / in_flight.max(1) as f64;
            learn(&self.page_ns, shared / pages as f64);
        } else if stats.hops == 0 && stats.codes_ranked >= MANY_CODES {
            // All are ranked before anything is read.
            let codes = stats.codes_ranked as f64;
            learn(&self.code_ps, stats.first_read_ns as f64 * 1e3 / codes);
        }
    }

    /// Codes that are ranked in the time of one page read.
    pub fn codes_per_read(&self) -> u32 {
        if let Some(given) = self.given {
            return given;
        }
        let page = f64::from(self.page_ns.load(Ordering::Relaxed)) * 1e3;
        let code = f64::from(self.code_ps.load(Ordering::Relaxed)).max(1.0);
        (page / code).clamp(100.0, 1e6) as u32
    }
}

/// A note lost between two threads does no harm.
fn learn(mean: &AtomicU32, seen: f64) {
    let old = f64::from(mean.load(Ordering::Relaxed));
    // One search that was held up says little.
    let seen = seen.clamp(old / 8.0, old * 8.0);
    mean.store((old + (seen - old) * WEIGHT).max(1.0) as u32, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_what_searches_took() {
        let costs = ReadCosts::default();
        assert_eq!(costs.codes_per_read(), 2500);
        let walk = SearchStats {
            reads: 50,
            hops: 50,
            code_distances: 2_000,
            latency_ns: 4_000_000,
            ..Default::default()
        };
        (0..100).for_each(|_| costs.note(&walk, 4));
        assert!((2_450..=2_500).contains(&costs.codes_per_read()), "20 us a page still");
        (0..100).for_each(|_| costs.note(&walk, 1));
        assert!((9_500..10_100).contains(&costs.codes_per_read()), "80 us a page");
        let codes = 100_000;
        let scan = SearchStats {
            reads: 20,
            codes_ranked: codes,
            first_read_ns: codes * 10,
            compute_ns: codes * 30,
            ..Default::default()
        };
        (0..100).for_each(|_| costs.note(&scan, 1));
        assert!((7_500..8_500).contains(&costs.codes_per_read()), "10 ns a code");
    }

    #[test]
    fn a_walk_by_exact_distances_says_nothing() {
        let costs = ReadCosts::default();
        let walk = SearchStats {
            resident_pages: 50,
            hops: 50,
            exact_distances: 2_000,
            latency_ns: 1 << 40,
            ..Default::default()
        };
        (0..100).for_each(|_| costs.note(&walk, 1));
        assert_eq!(costs.codes_per_read(), 2500);
    }

    #[test]
    fn costs_that_were_given_stay() {
        let costs = ReadCosts::new(Some(7));
        let walk = SearchStats {
            reads: 50,
            hops: 50,
            code_distances: 2_000,
            latency_ns: 1 << 40,
            ..Default::default()
        };
        costs.note(&walk, 1);
        assert_eq!(costs.codes_per_read(), 7);
    }

    #[test]
    fn short_searches_say_nothing() {
        let costs = ReadCosts::default();
        let few = SearchStats {
            reads: 7,
            hops: 7,
            code_distances: 300,
            latency_ns: 1 << 40,
            ..Default::default()
        };
        costs.note(&few, 1);
        let none = SearchStats { codes_ranked: 100, first_read_ns: 1 << 40, ..Default::default() };
        costs.note(&none, 1);
        assert_eq!(costs.codes_per_read(), 2500);
    }
}
