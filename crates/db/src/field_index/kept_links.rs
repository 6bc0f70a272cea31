//! The newest links of a graph, kept for other servers that have the same rows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pipeann_engine::memory::{Accountant, Pool, Reservation};
use pipeann_engine::update::RowLink;
use rustc_hash::FxBuildHasher;

use crate::ids::RowId;

/// Links that are kept, the newest ones: some seconds of inserts.
const KEPT: usize = 4_096;
/// With all changes that are not on disk they take one part in so many of a memory limit, at most.
const SHARE_OF_LIMIT: u64 = 16;
/// What a link takes at most where nodes have 64 edges, which is what is accounted for.
const LINK_BYTES: u64 = 1_024;

/// What is known of how a row was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkOf {
    /// So.
    Made {
        /// Counts up with the links that were made.
        order: u64,
        /// Its edges.
        link: RowLink,
    },
    /// It waits to be linked.
    Waits,
    /// It is not told: the row was linked too long ago, or is not known.
    Unknown,
}

/// The newest links of a graph.
#[derive(Debug)]
pub(super) struct KeptLinks {
    links: VecDeque<RowLink>,
    /// The order of the first of them.
    first: u64,
    /// The order of the link of a row.
    of_row: HashMap<RowId, u64, FxBuildHasher>,
    /// Whether any was added since the last look.
    is_used: bool,
    _memory: Reservation,
}

impl KeptLinks {
    /// None yet, after so many that were kept before; nothing where they would take more than a small
    /// part of a memory limit: many collections may be written, and who asks can do without.
    pub(super) fn after(first: u64, accountant: &Arc<Accountant>) -> Option<Self> {
        let bytes = KEPT as u64 * LINK_BYTES;
        let all = accountant.pool_bytes(Pool::Pending) + bytes;
        if accountant.limit_bytes().is_some_and(|limit| all > limit / SHARE_OF_LIMIT) {
            return None;
        }
        let memory = accountant.reserve(Pool::Pending, bytes).ok()?;
        let (links, of_row) = (VecDeque::new(), HashMap::default());
        Some(Self { links, first, of_row, is_used: true, _memory: memory })
    }

    pub(super) fn add(&mut self, link: RowLink) {
        if self.links.len() == KEPT
            && let Some(oldest) = self.links.pop_front()
        {
            if self.of_row.get(&oldest.row) == Some(&self.first) {
                self.of_row.remove(&oldest.row);
            }
            self.first += 1;
        }
        self.of_row.insert(link.row, self.first + self.links.len() as u64);
        self.links.push_back(link);
        self.is_used = true;
    }

    /// How a row was linked, if that is kept.
    pub(super) fn get(&self, row: RowId) -> Option<LinkOf> {
        let &order = self.of_row.get(&row)?;
        let link = self.links.get((order - self.first) as usize)?.clone();
        Some(LinkOf::Made { order, link })
    }

    /// Whether none was added since the last call.
    pub(super) fn rests(&mut self) -> bool {
        !std::mem::take(&mut self.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(row: u64) -> RowLink {
        RowLink { row: RowId(row), neighbours: vec![RowId(row + 1)], back_edges: vec![] }
    }

    #[test]
    fn the_newest_links_are_kept_and_told_in_their_order() {
        let accountant = Accountant::new(None);
        let mut kept = KeptLinks::after(7, &accountant).unwrap();
        assert!(accountant.held_bytes() > 0);
        let all = KEPT as u64 + 3;
        (0..all).for_each(|row| kept.add(link(row)));
        // Linked again, as after a build.
        kept.add(link(all - 1));
        assert_eq!(
            (kept.get(RowId(0)), kept.get(RowId(3)), kept.get(RowId(all))),
            (None, None, None)
        );
        let made = |order, row| Some(LinkOf::Made { order, link: link(row) });
        assert_eq!(kept.get(RowId(4)), made(7 + 4, 4));
        assert_eq!(kept.get(RowId(all - 1)), made(7 + all, all - 1));
        assert_eq!((kept.links.len(), kept.of_row.len()), (KEPT, KEPT - 1));
        assert!(!kept.rests() && kept.rests());
        let limited = Accountant::new(Some(256 << 20));
        let all: Vec<_> =
            std::iter::from_fn(|| KeptLinks::after(0, &limited)).take(1_000).collect();
        assert!(!all.is_empty() && limited.held_bytes() <= 16 << 20, "others have room");
    }
}
