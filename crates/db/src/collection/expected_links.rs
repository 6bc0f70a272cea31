//! Which pending rows of a field are linked here, where the server that leads links them as well and
//! tells how.

use std::sync::{Mutex, MutexGuard, PoisonError};

use roaring::RoaringTreemap;

use crate::ids::RowId;

/// See the module's description. Until somebody says that links are to be expected, none are.
#[derive(Default)]
pub(super) struct ExpectedLinks(Mutex<Option<RoaringTreemap>>);

impl ExpectedLinks {
    /// The rows that are linked here all the same; `None` where all are.
    fn linked_here(&self) -> MutexGuard<'_, Option<RoaringTreemap>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Links come from now on, or come no more. Says whether that is new.
    pub(super) fn set(&self, come: bool) -> bool {
        let mut here = self.linked_here();
        let is_new = here.is_some() != come;
        if is_new {
            *here = come.then(RoaringTreemap::new);
        }
        is_new
    }

    /// No links come for these rows.
    pub(super) fn link_here(&self, rows: impl IntoIterator<Item = RowId>) {
        if let Some(here) = &mut *self.linked_here() {
            here.extend(rows.into_iter().map(|row| row.0));
        }
    }

    /// The first of the pending rows that are linked here.
    pub(super) fn to_link(&self, pending: &RoaringTreemap, most: usize) -> Vec<RowId> {
        match &mut *self.linked_here() {
            None => pending.iter().take(most).map(RowId).collect(),
            Some(here) => {
                *here &= pending;
                here.iter().take(most).map(RowId).collect()
            }
        }
    }

    /// The first of the pending rows whose links are to come from elsewhere, if any are to.
    pub(super) fn to_ask_for(&self, pending: &RoaringTreemap, most: usize) -> Vec<RowId> {
        let here = self.linked_here();
        let is_here = |row: &u64| here.as_ref().is_some_and(|here| here.contains(*row));
        pending.iter().filter(|row| !is_here(row)).take(most).map(RowId).collect()
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
}
