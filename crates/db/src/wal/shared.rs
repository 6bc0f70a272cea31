//! The log of a collection that several servers have: how it comes to lead and to follow the log that
//! they share.

use std::sync::Arc;

use super::error::{CommitFailure, WalError};
use super::log::Log;
use super::shared_records::{AnswersAfterSync, SharedRecords};
use crate::ids::Seq;
use crate::replication::{ChangeUnderWay, Leadership};

impl Log {
    /// The same, of a collection that several servers have. It follows.
    #[must_use]
    pub fn shared_by(mut self, leadership: Arc<Leadership>, collection: u64) -> Self {
        self.shared = Some(SharedRecords::new(leadership, collection));
        self.queue().follows = true;
        self
    }

    /// Whether several servers have it.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// A change begins, and ends when this is dropped; none where the log is this server's alone.
    pub(crate) fn begin_change(&self) -> Option<ChangeUnderWay> {
        self.shared.as_ref().map(SharedRecords::begin_change)
    }

    /// Whether a record may be answered before it is on stable storage here.
    pub(super) fn may_answer_before_sync(&self) -> bool {
        self.shared.as_ref().is_some_and(SharedRecords::may_answer_before_sync)
    }

    /// From now on records are answered when they are on stable storage here. Whoever
    /// [`sync`](Self::sync)s next knows that all records answered from then on are there, too: those
    /// that were submitted before by the sync, and others by this.
    pub fn answer_after_sync(&self) -> AnswersAfterSync<'_> {
        AnswersAfterSync::of(self.shared.as_ref())
    }

    /// Whether what is submitted comes from the shared log.
    pub fn follows(&self) -> bool {
        // A log that is not shared asks no lock.
        self.shared.is_some() && self.queue().follows
    }

    /// Why it takes no more records, if so: until it follows where the shared log has refused some, and
    /// until it is opened again where the disk has failed.
    pub(crate) fn failed(&self) -> Option<CommitFailure> {
        self.queue().failed.clone()
    }

    /// What is submitted from now on is new to the shared log. All that is there is in this one, and
    /// nobody submits meanwhile.
    pub fn begin_to_lead(&self) {
        self.queue().follows = false;
    }

    /// From now on it takes records of the shared log. What could not be put there is forgotten; it is
    /// not in this log. Returns the last record that is. Nobody submits meanwhile.
    ///
    /// # Errors
    /// [`WalError::Poisoned`] where it was the disk that failed.
    pub fn begin_to_follow(&self) -> Result<Seq, WalError> {
        let mut queue = self.queue_at_rest();
        queue.follows = true;
        if let Some(CommitFailure::Disk(cause)) = &queue.failed {
            return Err(WalError::Poisoned { cause: CommitFailure::Disk(cause.clone()) });
        }
        let checksum = self.writer().written_checksum;
        queue.forget_unwritten(checksum);
        if let Some(shared) = &self.shared {
            shared.forget_requests();
        }
        Ok(queue.written)
    }
}
