//! A server as one of several: the flags, and what is opened by them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_replica::{Alone, Elected, ReadTime, Replica, ReplicaOptions};
use pipeann_store::ClusterStore;
use uuid::Uuid;

/// How long a start waits until the log has been read to its end, before it says that it has not.
const START: Duration = Duration::from_secs(600);

/// Whether a server is one of several, and by what they share.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// Serve as one server of the cluster of this name: all changes stand in a log in --store, from
    /// which a server has everything again whose disk is lost
    #[arg(long, value_name = "NAME", requires = "store")]
    cluster: Option<String>,
    /// Where the cluster keeps what must not be lost: file:///DIRECTORY that all servers see, or
    /// s3://BUCKET/PREFIX with the usual variables AWS_*
    #[arg(long, value_name = "URL", requires = "cluster")]
    store: Option<String>,
}

/// A database that is served, alone or by one of several servers.
pub(crate) enum Opened {
    /// By this server alone.
    Alone(Arc<Database>),
    /// By one of several.
    Clustered(Arc<Replica>),
}

impl Opened {
    /// The database.
    pub(crate) fn database(&self) -> &Arc<Database> {
        match self {
            Self::Alone(database) => database,
            Self::Clustered(replica) => replica.database(),
        }
    }
}

impl ClusterArgs {
    /// Opens the database in `dir`, as the flags say.
    pub(crate) fn open(&self, dir: &Path, options: DatabaseOptions) -> Result<Opened> {
        let (Some(cluster), Some(url)) = (&self.cluster, &self.store) else {
            let database = Database::open(dir, options);
            let database = database.with_context(|| format!("opening {}", dir.display()))?;
            return Ok(Opened::Alone(Arc::new(database)));
        };
        let store = ClusterStore::open(url, cluster);
        let store = store.with_context(|| format!("opening the store at {url}"))?;
        let settings = ReplicaOptions::new(store, "the only server".into(), Arc::new(Alone));
        let replica = Replica::open(dir, options, settings, Uuid::new_v4());
        let replica = Arc::new(replica.with_context(|| format!("opening {}", dir.display()))?);
        catch_up(&replica)?;
        Ok(Opened::Clustered(replica))
    }
}

/// Waits until the server has all that is in the log, and leads or knows who does. What keeps it from
/// that is told meanwhile.
fn catch_up(replica: &Replica) -> Result<()> {
    let until = Instant::now() + START;
    let mut told = None;
    loop {
        let step = (Instant::now() + Duration::from_secs(5)).min(until);
        let caught_up = replica.catch_up(ReadTime::Latest, step);
        let knows = |it: &Replica| !matches!(it.elected(), Elected::Nobody { .. });
        if caught_up.is_ok() && replica.wait_until(step, knows) {
            return Ok(());
        }
        let why = match (caught_up, replica.elected()) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Elected::Nobody { why }) => why,
            (Ok(()), _) => continue,
        };
        if Instant::now() >= until {
            bail!("this server did not begin in {} s: {why}", START.as_secs());
        }
        if told.as_ref() != Some(&why) {
            eprintln!("pipeann: {why}; trying again");
        }
        told = Some(why);
    }
}
