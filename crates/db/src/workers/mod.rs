//! Threads that all collections of a process share, for what is done behind the writes.
//!
//! There are none while there is nothing to do, one for each thing that is to be done at once, and
//! never more than [`MOST`]: what comes beyond waits for its turn. Work is done a step at a time, so
//! that whoever has much to do holds up nobody for longer than one of his steps. Steps that may take
//! hours wait in the same line, but at most [`MOST_LONG`] of them are done at once, so that threads
//! are left for others. What a step is, and what comes of it, is no concern of this room.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most threads.
pub(crate) const MOST: usize = 32;
/// The most steps at once that may take hours.
pub(crate) const MOST_LONG: usize = MOST - 4;
/// How long a thread stays that has nothing to do.
const STAYS: Duration = Duration::from_secs(5);
/// How long somebody waits before he looks round.
const MOMENT: Duration = Duration::from_millis(50);

/// Something that is to be done, a step at a time.
pub(crate) trait BackgroundWork: Send + Sync {
    /// Whether its next step may take hours.
    fn is_long(&self) -> bool;

    /// Does one step, one that may take hours only where it is `long`. Whether it comes again, behind
    /// all others that wait.
    fn step(&self, long: bool) -> bool;

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
    /// Threads that do a step which may take hours.
    long: usize,
}

static SHARED: Workers =
    Workers { state: Mutex::new(ThreadsState::new()), changed: Condvar::new() };

impl ThreadsState {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), threads: 0, idle: 0, long: 0 }
    }

    /// Takes what is to be done next, as far as it may be now, and whether it is long.
    fn take_next(&mut self) -> Option<(Arc<dyn BackgroundWork>, bool)> {
        let full = self.long >= MOST_LONG;
        let mut each = self.waiting.iter().map(|work| work.is_long()).enumerate();
        let (at, long) = each.find(|(_, long)| !(*long && full))?;
        self.long += usize::from(long);
        self.waiting.remove(at).map(|work| (work, long))
    }
}

/// Waits until somebody is told something, for a moment at most.
pub(crate) fn wait_a_moment<'s, T>(told: &Condvar, state: MutexGuard<'s, T>) -> MutexGuard<'s, T> {
    told.wait_timeout(state, MOMENT).unwrap_or_else(PoisonError::into_inner).0
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
        let mut waited_enough = false;
        loop {
            let Some((work, long)) = state.take_next() else {
                // What waits for a long step to end is taken by the thread that has done it.
                if waited_enough {
                    state.threads -= 1;
                    return;
                }
                state.idle += 1;
                let waited = self.changed.wait_timeout(state, STAYS);
                let timed_out;
                (state, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                waited_enough = timed_out.timed_out();
                continue;
            };
            waited_enough = false;
            drop(state);
            let again = catch_unwind(AssertUnwindSafe(|| work.step(long)));
            let again = again.unwrap_or_else(|_| {
                work.panicked();
                false
            });
            state = self.state();
            if again {
                state.waiting.push_back(work);
            }
            if long {
                state.long -= 1;
                // This thread may take something else first.
                self.changed.notify_one();
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
        fn is_long(&self) -> bool {
            false
        }

        fn step(&self, _: bool) -> bool {
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

    /// A step that lasts until all are told to end.
    struct Lasting {
        ends: Arc<(Mutex<bool>, Condvar)>,
        told: Mutex<mpsc::Sender<usize>>,
    }

    impl BackgroundWork for Lasting {
        fn is_long(&self) -> bool {
            true
        }

        fn step(&self, long: bool) -> bool {
            assert!(long);
            let (ends, told) = &*self.ends;
            drop(told.wait_while(ends.lock().unwrap(), |ends| !*ends).unwrap());
            self.told.lock().unwrap().send(0).unwrap();
            false
        }

        fn panicked(&self) {
            unreachable!("it does not panic");
        }
    }

    #[test]
    fn however_many_steps_take_long_others_are_done_and_all_of_them_in_the_end() {
        let workers: &'static Workers = Box::leak(Box::default());
        let (told, heard) = mpsc::channel();
        let ends: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        for _ in 0..2 * MOST {
            let (ends, told) = (Arc::clone(&ends), Mutex::new(told.clone()));
            workers.submit(Arc::new(Lasting { ends, told })).unwrap();
        }
        let (left, told) = (AtomicUsize::new(3), Mutex::new(told));
        workers.submit(Arc::new(Steps { left, told, name: 1 })).unwrap();
        for _ in 0..3 {
            assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(1));
        }
        assert!(workers.state().long <= MOST_LONG);
        *ends.0.lock().unwrap() = true;
        ends.1.notify_all();
        for _ in 0..2 * MOST {
            assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(0));
        }
        assert!(workers.state().threads <= MOST);
    }
}
