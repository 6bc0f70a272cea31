//! Changes of many threads become few objects of the shared log.
//!
//! There is no thread for it: whoever finds nobody writing puts what all have handed over, as one
//! object, and wakes the others. What is handed over meanwhile is the next one's. After the first
//! failure nothing is put any more: the term is over, and what was handed over may be there or not.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeann_db::replication::{BegunChanges, SharedChange, SharedLog, SharedLogError};

use crate::codec::{EncodedChange, KIND_REQUEST, encode};
use crate::time::{ChangeSignal, ServerTime};

/// The most bytes of an object, but for a change that is longer by itself.
const OBJECT_BYTES: usize = 16 << 20;
/// What may wait beside the object that is being put.
const WAITING_BYTES: usize = 2 * OBJECT_BYTES;
/// Where objects are put, one after the other.
pub(crate) trait ObjectLog: fmt::Debug + Send + Sync {
    /// Puts changes, in their order, as one object, and returns when it is certain to be there.
    ///
    /// # Errors
    /// As [`SharedLog::append`].
    fn put(&self, changes: &[EncodedChange], begun: BegunChanges) -> Result<(), SharedLogError>;

    /// The changes that have begun until now. Asked as some are handed over, so those are among them.
    fn begun(&self) -> BegunChanges;

    /// All that was put so far is answered as being there. Of what was put before a failure some writers
    /// may be told of the failure: it is there, and not applied by who put it.
    fn note_answered(&self);
}

#[derive(Debug, Default)]
struct WaitingChanges {
    changes: Vec<EncodedChange>,
    bytes: usize,
    /// What had begun when the last of them was handed over.
    begun: Option<BegunChanges>,
    /// Changes handed over so far, and those that are there.
    given: u64,
    done: u64,
    leading: bool,
    /// When the last put began.
    began: Option<Instant>,
    failed: Option<SharedLogError>,
}

/// See the module's description.
pub(crate) struct SharedObjects {
    log: Box<dyn ObjectLog>,
    waiting: Mutex<WaitingChanges>,
    moved: ChangeSignal,
    time: ServerTime,
    /// From the begin of one put to that of the next.
    gap: Duration,
    /// The most changes of an object.
    object_changes: usize,
    /// Is told when it has failed.
    on_failure: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for SharedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedObjects").field("log", &self.log).finish_non_exhaustive()
    }
}

impl SharedObjects {
    /// Puts objects of so many changes at most by `log`, one that comes after a rest at once, and the next
    /// ones `gap` apart.
    pub(crate) fn new(
        log: Box<dyn ObjectLog>,
        time: ServerTime,
        gap: Duration,
        object_changes: usize,
        on_failure: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (waiting, moved) = (Mutex::default(), ChangeSignal::new(time.clone()));
        let on_failure = Box::new(on_failure);
        Arc::new(Self { log, waiting, moved, time, gap, object_changes, on_failure })
    }

    /// Why the term is over, if it is.
    pub(crate) fn failed(&self) -> Option<SharedLogError> {
        self.waiting().failed.clone()
    }

