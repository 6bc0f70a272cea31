//! The log of a collection that several servers have: what it gives to the log that they share, and
//! how it comes to follow that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::constants::frame_header;
use super::error::{CommitFailure, WalError};
use super::frame;
use super::log::Log;
use crate::ids::Seq;
use crate::replication::{AppliedRequest, Leadership, SharedChange, SharedLogError};

/// Records of one collection, for the shared log.
#[derive(Debug)]
pub(super) struct SharedRecords {
    leadership: Arc<Leadership>,
    collection: u64,
    /// How many need this log to have on stable storage what it answers.
    synced: AtomicUsize,
    /// For which requests records were made that are not in the shared log yet.
    requests: Mutex<BTreeMap<Seq, AppliedRequest>>,
}

/// While it is there, records are answered when they are on stable storage.
#[must_use = "records are answered early as soon as it is dropped"]
pub struct AnswersAfterSync<'l>(Option<&'l SharedRecords>);

impl Drop for AnswersAfterSync<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.synced.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl SharedRecords {
    fn requests(&self) -> MutexGuard<'_, BTreeMap<Seq, AppliedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record is made for a request. The queue is locked.
    pub(super) fn made_for(&self, seq: Seq, request: AppliedRequest) {
        self.requests().insert(seq, request);
    }

    /// Appends the records of these frames, which are whole.
    pub(super) fn append(&self, frames: &[u8]) -> Result<(), SharedLogError> {
        let mut changes = Vec::new();
        let mut rest = frames;
        while let Some((header, behind)) = rest.split_first_chunk() {
            let (kind, seq, payload_bytes) = frame::head(header);
            let payload = &behind[..payload_bytes as usize];
            changes.push(SharedChange::Record { collection: self.collection, seq, kind, payload });
            changes.extend(self.requests().remove(&seq).map(SharedChange::Request));
            rest = &behind[frame::frame_bytes(payload_bytes) as usize - frame_header::BYTES..];
        }
        self.leadership.append(&changes)
    }
}

impl Log {
    /// The same, of a collection that several servers have. It follows.
    #[must_use]
    pub fn shared_by(mut self, leadership: Arc<Leadership>, collection: u64) -> Self {
        let (synced, requests) = (AtomicUsize::new(0), Mutex::default());
        self.shared = Some(SharedRecords { leadership, collection, synced, requests });
        self.queue().follows = true;
        self
    }

    /// Whether several servers have it.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether a record may be answered before it is on stable storage here.
    pub(super) fn may_answer_before_sync(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.synced.load(Ordering::SeqCst) == 0)
    }

    /// From now on records are answered when they are on stable storage here. Whoever
    /// [`sync`](Self::sync)s next knows that all records answered from then on are there, too: those
    /// that were submitted before by the sync, and others by this.
    pub fn answer_after_sync(&self) -> AnswersAfterSync<'_> {
        if let Some(shared) = &self.shared {
            shared.synced.fetch_add(1, Ordering::SeqCst);
        }
        AnswersAfterSync(self.shared.as_ref())
    }

    /// Whether what is submitted comes from the shared log.
    pub fn follows(&self) -> bool {
        // A log that is not shared asks no lock.
        self.shared.is_some() && self.queue().follows
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
            shared.requests().clear();
        }
        Ok(queue.written)
    }
}
