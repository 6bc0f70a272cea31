//! A server as one of several: the flags, and what is opened by them.

mod ending;
mod etcd;
mod figures;
mod guards;
mod joined;
mod peers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_members::{Coordinator, ServerInfo, ServerKey};
use pipeann_milvus::{PeerTls, ServeOptions};
use pipeann_replica::{ClusterMembership, FORMATS, Replica, ReplicaFile};
use pipeann_store::ClusterStore;
use uuid::Uuid;

pub(crate) use self::ending::{EndCause, ServerEnding};
pub use self::etcd::EtcdArgs;
use self::guards::guards;
pub(crate) use self::joined::JoinedServer;
use self::peers::ClusterPeers;
use crate::opening::{now, parse_limit};
use crate::process::say;

/// Whether a server is one of several, and by what they share.
#[derive(Clone, Args)]
pub(crate) struct ServersArgs {
    /// Serve as one server of the cluster of this name: all changes stand in a log in --store, from
    /// which a server has everything again whose disk is lost
    #[arg(long, value_name = "NAME", requires = "store")]
    cluster: Option<String>,
    /// Where the cluster keeps what must not be lost: file:///DIRECTORY that all servers see, or
    /// s3://BUCKET/PREFIX with the usual variables AWS_*
    #[arg(long, value_name = "URL", requires = "cluster")]
    store: Option<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Where other servers reach this one, as HOST:PORT; --host and --port unless given
    #[arg(long, value_name = "ADDRESS", requires = "etcd")]
    advertise: Option<String>,
    /// While this server leads: publish the database as files in the store after so many bytes of the
    /// log, as 256MiB, and cut the log before them. A server that comes takes the files
    #[arg(long, value_name = "SIZE", requires = "store", value_parser = parse_limit)]
    generation_after: Option<u64>,
    /// While this server leads: keep the log for so long, as 36h or 7days, and a generation before it, so
    /// that `pipeann cluster restore` can go back to any moment since [default: what two generations need]
    #[arg(long, value_name = "TIME", requires = "store", value_parser = humantime::parse_duration)]
    keep_log: Option<Duration>,
    /// While this server leads: files that nobody wants any more stay in the store until they are so old, as
    /// 36h, at least an hour [default: 1h]
    #[arg(long, value_name = "TIME", requires = "store", value_parser = parse_grace)]
    gc_grace: Option<Duration>,
    /// What people call this server [default: the address]
    #[arg(long, value_name = "NAME", requires = "etcd")]
    server_name: Option<String>,
    /// Who signs the certificates of servers, in PEM, where connections are encrypted; what a server
    /// shows to clients it shows to others too, and is itself known by it
    #[arg(long, value_name = "FILE", requires = "etcd")]
    peer_ca: Option<PathBuf>,
}

/// Whoever publishes pins for so long what he has put, so that less would change nothing.
const LEAST_GRACE: Duration = Duration::from_secs(3600);

fn parse_grace(text: &str) -> Result<Duration, String> {
    let grace = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if grace < LEAST_GRACE {
        return Err("an hour is the least".to_owned());
    }
    Ok(grace)
}

/// A database that is served, alone or by one of several servers.
pub(crate) enum Opened {
    /// By this server alone.
    Alone(Arc<Database>),
    /// By one of several.
    Clustered {
        /// This one.
        replica: Arc<Replica>,
        /// The others.
        members: Option<Arc<ClusterMembership>>,
        /// By what those are known, where connections are encrypted.
        tls: Option<Arc<PeerTls>>,
    },
}

impl Opened {
    /// Opens the database in `dir` for this server alone.
    pub(crate) fn alone(dir: &Path, options: DatabaseOptions) -> Result<Self> {
        let database = Database::open(dir, options);
        let database = database.with_context(|| format!("opening {}", dir.display()))?;
        Ok(Self::Alone(Arc::new(database)))
    }

    /// The database.
    pub(crate) fn database(&self) -> &Arc<Database> {
        match self {
            Self::Alone(database) => database,
            Self::Clustered { replica, .. } => replica.database(),
        }
    }

    /// What the door asks of other servers.
    pub(crate) fn peers(&self) -> Option<Arc<ClusterPeers>> {
        let Self::Clustered { replica, members, tls } = self else { return None };
        Some(Arc::new(ClusterPeers::new(Arc::clone(replica), members.clone(), tls.clone())))
    }

