//! What a search took, and by which ways its rows were found: for EXPLAIN and for measuring.

use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_engine::search::SearchStats;

/// Sums over the queries of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCosts {
    /// Times that a graph was walked to the end.
    pub walked: u64,
    /// Times that all rows of a graph that match were ranked by their codes.
    pub ranked: u64,
    /// Times that a walk met so few rows that match that it was changed to the other.
    pub changed: u64,
    /// Times that rows were compared with a query one by one: those that wait to enter a graph, all
    /// where there is none, and those of a moment that a graph does not show any more.
    pub compared: u64,
    /// Pages of graphs that were read.
    pub pages_read: u64,
    /// Pages of graphs that were in memory.
    pub pages_resident: u64,
    /// Distances estimated from codes.
    pub code_distances: u64,
    /// Exact distances of rows in graphs.
    pub exact_distances: u64,
}

/// Costs that several threads add to.
#[derive(Debug, Default)]
pub(in crate::collection) struct CostCounters([AtomicU64; 8]);

impl CostCounters {
    fn add(&self, costs: [u64; 8]) {
        for (sum, more) in self.0.iter().zip(costs) {
            sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Adds a search of a graph.
    pub(in crate::collection) fn add_graph(&self, stats: &SearchStats) {
        let changed = stats.codes_ranked > 0 && stats.hops > 0 || stats.in_vain > 0;
        let ranked = stats.codes_ranked > 0 && !changed;
        self.add([
            u64::from(!changed && !ranked),
            ranked.into(),
            changed.into(),
            0,
            stats.reads,
            stats.resident_pages,
            stats.code_distances,
            stats.exact_distances,
        ]);
    }

    /// Adds queries whose rows were compared one by one.
    pub(in crate::collection) fn add_compared(&self, queries: usize) {
        self.add([0, 0, 0, queries as u64, 0, 0, 0, 0]);
    }

    pub(in crate::collection) fn sum(&self) -> SearchCosts {
        let [walked, ranked, changed, compared, pages_read, pages_resident, codes, exact] =
            std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed));
        SearchCosts {
            walked,
            ranked,
            changed,
            compared,
            pages_read,
            pages_resident,
            code_distances: codes,
            exact_distances: exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_of_graphs_are_told_apart() {
        let costs = CostCounters::default();
        let walk = SearchStats { hops: 5, reads: 4, code_distances: 9, ..Default::default() };
        costs.add_graph(&walk);
        costs.add_graph(&SearchStats { codes_ranked: 9, ..Default::default() });
        costs.add_graph(&SearchStats { codes_ranked: 9, resident_pages: 2, ..walk });
        costs.add_graph(&SearchStats { in_vain: 1, ..walk });
        costs.add_compared(3);
        let expected = SearchCosts {
            walked: 1,
            ranked: 1,
            changed: 2,
            compared: 3,
            pages_read: 12,
            pages_resident: 2,
            code_distances: 27,
            exact_distances: 0,
        };
        assert_eq!(costs.sum(), expected);
    }
}
