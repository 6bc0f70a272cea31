//! The commit sequencer: records are applied in the order of their numbers, by whoever wrote them,
//! who holds a ticket until then.
//!
//! A record that cannot be applied, or of which it is unknown whether it is in the log, ends the
//! collection's writing for good: nothing behind it may become visible before it is. Opening the
//! collection again replays the log, which settles both cases.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::ids::Seq;
use crate::replication::CollectionStops;

/// The queue of records between the log and the components.
#[derive(Debug)]
pub(in crate::collection) struct CommitSequencer {
    state: Mutex<SequencerState>,
    moved: Condvar,
    /// Where it is counted that it stopped, if several servers have the collection.
    stops: Option<Arc<CollectionStops>>,
}

#[derive(Debug)]
struct SequencerState {
    applied: Seq,
    /// Tickets that somebody holds.
    held: usize,
    /// Why nothing is applied any more.
    stopped: Option<String>,
}

/// A sequencer while nobody holds a ticket.
pub(in crate::collection) struct SequencerAtRest {
    /// The last record that is applied.
    pub(in crate::collection) applied: Seq,
}

impl CommitSequencer {
    /// All records up to `applied` are applied. That it stops is counted in `stops`.
    pub(in crate::collection) fn new(applied: Seq, stops: Option<Arc<CollectionStops>>) -> Self {
        let state = Mutex::new(SequencerState { applied, held: 0, stopped: None });
        Self { state, moved: Condvar::new(), stops }
    }

    fn state(&self) -> MutexGuard<'_, SequencerState> {
        self.state.lock().expect("nothing that can panic runs under this lock")
    }

    /// Why nothing is applied any more, if so.
    pub(in crate::collection) fn stopped(&self) -> Option<String> {
        self.state().stopped.clone()
    }

    /// Waits until all records up to `seq` are applied.
    ///
    /// # Errors
    /// Why that will not happen.
    pub(in crate::collection) fn wait_applied(&self, seq: Seq) -> Result<(), String> {
        let mut state = self.state();
        while state.applied < seq {
            if let Some(why) = &state.stopped {
                return Err(why.clone());
            }
            state = self.moved.wait(state).expect("see `state`");
        }
        Ok(())
    }

    /// The ticket of the record with this number.
    pub(in crate::collection) fn place(&self, seq: Seq) -> CommitTicket<'_> {
        self.state().held += 1;
        CommitTicket { turns: self, seq, done: false }
    }

    /// Waits until nobody holds a ticket. Nobody may get one meanwhile.
    pub(in crate::collection) fn rest(&self) -> SequencerAtRest {
        let mut state = self.state();
        while state.held > 0 {
            state = self.moved.wait(state).expect("see `state`");
        }
        SequencerAtRest { applied: state.applied }
    }

    /// Goes on behind `applied`, whatever it was stopped for. Nobody holds a ticket.
    pub(in crate::collection) fn resume(&self, applied: Seq) {
        let mut state = self.state();
        (state.applied, state.stopped) = (applied, None);
        self.moved.notify_all();
    }

    /// Applies nothing more, for this reason; an earlier reason stays.
    pub(in crate::collection) fn stop(&self, why: &str) {
        self.state().stopped.get_or_insert_with(|| why.to_owned());
        if let Some(stops) = &self.stops {
            stops.count();
        }
        self.moved.notify_all();
    }
}

/// A record's ticket. Dropped before [`done`](Self::done), by an error or a panic, it stops the
/// queue.
#[derive(Debug)]
pub(in crate::collection) struct CommitTicket<'t> {
    turns: &'t CommitSequencer,
    seq: Seq,
    done: bool,
}

impl CommitTicket<'_> {
    /// Waits until all records before this one are applied.
    ///
    /// # Errors
    /// Why that will not happen.
    pub(in crate::collection) fn wait(&self) -> Result<(), String> {
        self.turns.wait_applied(Seq(self.seq.0 - 1))
    }

    /// The record is applied.
    pub(in crate::collection) fn done(mut self) {
        self.done = true;
        self.turns.state().applied = self.seq;
        self.turns.moved.notify_all();
    }
}

impl Drop for CommitTicket<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.turns.stop("a write was not applied");
        }
        self.turns.state().held -= 1;
        self.turns.moved.notify_all();
    }
}