    /// Takes nothing more, for this reason; an earlier one stays. What is being put may get there.
    pub(crate) fn end(&self, why: SharedLogError) {
        self.waiting().failed.get_or_insert(why);
        self.moved.tell();
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingChanges> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_more<'w>(
        &'w self,
        waiting: MutexGuard<'w, WaitingChanges>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'w, WaitingChanges> {
        self.moved.wait(&self.waiting, waiting, at_most)
    }

    /// Waits until the gap behind the last put has passed, or an object is full; others hand over more
    /// meanwhile.
    fn gather<'w>(
        &'w self,
        mut waiting: MutexGuard<'w, WaitingChanges>,
    ) -> MutexGuard<'w, WaitingChanges> {
        let left = |waiting: &WaitingChanges| {
            let full =
                waiting.bytes >= OBJECT_BYTES || waiting.changes.len() >= self.object_changes;
            let since = waiting.began.map_or(self.gap, |began| self.time.since(began));
            if full || waiting.failed.is_some() {
                Duration::ZERO
            } else {
                self.gap - since.min(self.gap)
            }
        };
        loop {
            let left = left(&waiting);
            if left.is_zero() {
                return waiting;
            }
            waiting = self.wait_more(waiting, Some(left));
        }
    }

    /// Waits for whoever puts an object, or puts one.
    fn advance<'w>(
        &'w self,
        mut waiting: MutexGuard<'w, WaitingChanges>,
    ) -> MutexGuard<'w, WaitingChanges> {
        if waiting.leading {
            return self.wait_more(waiting, None);
        }
        waiting.leading = true;
        waiting = self.gather(waiting);
        if waiting.failed.is_some() {
            waiting.leading = false;
            self.moved.tell();
            return waiting;
        }
        waiting.began = Some(self.time.now());
        let changes = std::mem::take(&mut waiting.changes);
        waiting.bytes = 0;
        let begun = waiting.begun.take().unwrap_or_else(|| self.log.begun());
        let done = waiting.given;
        drop(waiting);
        let mut ending = PutEnding { group: self, outcome: None };
        let mut objects = objects(&changes, self.object_changes);
        ending.outcome =
            Some(objects.try_for_each(|object| self.log.put(object, begun)).map(|()| done));
        drop(ending);
        self.waiting()
    }
}

/// Changes in groups that each fit an object of so many. A request stays with its change.
fn objects(changes: &[EncodedChange], most: usize) -> impl Iterator<Item = &[EncodedChange]> {
    let mut bytes = 0;
    let mut count = 0;
    changes.chunk_by(move |before, after| {
        (bytes, count) = (bytes + before.payload.len(), count + 1);
        let fits = bytes + after.payload.len() <= OBJECT_BYTES && count < most
            || after.kind == KIND_REQUEST;
        if !fits {
            (bytes, count) = (0, 0);
        }
        fits
    })
}

/// Tells the others how an object ended, also where putting it panics.
struct PutEnding<'g> {
    group: &'g SharedObjects,
    outcome: Option<Result<u64, SharedLogError>>,
}

impl Drop for PutEnding<'_> {
    fn drop(&mut self) {
        let mut waiting = self.group.waiting();
        waiting.leading = false;
        let unknown = || SharedLogError::Unknown { why: "putting an object panicked".into() };
        match self.outcome.take().unwrap_or_else(|| Err(unknown())) {
            Ok(done) => {
                waiting.done = done;
                // Who waited may have been told already that the term is over.
                if waiting.failed.is_none() {
                    self.group.log.note_answered();
                }
            }
            Err(error) => {
                waiting.failed.get_or_insert(error);
            }
        }
        let failed = waiting.failed.is_some();
        drop(waiting);
        self.group.moved.tell();
        if failed {
            (self.group.on_failure)();
        }
    }
}

impl SharedLog for SharedObjects {
    fn append(&self, changes: &[SharedChange<'_>]) -> Result<(), SharedLogError> {
        let encoded: Vec<_> = changes.iter().map(encode).collect();
        let bytes: usize = encoded.iter().map(|change| change.payload.len()).sum();
        let mut waiting = self.waiting();
        loop {
            if let Some(error) = &waiting.failed {
                return Err(error.clone());
            }
            if waiting.bytes == 0 || waiting.bytes + bytes <= WAITING_BYTES {
                break;
            }
            waiting = self.advance(waiting);
        }
        waiting.bytes += bytes;
        waiting.given += encoded.len() as u64;
        waiting.changes.extend(encoded);
        waiting.begun = Some(self.log.begun());
        let mine = waiting.given;
        while waiting.done < mine {
            if let Some(error) = &waiting.failed {
                return Err(error.clone());
            }
            waiting = self.advance(waiting);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.failed().is_some()
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
