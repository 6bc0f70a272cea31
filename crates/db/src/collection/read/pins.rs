//! Snapshots are pinned, and told to flushes.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use roaring::RoaringTreemap;

use crate::collection::live::LiveRows;
use crate::collection::pinned_snapshot::PinnedSnapshot;
use crate::collection::{Collection, CollectionError};

impl Collection {
    /// Keeps what is visible now until all copies are dropped; the same moment where nothing has
    /// changed since the last one that is kept.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`].
    pub fn hold_moment(&self) -> Result<Arc<PinnedSnapshot>, CollectionError> {
        let entry = self.entry()?;
        // A flush that looks at live rows does it under this lock too, so that it knows all moments
        // that see more rows than it does.
        let mut held = self.held();
        held.retain(|moment| moment.strong_count() > 0);
        let shown = self.unexpired(&entry, self.components.live());
        let last = held.last().and_then(Weak::upgrade);
        if let Some(last) = last.filter(|last| Arc::ptr_eq(&last.moment.live, &shown)) {
            return Ok(last);
        }
        let moment = self.showing(&entry, self.components.held_moment());
        let moment = Arc::new(PinnedSnapshot { moment, collection: self.identity.id });
        held.push(Arc::downgrade(&moment));
        Ok(moment)
    }

    /// The rows that live now, and those whose vectors somebody may still ask for.
    pub(in crate::collection) fn live_and_held(&self) -> (Arc<LiveRows>, RoaringTreemap) {
        let held = self.held();
        let live = self.components.live();
        let mut rows = (*live.among(None)).clone();
        for moment in held.iter().filter_map(Weak::upgrade) {
            rows |= &*moment.moment.live.among(None);
        }
        (live, rows)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Weak<PinnedSnapshot>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
