//! What a thread of the scheduler does.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::queue::TakenSearches;
use super::waiting::WaitingSearch;
use super::{QueuesShared, ScheduleError};
use crate::asker::{self, Asker, Gone, TooMuch};
use crate::collection::{BatchProgress, CollectionError, SearchAnswer, SearchRequest, Stages};

impl QueuesShared {
    /// Does what waits, until all is to end.
    pub(super) fn work(&self) {
        (self.options.enter)();
        while let Some(TakenSearches { group, late }) = self.next() {
            for waiting in late {
                guarded(|| waiting.answer(Err(ScheduleError::Late)));
            }
            let began = (self.options.clock)();
            let joined = group.len();
            let (left, _) = match joined {
                0 | 1 => (group, None),
                _ => self.search(group, (began, joined)),
            };
            for waiting in left {
                let (left, why) = self.search(vec![waiting], (began, joined));
                // It is answered, or there is a reason why not.
                for (waiting, why) in left.into_iter().zip(why) {
                    guarded(|| waiting.answer(Err(why)));
                }
            }
        }
    }

    /// Answers searches, done as one. Returns those that have no answer, and why.
    fn search(
        &self,
        mut group: Vec<WaitingSearch>,
        (began, joined): (Instant, usize),
    ) -> (Vec<WaitingSearch>, Option<ScheduleError>) {
        let mut callers: Vec<_> = group.iter_mut().map(|waiting| waiting.caller.take()).collect();
        let (clock, asks) = (&self.options.clock, asks_of(&group));
        let begun = clock();
        let (mut since, mut search, mut rows) = (begun, Duration::ZERO, Duration::ZERO);
        let mut tell = |progress| {
            let now = clock();
            let spent = now.saturating_duration_since(since);
            since = now;
            match progress {
                BatchProgress::Found => search += spent,
                BatchProgress::Answered(place, answer) => {
                    rows += spent;
                    let queue = began.saturating_duration_since(group[place].since);
                    let stages = Stages { queue, search, rows, joined };
                    if let Some(caller) = callers[place].take() {
                        caller.answer(Ok(SearchAnswer { stages, ..answer }));
                    }
                    // Whatever the caller did with it is its own affair.
                    since = clock();
                }
            }
        };
        let search = || asker::within(asks, || search_all(&group, &mut tell));
        let done = catch_unwind(AssertUnwindSafe(search));
        if let (Ok(Ok(())), Some(first)) = (&done, group.first()) {
            let queries = group.iter().map(|waiting| waiting.queries).sum();
            let took = clock().saturating_duration_since(begun);
            self.state().lines.paces.note(first.of_collection(), queries, took);
        }
        let why = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(ScheduleError::Search(error)),
            Err(panic) => Some(ScheduleError::Panicked(told(&*panic))),
        };
        for (waiting, caller) in group.iter_mut().zip(callers) {
            waiting.caller = caller;
        }
        group.retain(|waiting| waiting.caller.is_some());
        (group, why)
    }

    /// What is to be done next; `None` at the end.
    fn next(&self) -> Option<TakenSearches> {
        let mut state = self.state();
        loop {
            if state.is_ending {
                return None;
            }
            if let Some(taken) = state.lines.take((self.options.clock)(), self.options.merge) {
                return Some(taken);
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// Those whose searches are done as one: it is of use as long as one of them waits, and what one of
/// them takes too much of is done again without the others.
struct Company(Vec<Arc<dyn Asker>>);

impl Asker for Company {
    fn gone(&self) -> Option<Gone> {
        let mut gone = None;
        for asker in &self.0 {
            gone = Some(asker.gone()?);
        }
        gone
    }

    fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
        self.0.first().map_or(Ok(()), |first| first.grows(bytes))
    }

    fn shrinks(&self, bytes: u64) {
        if let Some(first) = self.0.first() {
            first.shrinks(bytes);
        }
    }
}

/// Who asks, where all of them are known.
fn asks_of(group: &[WaitingSearch]) -> Option<Arc<dyn Asker>> {
    let each = group.iter().map(|waiting| waiting.request.asker.clone());
    let mut asks = each.collect::<Option<Vec<_>>>()?;
    match asks.len() {
        1 => asks.pop(),
        _ => Some(Arc::new(Company(asks))),
    }
}

fn search_all(
    group: &[WaitingSearch],
    tell: &mut dyn FnMut(BatchProgress),
) -> Result<(), CollectionError> {
    let Some(first) = group.first() else { return Ok(()) };
    let requests: Vec<&SearchRequest<'_>> = group.iter().map(|waiting| &*waiting.request).collect();
    first.collection.search_batch(&requests, tell)
}

/// Answers somebody, without harm to others if that panics.
fn guarded(answer: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
        tracing::error!("a caller panicked at its answer: {}", told(&*panic));
    }
}

/// What a panic says.
fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