    /// Tells the others that this server goes, after its last call: another one leads at once.
    pub(crate) fn close(self) {
        if let Self::Clustered { replica, members, .. } = self {
            drop(replica);
            if let Some(members) = members
                && let Err(error) = members.leave()
            {
                say(format_args!("others wait until this server's lease has ended: {error}"));
            }
        }
    }
}

/// Where a server is reached, what it shows, and what it asks.
pub(crate) struct Listens<'a> {
    /// By which host.
    pub(crate) host: &'a str,
    /// By which port.
    pub(crate) port: u16,
    /// Its certificate and key, in PEM, where it has one.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// What it asks of those who call.
    pub(crate) asks: &'a ServeOptions,
}

impl ServersArgs {
    /// Where etcd is.
    #[cfg(test)]
    pub(crate) fn etcd_urls(&self) -> &[String] {
        &self.etcd.urls
    }

    /// Opens the store and joins the others; `None` where the flags say that this server is alone.
    pub(crate) fn join(&self, dir: &Path, listens: &Listens<'_>) -> Result<Option<JoinedServer>> {
        let (Some(cluster), Some(url)) = (&self.cluster, &self.store) else { return Ok(None) };
        let store = ClusterStore::open(url, cluster);
        let store = store.with_context(|| format!("opening the store at {url}"))?;
        let file = ReplicaFile::open(dir, store.cluster_id(), Uuid::new_v4());
        let file = file.with_context(|| format!("opening {}", dir.display()))?;
        let (members, tls) = match self.etcd.urls.is_empty() {
            true => (None, None),
            false => {
                let members = self.meet(cluster, store.cluster_id(), file.server(), listens)?;
                (Some(members), self.peer_tls(listens)?)
            }
        };
        let dir = dir.to_owned();
        let (generation_bytes, keep_log) = (self.generation_after, self.keep_log);
        let (gc_grace, held) = (self.gc_grace, Mutex::default());
        Ok(Some(JoinedServer {
            dir,
            store,
            file,
            members,
            tls,
            generation_bytes,
            keep_log,
            gc_grace,
            held,
        }))
    }

    /// Joins the others.
    fn meet(
        &self,
        cluster: &str,
        cluster_id: Uuid,
        server: Uuid,
        listens: &Listens<'_>,
    ) -> Result<Arc<ClusterMembership>> {
        let address = match &self.advertise {
            Some(address) => address.clone(),
            None if listens.port == 0 || matches!(listens.host, "0.0.0.0" | "::") => bail!(
                "--etcd needs to tell others where this server is: give --advertise HOST:PORT, or \
                 --host and --port by which they reach it"
            ),
            None if listens.host.contains(':') => format!("[{}]:{}", listens.host, listens.port),
            None => format!("{}:{}", listens.host, listens.port),
        };
        let etcd = self.etcd.connect(cluster, cluster_id, true)?;
        let info = ServerInfo {
            id: server,
            name: self.server_name.clone().unwrap_or_else(|| address.chars().take(64).collect()),
            address: address.clone(),
            peer_address: address,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            formats: FORMATS,
            regions: Vec::new(),
            key: ServerKey::draw(),
            guards: Some(guards(listens.asks, self.peer_ca.is_some())),
            started_ms: now().0,
        };
        let etcd: Arc<dyn Coordinator> = Arc::new(etcd);
        Ok(Arc::new(ClusterMembership::join(etcd, info).context("joining the cluster")?))
    }

    /// By what other servers are known, where they show certificates.
    fn peer_tls(&self, listens: &Listens<'_>) -> Result<Option<Arc<PeerTls>>> {
        match (&self.peer_ca, &listens.identity) {
            (Some(path), identity) => {
                let ca =
                    std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
                let (domain, identity) = (None, identity.clone());
                Ok(Some(Arc::new(PeerTls { ca, domain, identity })))
            }
            (None, Some(_)) => bail!("servers that encrypt need --peer-ca to know each other by"),
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_an_hour_at_least() {
        assert_eq!(parse_grace("36h"), Ok(Duration::from_secs(36 * 3600)));
        assert_eq!(parse_grace("1h"), Ok(LEAST_GRACE));
        for bad in ["", "59m", "0s", "an hour"] {
            parse_grace(bad).unwrap_err();
        }
    }
}
