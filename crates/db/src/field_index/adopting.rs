//! Links between servers that each have a graph of the same rows: one searches for the neighbours of
//! new rows and keeps its links for a while; the others take them over.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use pipeann_engine::memory::Accountant;
use pipeann_engine::update::{RowLink, UpdateError};

use super::kept_links::{KeptLinks, LinkOf};
use super::{FieldIndex, FieldIndexError};
use crate::ids::RowId;

impl FieldIndex {
    /// Keeps the links that are made from now on, for [`links_of`](Self::links_of); not where memory
    /// leaves no room for them.
    pub fn keep_links(&self, accountant: &Arc<Accountant>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = KeptLinks::after(self.links_kept.load(Ordering::Relaxed), accountant);
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
        let unused = kept.as_mut().is_some_and(KeptLinks::rests);
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
