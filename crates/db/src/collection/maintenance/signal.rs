//! Between a collection and the work behind its writes: what is asked of it, and what waits for it.
//!
//! Its steps are done by threads that all collections share, one at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};

use crate::asker::{self, Gone};
use crate::catalog::IndexId;
use crate::field_index::BuildProgress;
use crate::workers::{BackgroundWork, Workers, wait_a_moment};

/// Whose steps are done.
pub(in crate::collection) trait Stepping: Send + Sync {
    /// Does one step, a build only where it may take `long`; `false` where there was nothing to do.
    fn work(&self, long: bool) -> bool;
}

/// Why a graph is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::collection) enum Cause {
    /// Somebody asked for it, or it is missing.
    Asked,
    /// So many rows wait to enter the one that is there that a new one is cheaper.
    Backlog,
    /// Rows wait whose lengths are so far from the others' that the codes of the one that is there
    /// cannot tell them apart.
    Scale,
}

/// A graph whose build has begun.
pub(in crate::collection) struct BegunBuild {
    pub(in crate::collection) index: IndexId,
    pub(in crate::collection) cause: Cause,
    pub(in crate::collection) progress: Arc<BuildProgress>,
}

/// What is to be done, and how it goes.
#[derive(Default)]
pub(in crate::collection) struct Signal {
    state: Mutex<SignalState>,
    /// For whoever waits for the end: no step is under way.
    ended: Condvar,
    /// For those who wait: something was done.
    moved: Condvar,
}

#[derive(Default)]
struct SignalState {
    stopped: bool,
    /// Whose steps are done, once somebody has asked for it.
    of: Option<Weak<dyn Stepping>>,
    /// A step is done, or waits to be.
    queued: bool,
    /// The thread that does a step.
    doing: Option<ThreadId>,
    /// Something happened since the last step began.
    again: bool,
    checkpoint: bool,
    builds: VecDeque<(IndexId, Cause)>,
    building: Option<(IndexId, Arc<BuildProgress>)>,
    failed: Option<String>,
    /// Counts what those who wait were told.
    told: u64,
}

impl SignalState {
    fn tell(&mut self, moved: &Condvar) {
        self.told += 1;
        moved.notify_all();
    }

    /// Whether nobody works on it any more.
    fn has_ended(&self) -> bool {
        self.stopped || self.failed.is_some()
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().expect("nothing that can panic runs under this lock")
    }

    /// From now on steps of this collection are done when there is something to do.
    pub(in crate::collection) fn attach(&self, of: Weak<dyn Stepping>) {
        self.state().of.get_or_insert(of);
    }

    /// Something changed that may be work.
    pub(in crate::collection) fn wake(self: &Arc<Self>) {
        self.queue(self.state());
    }

    /// Has a step done, unless one is to be done anyway.
    fn queue(self: &Arc<Self>, mut state: MutexGuard<'_, SignalState>) {
        state.again = true;
        if state.of.is_none() || state.queued || state.stopped {
            return;
        }
        state.queued = true;
        drop(state);
        if let Err(error) = Workers::shared().submit(Arc::clone(self) as Arc<dyn BackgroundWork>) {
            self.state().queued = false;
            self.fail(format!("no background thread: {error}"));
        }
    }

    /// A graph is to be built.
    pub(in crate::collection) fn build(self: &Arc<Self>, index: IndexId, cause: Cause) {
        let mut state = self.state();
        state.builds.retain(|(id, _)| *id != index);
        state.builds.push_back((index, cause));
        state.failed = None;
        self.queue(state);
    }

    /// Graphs are to be written, so that the log can be cut.
    pub(in crate::collection) fn checkpoint(self: &Arc<Self>) {
        let mut state = self.state();
        state.checkpoint = true;
        self.queue(state);
    }

    /// Ends the work, and a build that is under way.
    pub(in crate::collection) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        if let Some((_, progress)) = &state.building {
            progress.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        state.tell(&self.moved);
    }

    /// Waits until no step is under way; not for the one that the caller is in.
    pub(in crate::collection) fn wait_for_end(&self) {
        let mut state = self.state();
        let me = thread::current().id();
        while state.doing.is_some_and(|thread| thread != me) {
            state = self.ended.wait(state).expect("see `state`");
        }
    }

    pub(in crate::collection) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// For the work: whether graphs are to be written; asked once.
    pub(in crate::collection) fn take_checkpoint(&self) -> bool {
        std::mem::take(&mut self.state().checkpoint)
    }

    /// For the work: the next graph that is to be built, which counts as begun from here on.
    pub(in crate::collection) fn begin_build(&self) -> Option<BegunBuild> {
        let mut state = self.state();
        if state.stopped {
            return None;
        }
        let ((index, cause), progress) =
            (state.builds.pop_front()?, Arc::<BuildProgress>::default());
        state.building = Some((index, Arc::clone(&progress)));
        Some(BegunBuild { index, cause, progress })
    }

