//! Pinned snapshots, for iterators of clients: they read page after page as of their beginning, in
//! calls between which they hold nothing else.
//!
//! What a pinned snapshot needs stays until it is dropped: the row store keeps what its snapshot sees,
//! the views of scalar indexes their files, and flushes spare the vectors of its rows. So a read as
//! of it answers what it would have answered then.

use std::fmt;

use super::components::ReadSnapshot;
use crate::catalog::CollectionId;
use crate::ids::Seq;

/// A moment of a collection. See the module's description.
pub struct PinnedSnapshot {
    pub(super) moment: ReadSnapshot<'static>,
    pub(super) collection: CollectionId,
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
