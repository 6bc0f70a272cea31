//! Objects of the log, put by the leader of a term.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pipeann_db::catalog::UnixMs;
use pipeann_db::replication::SharedLogError;
use pipeann_store::{LogError, Position, ShardLeader, Stamp};

use crate::codec::{EncodedChange, KIND_CATALOG};
use crate::commits::CommitTally;
use crate::group::ObjectLog;
use crate::state::SharedState;

/// Low bits of a hybrid timestamp, which count within a millisecond.
const COUNT_BITS: u32 = 18;

/// The hybrid timestamp of a moment.
pub(crate) fn hybrid(UnixMs(ms): UnixMs) -> u64 {
    ms << COUNT_BITS
}

/// The moment of a hybrid timestamp.
pub(crate) fn moment(timestamp: u64) -> UnixMs {
    UnixMs(timestamp >> COUNT_BITS)
}

/// Hybrid timestamps of one term, each later than all before it, whatever the clock does. They are
/// even: doors tell something of their own by the lowest bit.
pub(crate) struct TermTime {
    now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    last: AtomicU64,
    /// The last object that is certainly there, and its timestamp.
    put: Mutex<(Position, u64)>,
}

impl TermTime {
    /// Timestamps behind one that there was, in an object at this position.
    pub(crate) fn after(
        (position, last): (Position, u64),
        now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    ) -> Self {
        // It names all that is there, also where that is of a term whose timestamps were odd.
        let last = (last + 1) & !1;
        Self { now, last: AtomicU64::new(last), put: Mutex::new((position, last)) }
    }

    /// The last object that is certainly there, and its timestamp. Asked without waiting for the next.
    pub(crate) fn newest(&self) -> (Position, u64) {
        *self.put.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one.
    pub(crate) fn next(&self) -> u64 {
        let now = hybrid((self.now)());
        let next = |last: u64| (last + 2).max(now) & !1;
        let before =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(before.unwrap_or_else(|last| last))
    }
}

/// See the module's description.
pub(crate) struct TermObjects {
    pub(crate) leader: Arc<ShardLeader>,
    pub(crate) time: Arc<TermTime>,
    /// Of the catalogue, in the last object that changed it.
    pub(crate) revision: AtomicU64,
    /// Is told how much was put.
    pub(crate) state: Arc<SharedState>,
    pub(crate) tally: Arc<CommitTally>,
    /// What a simulation breaks.
    #[cfg(test)]
    pub(crate) planted: Option<crate::planted::ServerFault>,
}

impl fmt::Debug for TermObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermObjects").field("term", &self.leader.term()).finish_non_exhaustive()
    }
}

impl ObjectLog for TermObjects {
    fn put(&self, changes: &[EncodedChange]) -> Result<(), SharedLogError> {
        let revisions = changes.iter().filter(|change| change.kind == KIND_CATALOG);
        let revision = revisions.map(|change| change.seq).max().unwrap_or(0);
        let catalogue_version = self.revision.fetch_max(revision, Ordering::Relaxed).max(revision);
        let timestamp = self.time.next();
        let entries: Vec<_> = changes.iter().map(EncodedChange::as_entry).collect();
        let bytes = changes.iter().map(|change| change.payload.len()).sum();
        let began = Instant::now();
        let put = self.leader.append(Stamp { catalogue_version, timestamp }, &entries);
        let number = put.as_ref().ok().map(|position| position.number);
        self.tally.put(changes.len(), bytes, began.elapsed(), number);
        #[cfg(test)]
        if put.is_err() && self.planted == Some(crate::planted::ServerFault::AnsweredBeforePut) {
            return Ok(());
        }
        let position = put.map_err(|error| match error {
            LogError::Fenced { .. } => SharedLogError::NotLeading { why: error.to_string() },
            error => SharedLogError::Unknown { why: error.to_string() },
        })?;
        let bytes = changes.iter().map(|change| change.payload.len() as u64).sum();
        self.state.note_log_bytes(bytes);
        self.state.note_put(timestamp);
        *self.time.put.lock().unwrap_or_else(PoisonError::into_inner) = (position, timestamp);
        Ok(())
    }
}