    /// For the work: the build is over.
    pub(in crate::collection) fn end_build(&self) {
        let mut state = self.state();
        state.building = None;
        state.tell(&self.moved);
    }

    /// For the work: a step was done.
    pub(in crate::collection) fn moved(&self) {
        let mut state = self.state();
        state.failed = None;
        state.tell(&self.moved);
    }

    /// For the work: it gives up until something new happens. `true` where that is news.
    pub(in crate::collection) fn fail(&self, why: String) -> bool {
        let mut state = self.state();
        let news = state.failed.as_ref() != Some(&why);
        state.failed = Some(why);
        state.tell(&self.moved);
        news
    }

    /// Why the work has been given up, if so.
    pub(in crate::collection) fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// The work may be tried again.
    pub(in crate::collection) fn forgive(&self) {
        self.state().failed = None;
    }

    /// The build under way, or one that is to come.
    pub(in crate::collection) fn building(&self, index: IndexId) -> Option<Arc<BuildProgress>> {
        let state = self.state();
        match &state.building {
            Some((id, progress)) if *id == index => Some(Arc::clone(progress)),
            _ => state.builds.iter().any(|(id, _)| *id == index).then(Arc::default),
        }
    }

    /// Whether any build is under way or to come.
    pub(in crate::collection) fn is_building(&self) -> bool {
        let state = self.state();
        state.building.is_some() || !state.builds.is_empty()
    }

    /// Waits until `done`, or until nobody works on it any more. `done` is asked after every step, and
    /// now and then.
    ///
    /// # Errors
    /// [`Gone`]: whoever asked waits no more.
    pub(in crate::collection) fn wait_until(&self, done: impl Fn() -> bool) -> Result<(), Gone> {
        loop {
            let told = self.state().told;
            if done() {
                return Ok(());
            }
            // No turn is taken for it: nothing is done here.
            asker::worked(usize::MAX);
            asker::is_wanted()?;
            let mut state = self.state();
            if state.told == told && !state.has_ended() {
                state = wait_a_moment(&self.moved, state);
            }
            if state.has_ended() {
                return Ok(());
            }
        }
    }
}

impl BackgroundWork for Signal {
    fn is_long(&self) -> bool {
        let state = self.state();
        !state.stopped && !state.builds.is_empty()
    }

    fn step(&self, long: bool) -> bool {
        let mut state = self.state();
        // Not under the lock where it is of no use: whoever holds it last ends it.
        let of = if state.stopped { None } else { state.of.as_ref().and_then(Weak::upgrade) };
        let Some(collection) = of else {
            state.queued = false;
            return false;
        };
        (state.again, state.doing) = (false, Some(thread::current().id()));
        drop(state);
        let worked = collection.work(long);
        // Whoever waits for the end finds nobody who holds it.
        drop(collection);
        self.end(worked, long)
    }

    fn panicked(&self) {
        let mut state = self.state();
        // Nobody goes on with it, and it does not come again by itself.
        (state.building, state.doing, state.queued) = (None, None, false);
        self.ended.notify_all();
        drop(state);
        self.fail("it panicked".to_owned());
    }
}

impl Signal {
    /// A step was done, a `long` one or not. Whether another one is to be.
    fn end(&self, worked: bool, long: bool) -> bool {
        let mut state = self.state();
        state.doing = None;
        // Asked for when the step had been chosen.
        let build_waits = !long && !state.builds.is_empty();
        state.queued = !state.stopped && (worked || state.again || build_waits);
        self.ended.notify_all();
        state.queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_whose_thread_panics_is_under_way_no_more() {
        let signal = Arc::new(Signal::default());
        signal.state().queued = true;
        signal.build(IndexId(1), Cause::Asked);
        assert!(signal.is_long() && signal.begin_build().is_some());
        assert!(signal.is_building() && signal.building(IndexId(1)).is_some());
        signal.panicked();
        assert_eq!(signal.failed().as_deref(), Some("it panicked"));
        assert!(!signal.state().queued, "whoever wakes it has it done again");
        // The next step finds something else to do.
        signal.moved();
        assert!(!signal.is_building());
        signal.wait_until(|| signal.building(IndexId(1)).is_none()).unwrap();
    }

    #[test]
    fn a_build_that_is_asked_for_when_a_short_step_was_chosen_comes_with_the_next() {
        struct Builds(Arc<Signal>);

        impl Stepping for Builds {
            fn work(&self, long: bool) -> bool {
                assert!(!long || self.0.begin_build().is_some());
                false
            }
        }

        let signal = Arc::new(Signal::default());
        let builds: Arc<dyn Stepping> = Arc::new(Builds(Arc::clone(&signal)));
        signal.attach(Arc::downgrade(&builds));
        // The steps are done here, and by no other thread.
        signal.state().queued = true;
        assert!(!signal.is_long());
        signal.build(IndexId(1), Cause::Asked);
        assert!(signal.step(false), "it comes again");
        assert!(signal.is_long());
        assert!(!signal.step(true) && !signal.is_long());
    }
}
