//! Threads that all collections of a process share, for what is done behind the writes.
//!
//! There are none while there is nothing to do, one for each thing that is to be done at once, and
//! never more than [`MOST`]: what comes beyond waits for its turn. Work is done a step at a time, so
//! that whoever has much to do holds up nobody for longer than one of his steps. What a step is, and
//! what comes of it, is no concern of this room.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most threads. Builds of graphs may take hours, and so many of them leave none for others.
pub(crate) const MOST: usize = 32;
/// How long a thread stays that has nothing to do.
const STAYS: Duration = Duration::from_secs(5);

/// Something that is to be done, a step at a time.
pub(crate) trait BackgroundWork: Send + Sync {
    /// Does one step. Whether it comes again, behind all others that wait.
    fn step(&self) -> bool;

    /// Whoever does it has panicked.
    fn panicked(&self);
}

/// The threads, and what waits for them.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<ThreadsState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    waiting: VecDeque<Arc<dyn BackgroundWork>>,
    threads: usize,
    idle: usize,
}

static SHARED: Workers =
    Workers { state: Mutex::new(ThreadsState::new()), changed: Condvar::new() };

impl ThreadsState {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), threads: 0, idle: 0 }
    }
}

impl Workers {
    /// Those of the process.
    pub(crate) fn shared() -> &'static Self {
        &SHARED
    }

    fn state(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something done, soon.
    ///
    /// # Errors
    /// What the system said, where there is no thread and none can be made: it is not done then.
    pub(crate) fn submit(&'static self, work: Arc<dyn BackgroundWork>) -> io::Result<()> {
        let mut state = self.state();
        state.waiting.push_back(work);
        if state.idle >= state.waiting.len() || state.threads >= MOST {
            drop(state);
            self.changed.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let begun = thread::Builder::new().name("behind".to_owned()).spawn(|| self.work());
        let Err(error) = begun else { return Ok(()) };
        let mut state = self.state();
        state.threads -= 1;
        // Others come to it, where there are some.
        match state.threads {
            0 => {
                state.waiting.pop_back();
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// What a thread does, until there has been nothing for some time.
    fn work(&self) {
        let mut state = self.state();
        loop {
            let Some(work) = state.waiting.pop_front() else {
                state.idle += 1;
                let waited = self.changed.wait_timeout(state, STAYS);
                let timed_out;
                (state, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                if timed_out.timed_out() && state.waiting.is_empty() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            drop(state);
            let again = catch_unwind(AssertUnwindSafe(|| work.step()));
            let again = again.unwrap_or_else(|_| {
                work.panicked();
                false
            });
            state = self.state();
            if again {
                state.waiting.push_back(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    struct Steps {
        left: AtomicUsize,
        told: Mutex<mpsc::Sender<usize>>,
        name: usize,
    }

    impl BackgroundWork for Steps {
        fn step(&self) -> bool {
            let left = self.left.fetch_sub(1, Ordering::Relaxed);
            self.told.lock().unwrap().send(self.name).unwrap();
            assert!(self.name != usize::MAX, "this one panics");
            left > 1
        }

        fn panicked(&self) {
            self.told.lock().unwrap().send(0).unwrap();
        }
    }

    #[test]
    fn all_steps_are_done_by_few_threads_whatever_panics() {
        let workers: &'static Workers = Box::leak(Box::default());
        let (told, heard) = mpsc::channel();
        let steps = |name, left| {
            let (left, told) = (AtomicUsize::new(left), Mutex::new(told.clone()));
            Arc::new(Steps { left, told, name })
        };
        for name in 1..=200 {
            workers.submit(steps(name, 5)).unwrap();
        }
        workers.submit(steps(usize::MAX, 1)).unwrap();
        let mut done: Vec<usize> = heard.iter().take(200 * 5 + 2).collect();
        done.sort_unstable();
        let expected = (1..=200).flat_map(|name| [name; 5]);
        assert_eq!(done[0], 0, "the panic is told");
        assert!(done[1..1001].iter().copied().eq(expected));
        assert!(workers.state().threads <= MOST);
    }
}
