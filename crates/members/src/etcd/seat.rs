//! What a caller holds of a server that has joined.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::holding::Holding;
use super::runner::Runner;
use super::shared::Shared;
use super::{electing, keeping};
use crate::coordinator::check_term;
use crate::{ClusterMember, Error, Lead, LeadingServer, SHARDS_MAX, ServerInfo, Standing};

/// How long dropping waits for the lease to be revoked.
const DROP_WAIT: Duration = Duration::from_secs(1);

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
        let holding = Arc::new(Holding::new(shared, info));
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
