//! Which pending rows of a field are linked here, where the server that leads links them as well and
//! tells how; and what it has told.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pipeann_engine::update::RowLink;
use roaring::RoaringTreemap;

use crate::ids::RowId;

/// See the module's description. Until somebody says that links are to be expected, none are.
#[derive(Default)]
pub(super) struct ExpectedLinks(Mutex<Expected>);

#[derive(Default)]
struct Expected {
    come: bool,
    /// Rows that are linked here all the same.
    here: RoaringTreemap,
    /// Links that were told, and wait to be made here.
    told: Vec<(u64, RowLink)>,
}

impl ExpectedLinks {
    fn state(&self) -> MutexGuard<'_, Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Links come from now on, or come no more. Says whether that is new.
    pub(super) fn set(&self, come: bool) -> bool {
        let mut state = self.state();
        let is_new = state.come != come;
        if is_new {
            *state = Expected { come, ..Expected::default() };
        }
        is_new
    }

    /// No links come for these rows.
    pub(super) fn link_here(&self, rows: impl IntoIterator<Item = RowId>) {
        let mut state = self.state();
        if state.come {
            state.here.extend(rows.into_iter().map(|row| row.0));
        }
    }

    /// Links that have come, each with its order among those that were made.
    pub(super) fn tell(&self, links: impl IntoIterator<Item = (u64, RowLink)>) {
        let mut state = self.state();
        if state.come {
            state.told.extend(links);
        }
    }

    /// What has come since the last time, in the order in which it was made.
    pub(super) fn take_told(&self) -> Vec<RowLink> {
        let mut told = std::mem::take(&mut self.state().told);
        told.sort_by_key(|(order, _)| *order);
        told.into_iter().map(|(_, link)| link).collect()
    }

    /// The first of the pending rows that are linked here.
    pub(super) fn to_link(&self, pending: &RoaringTreemap, most: usize) -> Vec<RowId> {
        let mut state = self.state();
        if !state.come {
            return pending.iter().take(most).map(RowId).collect();
        }
        state.here &= pending;
        state.here.iter().take(most).map(RowId).collect()
    }

    /// The first of the pending rows whose links are to come from elsewhere; none while some that have
    /// come are to be made first.
    pub(super) fn to_ask_for(&self, pending: &RoaringTreemap, most: usize) -> Vec<RowId> {
        let state = self.state();
        if !state.told.is_empty() {
            return Vec::new();
        }
        let elsewhere = pending.iter().filter(|row| !state.here.contains(*row));
        elsewhere.take(most).map(RowId).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_for_their_links_while_these_come() {
        let (links, pending) = (ExpectedLinks::default(), (0..10).collect::<RoaringTreemap>());
        let rows = |some: &[u64]| some.iter().copied().map(RowId).collect::<Vec<_>>();
        links.link_here([RowId(7)]);
        assert_eq!(links.to_link(&pending, 3), rows(&[0, 1, 2]), "none are expected");
        assert_eq!(links.to_ask_for(&pending, 2), rows(&[0, 1]), "they may be asked for");
        assert!(links.set(true) && !links.set(true));
        assert_eq!(links.to_link(&pending, 3), []);
        links.link_here([RowId(1), RowId(3), RowId(70)]);
        assert_eq!(links.to_link(&pending, 9), rows(&[1, 3]));
        assert_eq!(links.to_ask_for(&pending, 4), rows(&[0, 2, 4, 5]));
        assert!(links.set(false) && !links.set(false));
        assert_eq!(links.to_link(&pending, 2), rows(&[0, 1]));
        assert!(links.set(true));
        assert_eq!(links.to_link(&pending, 9), [], "all that was said before is forgotten");
    }

    #[test]
    fn links_are_made_in_their_order_before_others_are_asked_for() {
        let (links, pending) = (ExpectedLinks::default(), (0..10).collect::<RoaringTreemap>());
        let link = |row| RowLink { row: RowId(row), ..RowLink::default() };
        links.tell([(1, link(1))]);
        assert_eq!(links.take_told(), [], "none are expected");
        links.set(true);
        links.tell([(9, link(1)), (7, link(2))]);
        links.tell([(8, link(3))]);
        assert_eq!(links.to_ask_for(&pending, 4), []);
        assert_eq!(links.take_told(), [link(2), link(3), link(1)]);
        assert_eq!(links.to_ask_for(&pending, 1), [RowId(0)]);
        links.tell([(9, link(1))]);
        links.set(false);
        links.set(true);
        assert_eq!(links.take_told(), []);
    }
}
