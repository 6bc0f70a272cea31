//! A search that waits, and whether it is still of use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ScheduleError;
use super::alike::batch_key;
use super::caller::{Caller, Searchable};
use super::pace::ROOM;
use crate::collection::{SearchAnswer, SearchRequest};

/// A search that waits.
pub(super) struct WaitingSearch {
    pub(super) collection: Arc<dyn Searchable>,
    pub(super) request: Box<SearchRequest<'static>>,
    /// None when it is answered.
    pub(super) caller: Option<Box<dyn Caller>>,
    pub(super) since: Instant,
    /// See [`batch_key`].
    pub(super) batch_key: u64,
    pub(super) queries: usize,
    /// How long it is expected to take, as it was known when it came.
    pub(super) expected: Duration,
}

/// Whether a search is still to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Wanted,
    Late,
    Gone,
}

impl WaitingSearch {
    pub(super) fn new(
        collection: Arc<dyn Searchable>,
        request: SearchRequest<'static>,
        caller: Box<dyn Caller>,
        since: Instant,
    ) -> Self {
        let (batch_key, queries) = (batch_key(&request), request.vectors.as_set().rows());
        let (request, caller) = (Box::new(request), Some(caller));
        let expected = Duration::ZERO;
        Self { collection, request, caller, since, batch_key, queries, expected }
    }

    /// Whether it need not wait at all, since that may take most of its time. Told at once, whoever asks can
    /// do something else; and what does wait is not so old that chance makes it late.
    pub(super) fn is_hopeless(&self, wait: Duration) -> bool {
        let left = |deadline: Instant| deadline.saturating_duration_since(self.since);
        self.request.deadline.is_some_and(|deadline| wait.saturating_mul(ROOM) > left(deadline))
    }

    /// Whether it is to be begun now, where it takes so long.
    pub(super) fn usefulness(&self, now: Instant, needed: Duration) -> Use {
        // One that has not waited may be what shows that searches take less by now.
        let waited = now.saturating_duration_since(self.since) > needed;
        match self.request.deadline {
            _ if self.caller.as_ref().is_none_or(|caller| caller.is_gone()) => Use::Gone,
            Some(deadline) if deadline <= now => Use::Late,
            Some(deadline) if waited && deadline - now < needed => Use::Late,
            _ => Use::Wanted,
        }
    }

    /// Answers whoever waits for it.
    pub(super) fn answer(self, outcome: Result<SearchAnswer, ScheduleError>) {
        if let Some(caller) = self.caller {
            caller.answer(outcome);
        }
    }

    pub(super) fn of_collection(&self) -> usize {
        Arc::as_ptr(&self.collection).cast::<()>() as usize
    }
}
