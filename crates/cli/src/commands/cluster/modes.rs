//! How servers work together on a query, and how each way asks them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use pipeann_cluster::placement::Placement;
use pipeann_cluster::relay::{
    AskerSettings, Client, Ended, Found, Orchestrated, Orchestrator, Query,
};
use pipeann_cluster::transport::tcp::Settings;
use pipeann_cluster::walker::{Centroids, Spent, coding_errors, gather};
use pipeann_cluster::wire::Mode;
use pipeann_engine::types::VectorType;

/// How servers work together on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Together {
    /// A query goes to its data
    Relay,
    /// As in BatANN: it reads in rounds, one record of each page
    Baton,
    /// Every server is asked, or the nearest, and searches a graph of its own rows
    Scatter,
    /// This side keeps the list of candidates, and servers read and score, step by step
    DistributedAnn,
    /// Every server has everything (`serve --replica`)
    Replicas,
}

/// Which of several servers that have everything gets a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReplicasBy {
    /// One after the other
    RoundRobin,
    /// The one at home in the region of the query's best entry, so that caches differ
    Region,
}

/// Where a query begins that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BeginAt {
    /// At the server that has its nearest entry of the head index: whoever gets it hands it over
    Entry,
    /// At the servers in turn, as in BatANN: whoever gets it begins, where one of the nearest entries
    /// is its own
    RoundRobin,
}

/// What only some modes ask for.
#[derive(Clone, Debug, Args)]
pub(super) struct Choosing {
    /// Results asked of each server where several are asked; of many servers fewer will do, and
    /// shorter lists with them [default: --k]
    #[arg(long, value_name = "N")]
    pub(super) each: Option<u32>,
    /// With --mode scatter: ask the servers whose rows are nearest by their centroids, this many of
    /// them alone
    #[arg(long, value_name = "N")]
    pub(super) nearest: Option<usize>,
    /// The centroids, as `split` writes them
    #[arg(long, value_name = "FILE", requires = "nearest")]
    pub(super) centroids: Option<PathBuf>,
    /// With --mode replicas: which server gets a query
    #[arg(long, value_enum, default_value_t = ReplicasBy::RoundRobin)]
    pub(super) by: ReplicasBy,
    /// With --mode relay and baton: where a query begins
    #[arg(long, value_enum, default_value_t = BeginAt::Entry)]
    pub(super) begin: BeginAt,
    /// With --mode distributed-ann: use every record of a page that was read, and stop early, as --mode
    /// relay does [default: one record of each page, and all of the list, as in the paper]
    #[arg(long)]
    pub(super) packed: bool,
}

impl Choosing {
    /// Whether all of it is of use in a mode.
    pub(super) fn check(&self, mode: Together) -> Result<()> {
        let scattered = mode == Together::Scatter;
        ensure!(self.each.is_none() || scattered, "--each goes with --mode scatter");
        ensure!(self.nearest.is_none() || scattered, "--nearest goes with --mode scatter");
        ensure!(self.nearest != Some(0), "--nearest is 0, but must be at least 1");
        let by_region = self.by == ReplicasBy::Region;
        ensure!(!by_region || mode == Together::Replicas, "--by goes with --mode replicas");
        let passed_on = [Together::Relay, Together::Baton].contains(&mode);
        ensure!(!self.round_robin() || passed_on, "--begin goes with --mode relay and baton");
        let kept = mode == Together::DistributedAnn;
        ensure!(!self.packed || kept, "--packed goes with --mode distributed-ann");
        Ok(())
    }

    /// Whether queries begin wherever they come.
    pub(super) fn round_robin(&self) -> bool {
        self.begin == BeginAt::RoundRobin
    }

    /// The centroids, where servers are chosen by them.
    fn centroids(&self) -> Result<Option<Centroids>> {
        let both = self.nearest.is_some() == self.centroids.is_some();
        ensure!(both, "--nearest and --centroids go together");
        self.centroids.as_deref().map(centroids).transpose()
    }
}

/// The centroids of a file.
pub(super) fn centroids(path: &Path) -> Result<Centroids> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(Centroids::FILE_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading {}", path.display()))?;
    Centroids::decode(&bytes).with_context(|| path.display().to_string())
}

impl Together {
    /// As messages say it, where a query is passed on or answered by whoever gets it.
    pub(super) fn mode(self, by: ReplicasBy) -> Mode {
        match (self, by) {
            (Self::Relay, _) => Mode::Relay,
            (Self::Baton, _) => Mode::Baton,
            (Self::Scatter, _) => Mode::Scatter,
            (Self::DistributedAnn, _) => Mode::Orchestrate,
            (Self::Replicas, ReplicasBy::RoundRobin) => Mode::Replicas,
            (Self::Replicas, ReplicasBy::Region) => Mode::Region,
        }
    }

