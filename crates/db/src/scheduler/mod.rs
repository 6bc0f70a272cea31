//! Searches wait here for a thread, and some of them are done as one.
//!
//! A [`Scheduler`] has a few threads. While one of them is free a search begins at once; else it
//! waits, in a line with those of its collection. A thread that is free takes the oldest search of
//! the line whose turn it is, with all searches behind it that can be done together with it: the
//! same field, metric, parameters, partitions and filter, [`MOST_QUERIES`] queries at most, whose
//! `k` differ by [`MOST_K_APART`] at most. Nothing ever waits for company.
//!
//! - Lines take turns, so that a collection that is asked much does not hold up others.
//! - Lines are bounded, in searches and in bytes: what comes beyond is refused at once. So is a search that
//!   has a deadline, where those before it are expected to take more than half of the time until then.
//! - A search whose time has passed, or whose caller is gone, is not done; nor one that has waited long, and
//!   has less time left than such searches take.
//! - Where searches done together fail, or panic, each is done again alone, so that each has the
//!   outcome that it would have had alone. A panic is answered as an error.
//!
//! Threads are made when they are first needed, and end with the scheduler, which waits for them;
//! what waits then is answered with an error. Deliberately absent: what a search does, and who asks.

mod alike;
mod caller;
mod error;
mod group;
mod options;
mod pace;
mod queue;
#[cfg(test)]
mod tests;
mod waiting;
mod work;

pub use caller::{Caller, Searchable};
pub use error::ScheduleError;
pub use group::{MOST_K_APART, MOST_QUERIES};
pub use options::SchedulerOptions;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use self::queue::SearchQueues;
use self::waiting::WaitingSearch;
use crate::collection::SearchRequest;

/// See the module's description. Shared between threads by reference.
pub struct Scheduler {
    shared: Arc<QueuesShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What callers and threads share.
struct QueuesShared {
    options: SchedulerOptions,
    state: Mutex<QueuesState>,
    /// Something waits, or all is to end.
    changed: Condvar,
}

#[derive(Default)]
struct QueuesState {
    lines: SearchQueues,
    /// Threads that there are, and those of them that wait for something to do.
    threads: usize,
    idle: usize,
    is_ending: bool,
}

impl QueuesShared {
    fn state(&self) -> MutexGuard<'_, QueuesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// A scheduler without threads yet.
    pub fn new(options: SchedulerOptions) -> Self {
        let shared = QueuesShared { options, state: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Has a search done. The caller is answered by another thread, or by this one where the search
    /// is refused.
    pub fn submit(
        &self,
        collection: Arc<dyn Searchable>,
        request: SearchRequest<'static>,
        caller: Box<dyn Caller>,
    ) {
        let options = &self.shared.options;
        let waiting = WaitingSearch::new(collection, request, caller, (options.clock)());
        let mut state = self.shared.state();
        let refused = match state.is_ending {
            true => Some((waiting, ScheduleError::Ending)),
            false => state.lines.push(waiting, options),
        };
        // Threads that are idle may have been woken for others, so one more than is needed may come.
        let is_short = state.idle < state.lines.searches() && state.threads < options.at_once;
        state.threads += usize::from(is_short && refused.is_none());
        let is_idle = state.idle > 0;
        drop(state);
        match refused {
            Some((waiting, why)) => waiting.answer(Err(why)),
            None if is_short => self.begin_thread(),
            None if is_idle => self.shared.changed.notify_one(),
            None => {}
        }
    }

    fn begin_thread(&self) {
        let shared = Arc::clone(&self.shared);
        let begun = thread::Builder::new().name("search".to_owned()).spawn(move || shared.work());
        let error = match begun {
            Ok(thread) => {
                self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                return;
            }
            Err(error) => error,
        };
        let mut state = self.shared.state();
        state.threads -= 1;
        // Other threads will come to what waits.
        let stranded = if state.threads == 0 { state.lines.take_all() } else { Vec::new() };
        drop(state);
        for waiting in stranded {
            waiting.answer(Err(ScheduleError::NoThread(error.to_string())));
        }
    }

    /// Searches that wait.
    pub fn waiting(&self) -> usize {
        self.shared.state().lines.searches()
    }

    /// Takes no more searches, answers those that wait with [`ScheduleError::Ending`], and returns
    /// when those under way are answered.
    pub fn end(&self) {
        let mut state = self.shared.state();
        state.is_ending = true;
        let left = state.lines.take_all();
        drop(state);
        self.shared.changed.notify_all();
        for waiting in left {
            waiting.answer(Err(ScheduleError::Ending));
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // An answer may be what drops the scheduler.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the scheduler has panicked");
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.end();
    }
}
