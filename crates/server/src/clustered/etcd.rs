//! How etcd is reached: the flags, for servers and for those who look after them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use pipeann_members::etcd::{Etcd, Options, TlsFiles};
use uuid::Uuid;

/// How long the lease of a server is: another one leads so long after the leader has died.
const LEASE: Duration = Duration::from_secs(4);

/// Where etcd is, and who asks it.
#[derive(Clone, Args)]
pub struct EtcdArgs {
    /// Where etcd tells servers of each other, and which of them takes the writes: URLs with commas
    /// between. Without it the cluster has one server alone
    #[arg(
        id = "etcd",
        long = "etcd",
        value_name = "URLS",
        requires = "cluster",
        value_delimiter = ',',
        // The last list counts, as with every other flag; those of two lists are not joined.
        overrides_with = "etcd"
    )]
    pub urls: Vec<String>,
    /// User and password for etcd, as USER:PASSWORD
    #[arg(
        long,
        value_name = "USER",
        requires = "etcd",
        env = "PIPEANN_ETCD_USER",
        hide_env_values = true
    )]
    etcd_user: Option<String>,
    /// Who signs etcd's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// This program's certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    etcd_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

impl fmt::Debug for EtcdArgs {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdArgs").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl EtcdArgs {
    /// Connects for a cluster, which may begin there if `founds`.
    pub fn connect(&self, cluster: &str, cluster_id: Uuid, founds: bool) -> Result<Etcd> {
        let mut options = Options::new(cluster, cluster_id);
        (options.ttl, options.founds) = (LEASE, founds);
        if let Some(user) = &self.etcd_user {
            let Some((user, password)) = user.split_once(':') else {
                bail!("--etcd-user is USER:PASSWORD");
            };
            options.user = Some((user.to_owned(), password.to_owned()));
        }
        options.tls = self.etcd_ca.clone().map(|authority| TlsFiles {
            authority,
            identity: self.etcd_cert.clone().zip(self.etcd_key.clone()),
            server_name: None,
        });
        let urls: Vec<_> = self.urls.iter().map(String::as_str).collect();
        Etcd::connect(&urls, options).context("asking etcd")
    }
}
