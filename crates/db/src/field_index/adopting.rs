//! Links between servers that each have a graph of the same rows: one searches for the neighbours of
//! new rows and keeps its links for a while; the others take them over.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use pipeann_engine::memory::{Accountant, Pool, Reservation};
use pipeann_engine::update::{RowLink, UpdateError};
use rustc_hash::FxBuildHasher;

use super::{FieldIndex, FieldIndexError};
use crate::ids::RowId;

/// Links that are kept, the newest ones: some seconds of inserts.
const KEPT: usize = 8_192;
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
    fn add(&mut self, link: RowLink) {
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

    fn get(&self, row: RowId) -> Option<LinkOf> {
        let &order = self.of_row.get(&row)?;
        let link = self.links.get((order - self.first) as usize)?.clone();
        Some(LinkOf::Made { order, link })
    }
}

impl FieldIndex {
    /// Keeps the links that are made from now on, for [`links_of`](Self::links_of); not where memory
    /// leaves no room for them.
    pub fn keep_links(&self, accountant: &Arc<Accountant>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none()
            && let Ok(memory) = accountant.reserve(Pool::Pending, KEPT as u64 * LINK_BYTES)
        {
            let first = self.links_kept.load(Ordering::Relaxed);
            let (links, of_row) = (VecDeque::new(), HashMap::default());
            *kept = Some(KeptLinks { links, first, of_row, is_used: true, _memory: memory });
        }
    }

    /// Keeps a link, before its row ceases to be pending.
    pub(super) fn keep_link(&self, link: impl FnOnce() -> RowLink) {
        if let Some(kept) = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner) {
            kept.add(link());
            self.links_kept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps no links any more where none was made since the last call; says whether it did so.
    pub(super) fn drop_kept_links(&self) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = kept.as_mut().is_some_and(|kept| !std::mem::take(&mut kept.is_used));
        if unused {
            *kept = None;
        }
        unused
    }

    /// How these rows were linked, in their order, as far as that is kept.
    pub fn links_of(&self, rows: &[RowId]) -> Vec<LinkOf> {
        // Looked at first: whatever has ceased to wait by now is kept.
        let pending = self.pending();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |&row: &RowId| {
            let made = kept.as_ref().and_then(|kept| kept.get(row));
            let waits = || pending.contains(row.0).then_some(LinkOf::Waits);
            made.or_else(waits).unwrap_or(LinkOf::Unknown)
        };
        rows.iter().map(of).collect()
    }

    /// Links pending rows, which are pending no more then, by links of another server, in the order
    /// in which that one has made them. Answers with the rows that are to be
    /// [linked](Self::link) here: most of their neighbours are not in this graph, or it takes no more
    /// before a checkpoint.
    ///
    /// # Errors
    /// [`FieldIndexError::Graph`]: the graph takes no changes at all.
    pub fn adopt(&self, links: &[(&RowLink, &[u8])]) -> Result<Vec<RowId>, FieldIndexError> {
        let mut left = Vec::new();
        let called = self.graph.adopt(links, &mut |nth, outcome| {
            let row = links[nth].0.row;
            match outcome {
                Ok(true) | Err(UpdateError::RowExists(_) | UpdateError::Vector(_)) => {
                    self.forget(row);
                }
                // Whoever links it here sees the same error, and what is to be done.
                Ok(false) | Err(_) => left.push(row),
            }
        });
        self.noted(called).map(|()| left)
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
        let memory = accountant.reserve(Pool::Pending, 1).unwrap();
        let (links, of_row) = (VecDeque::new(), HashMap::default());
        let mut kept = KeptLinks { links, first: 7, of_row, is_used: false, _memory: memory };
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
    }
}
