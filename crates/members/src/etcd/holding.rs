//! What the two tasks of a server that has joined share with each other, and with who holds it.
//!
//! Invariants: a shard that is resigned or handed over is not led here from before the transaction is
//! sent, whatever comes of it; a leadership counts only under the lease that it was won with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;

use super::shared::Shared;
use crate::lease::Countdown;
use crate::records::Throne;
use crate::view::Known;
use crate::{Lead, ServerInfo};

/// A lease, and what was written under it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenure {
    pub(super) lease: i64,
    /// The version of the server's own key.
    pub(super) revision: i64,
    pub(super) countdown: Countdown,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) tenure: Option<Tenure>,
    /// A lease that was granted, whether or not something stands under it.
    pub(super) granted: Option<i64>,
    /// Since when there is none, and why.
    pub(super) lost: Option<Duration>,
    pub(super) why: String,
    pub(super) left: bool,
    /// Shards that are stood for, each with the newest term of its log.
    pub(super) wants: BTreeMap<u64, u64>,
    /// Versions of leaders' keys under which this server leads no more.
    given_up: BTreeMap<u64, i64>,
    /// Shards that were asked for or given up, for the electing task to look at.
    pub(super) stirred: BTreeSet<u64>,
    pub(super) all_stirred: bool,
}

/// A server that has joined, as its tasks see it.
pub(super) struct Holding {
    pub(super) shared: Arc<Shared>,
    pub(super) info: ServerInfo,
    /// Tells this joining from others of the same server.
    pub(super) instance: Uuid,
    state: Mutex<State>,
    /// Something to do for the keeping task, and for the electing one.
    pub(super) nudge: Arc<Notify>,
    pub(super) stir: Arc<Notify>,
    pub(super) leaving: Notify,
}

impl Holding {
    pub(super) fn new(shared: &Arc<Shared>, info: ServerInfo) -> Self {
        Self {
            shared: Arc::clone(shared),
            info,
            instance: Uuid::new_v4(),
            state: Mutex::default(),
            nudge: Arc::default(),
            stir: Arc::default(),
            leaving: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Lets the electing task look at all shards again.
    pub(super) fn stir_all(&self) {
        self.state().all_stirred = true;
        self.stir.notify_one();
    }

    /// Lets the electing task look at a shard again.
    pub(super) fn stir(&self, shard: u64) {
        self.state().stirred.insert(shard);
        self.stir.notify_one();
    }

    /// Whether the key of a leader says that it is this server, under its lease of now, and that it
    /// has not given that up.
    pub(super) fn is_mine(state: &State, me: Uuid, shard: u64, known: &Known<Throne>) -> bool {
        let lease = state.tenure.map(|it| it.lease);
        known.what.as_ref().is_ok_and(|it| it.server == me)
            && lease == Some(known.lease)
            && state.given_up.get(&shard) != Some(&known.revision)
    }

    /// What leading a shard is, where this server certainly does, and the leader's key that says so.
    pub(super) fn leads(&self, shard: u64) -> Option<(Lead, Known<Throne>)> {
        let known = self.shared.view.throne(shard)?;
        let term = known.what.as_ref().ok()?.term;
        let state = self.state();
        let at_least = *state.wants.get(&shard)?;
        if term <= at_least || !Self::is_mine(&state, self.info.id, shard, &known) {
            return None;
        }
        // Read last: what it says has to hold after all of the above was looked at.
        let left = state.tenure?.countdown.left(self.shared.clock.now());
        (!left.is_zero()).then_some((Lead { term, left }, known))
    }

    /// Leads a shard no more and stands for it no more; which version of its key said that it did.
    pub(super) fn give_up(&self, shard: u64) -> Option<Known<Throne>> {
        let known = self.shared.view.throne(shard);
        let mut state = self.state();
        state.wants.remove(&shard);
        let known = known.filter(|it| Self::is_mine(&state, self.info.id, shard, it))?;
        state.given_up.insert(shard, known.revision);
        Some(known)
    }

    /// Lets the electing task give up a shard that was won though nobody wants it any more.
    pub(super) fn stir_if_unwanted(&self, shard: u64) {
        if !self.state().wants.contains_key(&shard) {
            self.stir(shard);
        }
    }

    /// A new version of a leader's key names this server.
    pub(super) fn won(&self, shard: u64) {
        self.state().given_up.remove(&shard);
        self.shared.tallies.elections.add();
    }
}
