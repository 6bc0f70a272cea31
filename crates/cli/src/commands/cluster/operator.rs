//! What those who look after a cluster ask it by, and `pipeann cluster drain`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_members::etcd::Etcd;
use pipeann_members::{Coordinator, ServerInfo};
use pipeann_milvus::{PeerTls, ServerAt};
use pipeann_replica::{ask_to_drain, forget_drain};
use pipeann_server::EtcdArgs;
use pipeann_store::ClusterStore;
use uuid::Uuid;

use crate::table::print_line;

/// How long the store is asked again where it does not answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked whether a server has gone.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long that is waited for at most.
const LONGEST_S: u64 = 7 * 24 * 3600;

/// Which cluster, and who asks: the flags of `pipeann serve`.
#[derive(Args)]
pub(super) struct OperatorArgs {
    /// The cluster's name
    #[arg(long, value_name = "NAME")]
    pub(super) cluster: String,
    /// Where the cluster keeps what must not be lost: file:///DIRECTORY or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL")]
    pub(super) store: String,
    #[command(flatten)]
    pub(super) etcd: EtcdArgs,
    /// Who signs the certificates of servers, in PEM, where connections to them are encrypted
    #[arg(long, value_name = "FILE")]
    peer_ca: Option<PathBuf>,
    /// The certificate that servers ask for, in PEM
    #[arg(long, alias = "tls_cert", value_name = "FILE", requires_all = ["tls_key", "peer_ca"])]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, alias = "tls_key", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// What clients send to servers as their token: USER:PASSWORD, or a key
    #[arg(long, value_name = "TOKEN", env = "PIPEANN_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
}

impl fmt::Debug for OperatorArgs {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorArgs")
            .field("cluster", &self.cluster)
            .field("store", &self.store)
            .field("etcd", &self.etcd)
            .finish_non_exhaustive()
    }
}

impl OperatorArgs {
    /// Opens the store, to read.
    pub(super) fn open_store(&self) -> Result<ClusterStore> {
        ClusterStore::open_to_read(&self.store, &self.cluster, PATIENCE)
            .with_context(|| format!("opening the store at {}", self.store))
    }

    /// Connects to etcd; nothing begins there.
    pub(super) fn connect(&self, cluster_id: Uuid) -> Result<Etcd> {
        self.etcd.connect(&self.cluster, cluster_id, false)
    }

    /// Where servers are asked.
    pub(super) fn servers(&self, of: &[ServerInfo]) -> Result<Vec<ServerAt>> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("reading {}", path.display()))
        };
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let ca = self.peer_ca.as_ref().map(read).transpose()?;
        let tls = ca.map(|ca| Arc::new(PeerTls { ca, domain: None, identity }));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let at = |server: &ServerInfo| ServerAt {
            uri: format!("{scheme}://{}", server.peer_address),
            tls: tls.clone(),
        };
        Ok(of.iter().map(at).collect())
    }
}

/// Have a server of a database (`pipeann serve --cluster`) end in order: it hands its lead over, takes
/// no more calls, answers those under way, and ends with the code 0
#[derive(Debug, Args)]
#[command(mut_arg("etcd", |etcd| etcd.required(true).help(
    "Where etcd tells servers of each other, and by which the server is asked to end: URLs with commas between"
)))]
pub(crate) struct DrainArgs {
    /// The server: its name, its address or its id, as `pipeann cluster status` shows them
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Seconds to wait until it has gone, which is known when its lease would have ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(..=LONGEST_S))]
    wait: u64,
    /// Also where it is the only server that is there
    #[arg(long)]
    last: bool,
}

/// Runs `pipeann cluster drain`.
pub(crate) fn drain(args: &DrainArgs) -> Result<()> {
    // Who may write to etcd may have servers end; the store's id keeps other clusters of the name out.
    let store = args.operator.open_store()?;
    let etcd = args.operator.connect(store.cluster_id())?;
    let servers = etcd.servers();
    let server = found(&servers, &args.server)?;
    ensure!(
        servers.len() > 1 || args.last,
        "{} is the only server that is there; --last ends it all the same",
        server.name
    );
    ask_to_drain(&etcd, server).context("asking the server by etcd")?;
    let until = Instant::now() + Duration::from_secs(args.wait);
    let notices = etcd.watch();
    let same = |it: &ServerInfo| it.id == server.id && it.started_ms == server.started_ms;
    let mut absence = Absence::default();
    loop {
        // What etcd does not tell of may have changed.
        let is_there = etcd.stale_since().is_some() || etcd.servers().iter().any(same);
        let now = Instant::now();
        if absence.lasts(is_there, now, etcd.ttl()) {
            break;
        }
        if is_there && now >= until {
            bail!(
                "{} was asked to end, and is there after {} s still; it ends when its calls have",
                server.name,
                args.wait
            );
        }
        notices.next(BETWEEN_LOOKS);
    }
    forget_drain(&etcd, server.id).context("it has ended, and etcd")?;
    print_line(&format!("{} at {} has ended", server.name, server.address))
}

