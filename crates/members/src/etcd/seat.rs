//! What a caller holds of a server that has joined, and what its two tasks share.
//!
//! Invariants: a shard that is resigned or handed over is not led here from before the transaction is
//! sent, whatever comes of it; a leadership counts only under the lease that it was won with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::connection::Shared;
use super::runner::Runner;
use super::{electing, keeping};
use crate::coordinator::check_term;
use crate::lease::Countdown;
use crate::records::Throne;
use crate::view::Known;
use crate::{ClusterMember, Error, Lead, LeadingServer, SHARDS_MAX, ServerInfo, Standing};

/// How long dropping waits for the lease to be revoked.
const DROP_WAIT: Duration = Duration::from_secs(1);

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
    left: bool,
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
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Lets the electing task look at all shards again.
    pub(super) fn stir_all(&self) {
        self.state().all_stirred = true;
        self.stir.notify_one();
    }

    fn stir(&self, shard: u64) {
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

    fn leads(&self, shard: u64) -> Option<(Lead, Known<Throne>)> {
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

/// What a caller holds. Dropping it revokes the lease.
pub(super) struct Seated {
    holding: Arc<Holding>,
    runner: Arc<Runner>,
    call_timeout: Duration,
    kept: watch::Receiver<bool>,
    tasks: [JoinHandle<()>; 2],
}

impl Seated {
    pub(super) fn take(
        shared: &Arc<Shared>,
        runner: &Arc<Runner>,
        call_timeout: Duration,
        info: ServerInfo,
    ) -> Result<Self, Error> {
        let patience = shared.ttl() + shared.join_patience;
        let holding = Arc::new(Holding {
            shared: Arc::clone(shared),
            info,
            instance: Uuid::new_v4(),
            state: Mutex::default(),
            nudge: Arc::default(),
            stir: Arc::default(),
            leaving: Notify::new(),
        });
        let joining = Arc::clone(&holding);
        runner.wait(patience + call_timeout, async move {
            keeping::join_patiently(&joining, patience).await
        })?;
        let (keeping, kept) = watch::channel(false);
        let keeper = keeping::keep(Arc::clone(&holding), keeping);
        let tasks = [
            runner.handle().spawn(keeper),
            runner.handle().spawn(electing::elect(Arc::clone(&holding))),
        ];
        Ok(Self { holding, runner: Arc::clone(runner), call_timeout, kept, tasks })
    }

    fn end(&self, within: Duration) -> Result<(), Error> {
        {
            let mut state = self.holding.state();
            state.left = true;
            state.wants.clear();
        }
        self.tasks[1].abort();
        self.holding.leaving.notify_one();
        let mut kept = self.kept.clone();
        self.runner.wait(within, async move {
            // The task is gone where this fails, which is an end too.
            let _ = kept.wait_for(|kept| *kept).await;
            Ok(())
        })
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        if !*self.kept.borrow() {
            // The lease ends by itself where this comes too late.
            let _ = self.end(DROP_WAIT.min(self.call_timeout));
        }
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ClusterMember for Seated {
    fn server(&self) -> &ServerInfo {
        &self.holding.info
    }

    fn standing(&self) -> Standing {
        let state = self.holding.state();
        if state.left {
            return Standing::Left;
        }
        let now = self.holding.shared.clock.now();
        let end = state.tenure.map(|it| it.countdown.end());
        match end {
            Some(end) if end > now => Standing::Joined,
            end => {
                let since = end.or(state.lost).unwrap_or(now);
                Standing::Lost { since, why: state.why.clone() }
            }
        }
    }

    fn campaign(&self, shard: u64, at_least: u64) -> Result<(), Error> {
        check_term(at_least)?;
        {
            let mut state = self.holding.state();
            if state.left {
                return Err(Error::NotJoined("it has left".into()));
            }
            if state.wants.len() >= SHARDS_MAX && !state.wants.contains_key(&shard) {
                let why = format!("{SHARDS_MAX} are the most");
                return Err(Error::Invalid { what: "shards to campaign for", why });
            }
            let wanted = state.wants.entry(shard).or_default();
            *wanted = at_least.max(*wanted);
        }
        self.holding.stir(shard);
        Ok(())
    }

    fn resign(&self, shard: u64) -> Result<(), Error> {
        let Some(known) = self.holding.give_up(shard) else { return Ok(()) };
        let holding = Arc::clone(&self.holding);
        let ended = self.runner.wait(self.call_timeout, async move {
            electing::step_down(&holding, shard, known.revision).await
        });
        // Where it has failed, the electing task goes on.
        self.holding.stir(shard);
        ended
    }

    fn transfer(&self, shard: u64, to: Uuid) -> Result<LeadingServer, Error> {
        let (_, known) = self.holding.leads(shard).ok_or(Error::NotLeader(shard))?;
        if to == self.holding.info.id {
            let throne = known.what.map_err(|_| Error::NotLeader(shard))?;
            return Ok(throne.leader(shard));
        }
        let heir = self.holding.shared.view.server(to).ok_or(Error::NoServer(to))?;
        let at_least = self.holding.state().wants.get(&shard).copied().unwrap_or(0);
        let known = self.holding.give_up(shard).ok_or(Error::NotLeader(shard))?;
        let holding = Arc::clone(&self.holding);
        let handed = self.runner.wait(self.call_timeout, async move {
            electing::hand_over(&holding, shard, known.revision, heir, at_least).await
        });
        if let Err(e) = &handed
            && !e.is_passing()
        {
            // Certainly not done: it stands again, under a newer term.
            self.campaign(shard, at_least)?;
        }
        self.holding.stir(shard);
        handed
    }

    fn leads(&self, shard: u64) -> Option<Lead> {
        self.holding.leads(shard).map(|(lead, _)| lead)
    }

    fn led(&self) -> Vec<LeadingServer> {
        let wanted: Vec<u64> = self.holding.state().wants.keys().copied().collect();
        let leads = |shard: u64| self.holding.leads(shard)?.1.what.ok().map(|it| it.leader(shard));
        wanted.into_iter().filter_map(leads).collect()
    }

    fn lease_left(&self) -> Duration {
        let tenure = self.holding.state().tenure;
        tenure.map_or(Duration::ZERO, |it| it.countdown.left(self.holding.shared.clock.now()))
    }

    fn leave(&self) -> Result<(), Error> {
        self.end(self.call_timeout)
    }
}
