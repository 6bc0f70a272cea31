//! Pinned snapshots, for iterators of clients: they read page after page as of their beginning, in
//! calls between which they hold nothing else.
//!
//! What a pinned snapshot needs stays until it is dropped: the row store keeps what its snapshot sees,
//! the views of scalar indexes their files, and flushes spare the vectors of its rows. So a read as
//! of it answers what it would have answered then.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use roaring::RoaringTreemap;

use super::components::ReadSnapshot;
use super::live::LiveRows;
use super::{Collection, CollectionError};
use crate::catalog::CollectionId;
use crate::ids::Seq;

/// A moment of a collection. See the module's description.
pub struct PinnedSnapshot {
    pub(super) moment: ReadSnapshot<'static>,
    collection: CollectionId,
}

impl fmt::Debug for PinnedSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (collection, seq) = (self.collection, self.seq());
        f.debug_struct("HeldMoment").field("collection", &collection).field("seq", &seq).finish()
    }
}

impl PinnedSnapshot {
    /// The last record of the log that it sees.
    pub fn seq(&self) -> Seq {
        self.moment.live.applied
    }

    /// The collection that it is of.
    pub fn collection(&self) -> CollectionId {
        self.collection
    }
}

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
    pub(super) fn live_and_held(&self) -> (Arc<LiveRows>, RoaringTreemap) {
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