/// Since when a server is not there. One that lives joins again, where it has lost its lease for a moment.
#[derive(Default)]
struct Absence {
    since: Option<Instant>,
}

impl Absence {
    /// Whether it has been away for as long as a lease is.
    fn lasts(&mut self, is_there: bool, now: Instant, lease: Duration) -> bool {
        if is_there {
            self.since = None;
            return false;
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= lease
    }
}

/// The one server that is called so.
fn found<'s>(servers: &'s [ServerInfo], called: &str) -> Result<&'s ServerInfo> {
    let is_called = |server: &&ServerInfo| {
        server.name == called || server.address == called || server.id.to_string() == called
    };
    let all: Vec<_> = servers.iter().filter(is_called).collect();
    match all[..] {
        [one] => Ok(one),
        [] => {
            let names: Vec<_> = servers.iter().map(|server| &*server.name).collect();
            bail!("no server {called} is there; there are: {}", names.join(", "))
        }
        _ => bail!("{} servers are called {called}; name one by its address or id", all.len()),
    }
}

#[cfg(test)]
mod tests {
    use pipeann_members::{ServerKey, SharedFormats};

    use super::*;

    fn server(id: u128, name: &str) -> ServerInfo {
        ServerInfo {
            id: Uuid::from_u128(id),
            name: name.into(),
            address: format!("10.0.0.{id}:1"),
            peer_address: format!("10.0.0.{id}:1"),
            version: "0.1.0".into(),
            formats: SharedFormats::FIRST,
            regions: Vec::new(),
            key: ServerKey::default(),
            guards: None,
            started_ms: 0,
        }
    }

    /// `drain` as it is called.
    #[derive(Debug, clap::Parser)]
    struct Called {
        #[command(flatten)]
        drain: DrainArgs,
    }

    #[test]
    fn a_server_that_comes_back_within_a_lease_has_not_ended() {
        let (from, lease) = (Instant::now(), Duration::from_secs(4));
        let mut absence = Absence::default();
        let mut lasts = |is_there, tenths| {
            absence.lasts(is_there, from + Duration::from_millis(100) * tenths, lease)
        };
        assert!(!lasts(true, 0) && !lasts(false, 1) && !lasts(false, 40));
        assert!(!lasts(true, 41), "it has joined again");
        assert!(!lasts(false, 42) && !lasts(false, 81));
        assert!(lasts(false, 82));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let called = |wait: &str| {
            let of = ["drain", "a", "--cluster", "c", "--store", "file:///s"];
            let all = of.into_iter().chain(["--etcd", "http://e", "--wait", wait]);
            <Called as clap::Parser>::try_parse_from(all)
        };
        assert_eq!(called("60").unwrap().drain.wait, 60);
        for wait in [u64::MAX, LONGEST_S + 1] {
            assert!(called(&wait.to_string()).is_err(), "{wait}");
        }
    }

    #[test]
    fn it_asks_for_etcd() {
        let of = ["drain", "a", "--cluster", "c", "--store", "file:///s"];
        let refused = <Called as clap::Parser>::try_parse_from(of).unwrap_err().to_string();
        assert!(refused.contains("--etcd <URLS>"), "{refused}");
        let mut command = <Called as clap::CommandFactory>::command();
        assert!(!command.render_long_help().to_string().contains("one server alone"));
    }

    #[test]
    fn a_server_is_found_by_name_address_and_id_and_only_where_it_is_one() {
        let all = [server(1, "a"), server(2, "b"), server(3, "b")];
        assert_eq!(found(&all, "a").unwrap().id, all[0].id);
        assert_eq!(found(&all, "10.0.0.2:1").unwrap().id, all[1].id);
        assert_eq!(found(&all, &all[2].id.to_string()).unwrap().id, all[2].id);
        let refused = found(&all, "b").unwrap_err().to_string();
        assert!(refused.starts_with("2 servers are called b"), "{refused}");
        let refused = found(&all, "c").unwrap_err().to_string();
        assert_eq!(refused, "no server c is there; there are: a, b, b");
    }
}
