//! Between a collection and its background thread: what is asked of it, and what waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::catalog::IndexId;
use crate::field_index::BuildProgress;

/// Why a graph is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Somebody asked for it, or it is missing.
    Asked,
    /// So many rows wait to enter the one that is there that a new one is cheaper.
    Backlog,
    /// Rows wait whose lengths are so far from the others' that the codes of the one that is there
    /// cannot tell them apart.
    Scale,
}

/// What is to be done, and how it goes.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    /// For the thread: there is something to do.
    wake: Condvar,
    /// For those who wait: something was done.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Something happened since the thread last looked.
    again: bool,
    checkpoint: bool,
    builds: VecDeque<(IndexId, Cause)>,
    building: Option<(IndexId, Arc<BuildProgress>)>,
    failed: Option<String>,
    /// Counts what those who wait were told.
    told: u64,
}

impl State {
    fn tell(&mut self, moved: &Condvar) {
        self.told += 1;
        moved.notify_all();
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing that can panic runs under this lock")
    }

    /// Something changed that may be work.
    pub(super) fn wake(&self) {
        self.state().again = true;
        self.wake.notify_all();
    }

    /// A graph is to be built.
    pub(super) fn build(&self, index: IndexId, cause: Cause) {
        let mut state = self.state();
        state.builds.retain(|(id, _)| *id != index);
        state.builds.push_back((index, cause));
        state.failed = None;
        state.again = true;
        self.wake.notify_all();
    }

    /// Graphs are to be written, so that the log can be cut.
    pub(super) fn checkpoint(&self) {
        let mut state = self.state();
        (state.checkpoint, state.again) = (true, true);
        self.wake.notify_all();
    }

    /// Ends the thread, and a build that is under way.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        if let Some((_, progress)) = &state.building {
            progress.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        self.wake.notify_all();
        state.tell(&self.moved);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// For the thread: waits until there may be work; `false` when it is to end.
    pub(super) fn wait_for_work(&self) -> bool {
        let mut state = self.state();
        while !state.again && !state.stopped {
            state = self.wake.wait(state).expect("see `state`");
        }
        state.again = false;
        !state.stopped
    }

    /// For the thread: whether graphs are to be written; asked once.
    pub(super) fn take_checkpoint(&self) -> bool {
        std::mem::take(&mut self.state().checkpoint)
    }

    /// For the thread: the next graph that is to be built, which counts as begun from here on.
    pub(super) fn begin_build(&self) -> Option<(IndexId, Cause, Arc<BuildProgress>)> {
        let mut state = self.state();
        if state.stopped {
            return None;
        }
        let ((index, cause), progress) = (state.builds.pop_front()?, Arc::default());
        state.building = Some((index, Arc::clone(&progress)));
        Some((index, cause, progress))
    }

    /// For the thread: the build is over.
    pub(super) fn end_build(&self) {
        let mut state = self.state();
        state.building = None;
        state.tell(&self.moved);
    }

    /// For the thread: a step was done.
    pub(super) fn moved(&self) {
        let mut state = self.state();
        state.failed = None;
        state.tell(&self.moved);
    }

    /// For the thread: it gives up until something new happens. `true` where that is news.
    pub(super) fn fail(&self, why: String) -> bool {
        let mut state = self.state();
        let news = state.failed.as_ref() != Some(&why);
        state.failed = Some(why);
        state.tell(&self.moved);
        news
    }

    /// Why the thread has given up, if so.
    pub(super) fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// The thread may try again.
    pub(super) fn forgive(&self) {
        self.state().failed = None;
    }

    /// The build under way, or one that is to come.
    pub(super) fn building(&self, index: IndexId) -> Option<Arc<BuildProgress>> {
        let state = self.state();
        match &state.building {
            Some((id, progress)) if *id == index => Some(Arc::clone(progress)),
            _ => state.builds.iter().any(|(id, _)| *id == index).then(Arc::default),
        }
    }

    /// Whether any build is under way or to come.
    pub(super) fn is_building(&self) -> bool {
        let state = self.state();
        state.building.is_some() || !state.builds.is_empty()
    }

    /// Waits until `done`, or until nobody works on it any more. `done` is asked after every step.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool) {
        loop {
            let told = self.state().told;
            if done() {
                return;
            }
            let mut state = self.state();
            while state.told == told && !state.stopped && state.failed.is_none() {
                state = self.moved.wait(state).expect("see `state`");
            }
            if state.stopped || state.failed.is_some() {
                return;
            }
        }
    }
}
