//! A connection to etcd: opened within a deadline or refused by name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::runner::Runner;
use super::seat::Seated;
use super::shared::Shared;
use super::{Options, founding, values, watching};
use crate::coordinator::{check_value, check_value_name};
use crate::keys::KeySpace;
use crate::lease::{TTL_MAX, TTL_MIN};
use crate::{
    ClusterMember, Coordinator, Error, LeadingServer, Notices, PutIf, ServerInfo, StoredValue,
    Traffic,
};

/// The most URLs.
const URLS_MAX: usize = 16;
/// etcd takes it for an attack to be asked more often than every five seconds whether it is there.
const PING: Duration = Duration::from_secs(6);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// The coordinator on etcd.
pub struct Etcd {
    shared: Arc<Shared>,
    runner: Arc<Runner>,
    call_timeout: Duration,
}

impl Etcd {
    /// Connects, claims the name of the cluster or finds that it is its own, and reads who is there.
    pub fn connect(urls: &[&str], options: Options) -> Result<Self, Error> {
        let keys = KeySpace::new(&options.cluster_name)?;
        if !(TTL_MIN..=TTL_MAX).contains(&options.ttl) || options.ttl.subsec_nanos() != 0 {
            let why = format!("{:?} is not of 1 to 60 whole seconds", options.ttl);
            return Err(Error::Invalid { what: "length of leases", why });
        }
        if options.cluster.is_nil() && options.founds {
            return Err(Error::Invalid { what: "id of the cluster", why: "is nil".into() });
        }
        let endpoints = endpoints(urls, &options)?;
        let runner = Arc::new(Runner::start()?);
        let shared = {
            let _inside = runner.handle().enter();
            Arc::new(Shared::new(keys, endpoints, &options))
        };
        let connecting = Arc::clone(&shared);
        let last = Arc::new(Mutex::new(String::from("no answer in time")));
        let reason = Arc::clone(&last);
        let opened =
            runner.wait(options.connect_timeout, async move { open(connecting, &reason).await });
        opened.map_err(|e| match e {
            Error::Late(_) => {
                let why = last.lock().expect("nothing panics under this lock").clone();
                Error::Unreachable { urls: shared.calls.urls(), why }
            }
            e => e,
        })?;
        Ok(Self { shared, runner, call_timeout: options.call_timeout })
    }

    /// How long leases are in this cluster.
    pub fn ttl(&self) -> Duration {
        self.shared.ttl()
    }
}

async fn open(shared: Arc<Shared>, last: &Mutex<String>) -> Result<(), Error> {
    let charter = loop {
        match founding::check(&shared).await {
            Ok(charter) => break charter,
            // The next URL has its turn, until the caller's deadline.
            Err(e) if e.is_passing() => {
                *last.lock().expect("nothing panics under this lock") = match e {
                    Error::Unreachable { why, .. } => why,
                    e => e.to_string(),
                };
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(e) => return Err(e),
        }
    };
    shared.agree_on_ttl(Duration::from_secs(charter.ttl_s.into()));
    let revision = watching::list(&shared).await?;
    tokio::spawn(watching::watch(shared, Some(revision)));
    Ok(())
}

fn endpoints(urls: &[&str], options: &Options) -> Result<Vec<(String, Endpoint)>, Error> {
    let invalid = |what, why: String| Error::Invalid { what, why };
    if !(1..=URLS_MAX).contains(&urls.len()) {
        return Err(invalid(
            "URLs of etcd",
            format!("{} are given, not 1 to {URLS_MAX}", urls.len()),
        ));
    }
    let tls = tls(options)?;
    let one = |url: &&str| {
        let refused = |why: &str| invalid("URL of etcd", format!("{url}: {why}"));
        let endpoint =
            Endpoint::from_shared((*url).to_owned()).map_err(|e| refused(&e.to_string()))?;
        let is_tls = match endpoint.uri().scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refused("begins neither with http:// nor with https://")),
        };
        let endpoint = endpoint
            .connect_timeout(options.call_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        let endpoint = match (is_tls, &tls) {
            (false, None) => endpoint,
            (false, Some(_)) => {
                return Err(refused("is not encrypted, and certificates are given"));
            }
            (true, None) => return Err(refused("needs the certificate of an authority")),
            (true, Some(tls)) => {
                endpoint.tls_config(tls.clone()).map_err(|e| refused(&format!("{e:?}")))?
            }
        };
        Ok(((*url).to_owned(), endpoint))
    };
    urls.iter().map(one).collect()
}

fn tls(options: &Options) -> Result<Option<ClientTlsConfig>, Error> {
    let Some(files) = &options.tls else { return Ok(None) };
    let read = |path: &std::path::Path| {
        let why = |e| format!("{}: {e}", path.display());
        std::fs::read(path).map_err(|e| Error::Invalid { what: "certificates", why: why(e) })
    };
    let mut config =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&files.authority)?));
    if let Some((certificate, key)) = &files.identity {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    if let Some(name) = &files.server_name {
        config = config.domain_name(name);
    }
    Ok(Some(config))
}

impl Coordinator for Etcd {
    fn join(&self, server: ServerInfo) -> Result<Arc<dyn ClusterMember>, Error> {
        server.check()?;
        Ok(Arc::new(Seated::take(&self.shared, &self.runner, self.call_timeout, server)?))
    }

    fn servers(&self) -> Vec<ServerInfo> {
        self.shared.view.servers()
    }

    fn leader(&self, shard: u64) -> Option<LeadingServer> {
        self.shared.view.leader(shard)
    }

    fn leaders(&self) -> Vec<LeadingServer> {
        self.shared.view.leaders()
    }

    fn stale_since(&self) -> Option<Duration> {
        self.shared.view.stale_since()
    }

    fn watch(&self) -> Notices {
        self.shared.view.subscribers.subscribe(None, None)
    }

    fn value(&self, name: &str) -> Result<Option<StoredValue>, Error> {
        check_value_name(name)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.runner.wait(self.call_timeout, async move { values::get(&shared, &name).await })
    }

    fn values(&self, prefix: &str) -> Result<Vec<StoredValue>, Error> {
        if !prefix.is_empty() {
            check_value_name(prefix)?;
        }
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_owned());
        self.runner.wait(self.call_timeout, async move { values::list(&shared, &prefix).await })
    }

    fn put_value(&self, name: &str, bytes: &[u8], when: PutIf) -> Result<u64, Error> {
        check_value_name(name)?;
        check_value(bytes)?;
        let (shared, name, bytes) = (Arc::clone(&self.shared), name.to_owned(), bytes.to_vec());
        self.runner.wait(self.call_timeout, async move {
            values::change(&shared, &name, Some(bytes), when).await.map(|(revision, _)| revision)
        })
    }

    fn remove_value(&self, name: &str, when: PutIf) -> Result<bool, Error> {
        check_value_name(name)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.runner.wait(self.call_timeout, async move {
            values::change(&shared, &name, None, when).await.map(|(_, removed)| removed)
        })
    }

    fn traffic(&self) -> Traffic {
        self.shared.tallies.traffic()
    }
}
