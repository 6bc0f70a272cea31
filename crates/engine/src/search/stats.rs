//! What a query cost. Counts are kept by the state machine, times by the driver.

use std::ops::AddAssign;

/// Counts and times of one query, or sums over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Page reads asked for, resident pages not counted.
    pub reads: u64,
    /// Of those, reads served by another query's read of the same page.
    pub reads_shared: u64,
    /// Reads whose node had left the candidate list when they finished.
    pub reads_wasted: u64,
    /// Pages borrowed from memory instead of read.
    pub resident_pages: u64,
    /// Bytes of the reads.
    pub bytes_read: u64,
    /// Nodes whose neighbours were scored.
    pub hops: u64,
    /// Distances estimated from codes.
    pub code_distances: u64,
    /// Of those, codes that were ranked since their nodes are allowed, without meeting them.
    pub codes_ranked: u64,
    /// 1 for a search among rows that are tested where few of those near the query passed: others
    /// may be nearer than those found.
    pub in_vain: u64,
    /// 1 for a search within a range that found fewer than `k` rows though its list was too short for
    /// all candidates: there may be more within.
    pub cut_short: u64,
    /// Exact distances.
    pub exact_distances: u64,
    /// Times that it went on elsewhere, from a state that was imported.
    pub moves: u64,
    /// Widest the pipeline has been, reads.
    pub width_max: u64,
    /// Time from start until the first page was asked for, nanoseconds.
    pub first_read_ns: u64,
    /// Time spent computing for this query, nanoseconds.
    pub compute_ns: u64,
    /// Time from start to answer, nanoseconds.
    pub latency_ns: u64,
}

impl SearchStats {
    /// Time that was not spent computing for this query, nanoseconds.
    pub fn wait_ns(&self) -> u64 {
        self.latency_ns.saturating_sub(self.compute_ns)
    }
}

impl AddAssign for SearchStats {
    fn add_assign(&mut self, o: Self) {
        self.reads += o.reads;
        self.reads_shared += o.reads_shared;
        self.reads_wasted += o.reads_wasted;
        self.resident_pages += o.resident_pages;
        self.bytes_read += o.bytes_read;
        self.hops += o.hops;
        self.code_distances += o.code_distances;
        self.codes_ranked += o.codes_ranked;
        self.in_vain += o.in_vain;
        self.cut_short += o.cut_short;
        self.exact_distances += o.exact_distances;
        self.moves += o.moves;
        self.width_max = self.width_max.max(o.width_max);
        self.first_read_ns += o.first_read_ns;
        self.compute_ns += o.compute_ns;
        self.latency_ns += o.latency_ns;
    }
}
