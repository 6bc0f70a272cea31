//! Objects of the log, put by the leader of a term.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pipeann_db::catalog::UnixMs;
use pipeann_db::replication::{BegunChanges, ChangesUnderWay, SharedLogError};
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

/// Hybrid timestamps of one term, each later than all before it, whatever the clock does, and how far
/// its objects are put and applied. Timestamps are even: doors tell something of their own by the lowest
/// bit.
pub(crate) struct TermTime {
    now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    last: AtomicU64,
    objects: Mutex<TermProgress>,
    changes: Arc<ChangesUnderWay>,
}

/// An object at a position of the log, and its timestamp.
type StampedPosition = (Position, u64);

struct TermProgress {
    /// The last object that is certainly there.
    put: StampedPosition,
    /// The last one of which all writers are told that it is there.
    answered: StampedPosition,
    /// The last one that is applied here, as all before it are.
    applied: StampedPosition,
    /// Those behind that, each with the changes that had begun when the last of its own was handed over.
    applying: VecDeque<(StampedPosition, BegunChanges)>,
}

impl TermProgress {
    /// Looks which objects are applied: those of which all writers are told, when these have ended. A
    /// change that has failed has ended too, and those of its object are told of no success.
    fn look(&mut self, changes: &ChangesUnderWay) {
        while let Some((object, begun)) = self.applying.front()
            && object.0 <= self.answered.0
            && changes.are_over(*begun)
        {
            self.applied = *object;
            self.applying.pop_front();
        }
    }
}

impl TermTime {
    /// Timestamps behind one that there was, in an object at this position; `changes` are those of this
    /// server.
    pub(crate) fn after(
        (position, last): (Position, u64),
        now: Arc<dyn Fn() -> UnixMs + Send + Sync>,
        changes: Arc<ChangesUnderWay>,
    ) -> Self {
        // It names all that is there, also where that is of a term whose timestamps were odd.
        let last = (last + 1) & !1;
        let opened = (position, last);
        let applying = VecDeque::new();
        let objects = TermProgress { put: opened, answered: opened, applied: opened, applying };
        Self { now, last: AtomicU64::new(last), objects: Mutex::new(objects), changes }
    }

    fn objects(&self) -> MutexGuard<'_, TermProgress> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last object that is certainly there, and its timestamp. Asked without waiting for the next.
    pub(crate) fn newest(&self) -> (Position, u64) {
        self.objects().put
    }

    /// An object is there, and these changes had begun before it was put.
    fn note_put(&self, object: StampedPosition, begun: BegunChanges) {
        let mut objects = self.objects();
        objects.put = object;
        objects.applying.push_back((object, begun));
        objects.look(&self.changes);
    }

    /// The writers of all objects that are there are told so.
    fn note_answered(&self) {
        let mut objects = self.objects();
        objects.answered = objects.put;
    }

    /// The last object that is applied here, as all before it are, and its timestamp.
    pub(crate) fn applied(&self) -> (Position, u64) {
        let mut objects = self.objects();
        objects.look(&self.changes);
        objects.applied
    }

    /// The changes that have to have ended before all that was put up to a timestamp is applied here;
    /// `None` where it is.
    pub(crate) fn to_be_applied(&self, timestamp: u64) -> Option<BegunChanges> {
        let mut objects = self.objects();
        objects.look(&self.changes);
        if timestamp <= objects.applied.1 {
            return None;
        }
        let reaches = objects.applying.iter().find(|((_, of), _)| *of >= timestamp);
        Some(reaches.map_or_else(|| self.changes.begun(), |(_, begun)| *begun))
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
    fn put(&self, changes: &[EncodedChange], begun: BegunChanges) -> Result<(), SharedLogError> {
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
        self.time.note_put((position, timestamp), begun);
        #[cfg(test)]
        if self.planted == Some(crate::planted::ServerFault::PutTakenForApplied) {
            self.time.note_answered();
        }
        Ok(())
    }

    fn begun(&self) -> BegunChanges {
        self.time.changes.begun()
    }

    fn note_answered(&self) {
        self.time.note_answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: u64) -> StampedPosition {
        (Position { term: 3, number }, number * 10)
    }

    #[test]
    fn objects_are_applied_when_they_are_answered_and_their_changes_have_ended() {
        let changes = Arc::new(ChangesUnderWay::default());
        let time = TermTime::after(object(7), Arc::new(|| UnixMs(1)), Arc::clone(&changes));
        assert_eq!((time.applied(), time.to_be_applied(70)), (object(7), None));
        let first = changes.begin();
        time.note_put(object(8), changes.begun());
        let second = changes.begin();
        time.note_put(object(9), changes.begun());
        assert_eq!((time.newest(), time.applied()), (object(9), object(7)));
        drop(first);
        // Its writers may be told yet that the term is over.
        assert_eq!(time.applied(), object(7));
        time.note_answered();
        assert_eq!(time.applied(), object(8));
        assert!(time.to_be_applied(80).is_none());
        for later in [81, 90, 91] {
            assert!(!changes.are_over(time.to_be_applied(later).unwrap()), "{later}");
        }
        drop(second);
        assert_eq!(time.applied(), object(9));
        let third = changes.begin();
        assert!(time.to_be_applied(90).is_none());
        assert!(!changes.are_over(time.to_be_applied(91).unwrap()), "it may be put by then");
        drop(third);
        time.note_put(object(10), changes.begun());
        assert_eq!(time.applied(), object(9), "what has failed has ended too");
    }
}
