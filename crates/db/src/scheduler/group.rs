//! Which searches are done together.

use super::alike::are_alike;
use super::waiting::WaitingSearch;

/// Queries of searches that are done together; a search with more of them is done alone.
pub const MOST_QUERIES: usize = 200;
/// How far the `k` of searches that are done together may be apart.
pub const MOST_K_APART: usize = 200;

/// What searches that are done together add up to.
pub(super) struct Group {
    queries: usize,
    least_k: usize,
    most_k: usize,
}

impl Group {
    /// One search.
    pub(super) fn of(first: &WaitingSearch) -> Self {
        let k = first.request.k;
        Self { queries: first.queries, least_k: k, most_k: k }
    }

    pub(super) fn is_full(&self) -> bool {
        self.queries >= MOST_QUERIES
    }

    /// Takes another search in, if it can be done together with the first and all others.
    pub(super) fn takes(&mut self, first: &WaitingSearch, other: &WaitingSearch) -> bool {
        let k = other.request.k;
        let (least_k, most_k) = (self.least_k.min(k), self.most_k.max(k));
        let fits = self.queries + other.queries <= MOST_QUERIES
            && most_k - least_k <= MOST_K_APART
            && first.batch_key == other.batch_key
            && are_alike(&first.request, &other.request);
        if fits {
            *self = Self { queries: self.queries + other.queries, least_k, most_k };
        }
        fits
    }
}
