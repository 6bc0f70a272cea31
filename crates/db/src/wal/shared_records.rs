//! What the log of a collection gives to the log that several servers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::constants::frame_header;
use super::frame::{FrameHeader, frame_bytes};
use crate::ids::Seq;
use crate::replication::{
    AppliedRequest, ChangeUnderWay, Leadership, SharedChange, SharedLogError,
};

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

impl<'l> AnswersAfterSync<'l> {
    pub(super) fn of(shared: Option<&'l SharedRecords>) -> Self {
        if let Some(shared) = shared {
            shared.synced.fetch_add(1, Ordering::SeqCst);
        }
        Self(shared)
    }
}

impl Drop for AnswersAfterSync<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.synced.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl SharedRecords {
    pub(super) fn new(leadership: Arc<Leadership>, collection: u64) -> Self {
        let (synced, requests) = (AtomicUsize::new(0), Mutex::default());
        Self { leadership, collection, synced, requests }
    }

    fn requests(&self) -> MutexGuard<'_, BTreeMap<Seq, AppliedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record is made for a request. The queue is locked.
    pub(super) fn made_for(&self, seq: Seq, request: AppliedRequest) {
        self.requests().insert(seq, request);
    }

    /// Forgets for which requests records were made that are not in the shared log.
    pub(super) fn forget_requests(&self) {
        self.requests().clear();
    }

    /// The log takes no more records.
    pub(super) fn count_stop(&self) {
        self.leadership.stops().count();
    }

    pub(super) fn begin_change(&self) -> ChangeUnderWay {
        self.leadership.under_way().begin()
    }

    /// Whether a record may be answered before it is on stable storage here.
    pub(super) fn may_answer_before_sync(&self) -> bool {
        self.synced.load(Ordering::SeqCst) == 0
    }

    /// Appends the records of these frames, which are whole.
    pub(super) fn append(&self, frames: &[u8]) -> Result<(), SharedLogError> {
        let mut changes = Vec::new();
        let mut rest = frames;
        while let Some((header, behind)) = rest.split_first_chunk() {
            let FrameHeader { kind, seq, payload_bytes, .. } = FrameHeader::of(header);
            let payload = &behind[..payload_bytes as usize];
            changes.push(SharedChange::Record { collection: self.collection, seq, kind, payload });
            changes.extend(self.requests().remove(&seq).map(SharedChange::Request));
            rest = &behind[frame_bytes(payload_bytes) as usize - frame_header::BYTES..];
        }
        self.leadership.append(&changes)
    }
}
