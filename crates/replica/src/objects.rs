//! Objects of the log, put by the leader of a term.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_db::catalog::UnixMs;
use pipeann_db::replication::SharedLogError;
use pipeann_store::{LogError, ShardLeader, Stamp};

use crate::codec::{EncodedChange, KIND_CATALOG};
use crate::group::ObjectLog;

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

/// See the module's description.
pub(crate) struct TermObjects {
    pub(crate) leader: Arc<ShardLeader>,
    pub(crate) now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    /// Of the last object; a clock that goes back does not take it along.
    pub(crate) timestamp: AtomicU64,
    /// Of the catalogue, in the last object that changed it.
    pub(crate) revision: AtomicU64,
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
        let next = self.timestamp.load(Ordering::Relaxed) + 1;
        let timestamp = next.max(hybrid((self.now)()));
        let entries: Vec<_> = changes.iter().map(EncodedChange::as_entry).collect();
        let put = self.leader.append(Stamp { catalogue_version, timestamp }, &entries);
        put.map_err(|error| match error {
            LogError::Fenced { .. } => SharedLogError::NotLeading { why: error.to_string() },
            error => SharedLogError::Unknown { why: error.to_string() },
        })?;
        self.timestamp.store(timestamp, Ordering::Relaxed);
        Ok(())
    }
}