    /// Messages of a query, those from and to its asker among them.
    pub(super) fn messages(self, found: &Found, spent: &Spent) -> u64 {
        match self {
            Self::Relay | Self::Baton | Self::Replicas => 2 + u64::from(spent.moves),
            // Each server asked answers.
            Self::Scatter | Self::DistributedAnn => 2 * found.trace.len() as u64,
        }
    }
}

/// A client of servers, as the mode needs it.
pub(super) enum ModeClient {
    /// Whoever gets a query goes on with it.
    Passing(Client, Option<Centroids>),
    /// Its list stays here, and every record of a page that was read is used, or one.
    Keeping(Client<Orchestrator>, bool),
}

impl ModeClient {
    /// Dials the servers.
    pub(super) fn open(
        network: Settings,
        settings: AskerSettings,
        mode: Together,
        choosing: &Choosing,
    ) -> Result<Self> {
        Ok(match mode {
            Together::DistributedAnn => {
                let placement = Arc::new(network.placement.clone());
                let machine = orchestrator(settings, placement);
                Self::Keeping(Client::over(network, machine)?, choosing.packed)
            }
            _ => Self::Passing(Client::open(network, settings)?, choosing.centroids()?),
        })
    }

    /// Waits until so many servers can be asked. False where that takes longer, or waiting is of no use.
    pub(super) fn meet(&self, servers: usize, at_most: Duration) -> bool {
        match self {
            Self::Passing(client, _) => client.meet(servers, at_most),
            Self::Keeping(client, _) => client.meet(servers, at_most),
        }
    }

    /// Servers that cannot be asked, and why; and whether they cannot however long one waits.
    pub(super) fn missing_in_words(&self) -> (String, bool) {
        match self {
            Self::Passing(client, _) => (client.missing_in_words(), client.waits_in_vain()),
            Self::Keeping(client, _) => (client.missing_in_words(), client.waits_in_vain()),
        }
    }

    /// The servers and partitions of the cluster.
    pub(super) fn placement(&self) -> &Placement {
        match self {
            Self::Passing(client, _) => client.placement(),
            Self::Keeping(client, _) => client.placement(),
        }
    }

    /// Servers of the placement that cannot be asked now.
    pub(super) fn missing(&self) -> Vec<u32> {
        match self {
            Self::Passing(client, _) => client.missing(),
            Self::Keeping(client, _) => client.missing(),
        }
    }

    /// Asks one query; of several servers at once, the `k` nearest of all.
    pub(super) fn one(
        &self,
        query: Query,
        steps: Steps,
        ty: VectorType,
        nearest: Option<usize>,
    ) -> Ended {
        let (client, centroids) = match self {
            Self::Keeping(client, packed) => return client.search(steps.of(query, *packed)),
            Self::Passing(client, centroids) => (client, centroids),
        };
        if query.mode != Mode::Scatter {
            return client.search(query);
        }
        let at = |server| Query { at: Some(server), ..query.clone() };
        let all = match (centroids, nearest) {
            (Some(centroids), Some(most)) if fits(centroids, &query.vector, ty) => {
                client.search_at(&centroids.nearest(&query.vector, ty, most), at)?
            }
            _ => client.search_all(at)?,
        };
        Ok(gather(all, steps.k as usize))
    }
}

/// Whether a query is a vector of the rows that centroids are of; servers refuse others by name.
pub(super) fn fits(centroids: &Centroids, vector: &[u8], ty: VectorType) -> bool {
    vector.len() == ty.vector_bytes(centroids.dim())
}

/// One that keeps the lists of queries, and learns from reads as servers do.
pub(super) fn orchestrator(settings: AskerSettings, placement: Arc<Placement>) -> Orchestrator {
    Orchestrator::new(settings, placement).stopping(coding_errors)
}

/// What whoever keeps the list needs to know beside what servers do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) k: u32,
    pub(super) list: u32,
    pub(super) width: u16,
}

impl Steps {
    /// A query whose list is kept by its asker.
    pub(super) fn of(self, query: Query, packed: bool) -> Orchestrated {
        let Self { k, list, width } = self;
        let Query { parameters, vector, left_us, hops, .. } = query;
        Orchestrated { k, list, width, packed, parameters, vector, left_us, hops }
    }
}
