//! The coordinator on etcd.
//!
//! `calls` asks, `founding` claims the name of the cluster, `watching` feeds the view,
//! `keeping` renews a lease, `electing` campaigns, `seat` is what a caller holds of a server. They share
//! what is in `shared`; the last three, of each server that has joined, what is in `holding`.
//!
//! All of it runs on one thread of its own with a small runtime. In the runtime of the doors a
//! renewal would wait behind whatever a busy server computes there; a thread that sleeps nearly all
//! of the time is scheduled by the kernel before those that use up their share. A lease needs a few
//! microseconds of it every other second.

mod calls;
mod connection;
mod electing;
mod founding;
mod holding;
mod keeping;
mod runner;
mod seat;
mod shared;
mod transactions;
mod values;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub use connection::Etcd;

use crate::{BootClock, Boottime};

/// How etcd is reached, and as what.
#[derive(Clone)]
pub struct Options {
    /// The name of the cluster, which its keys begin with.
    pub cluster_name: String,
    /// Which cluster it is: the id of its store. Another one of the same name is refused. Nil stands for
    /// whichever it is, where none is founded.
    pub cluster: Uuid,
    /// Whether the cluster begins here where etcd knows none of the name; who only looks begins none.
    pub founds: bool,
    /// User and password, where etcd asks for them.
    pub user: Option<(String, String)>,
    /// Certificates; without them URLs with `https` are believed by nobody's authority and fail.
    pub tls: Option<TlsFiles>,
    /// How long a lease is, in whole seconds from 1 to 60. The first server of a cluster decides; the
    /// others take what it chose.
    pub ttl: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long each call may take.
    pub call_timeout: Duration,
    /// How long joining waits for the lease of a dead server of the same id or address, beyond the
    /// length of a lease.
    pub join_patience: Duration,
    /// What leases are counted by.
    pub clock: Arc<dyn BootClock>,
}

impl Options {
    /// With the usual times.
    pub fn new(cluster_name: &str, cluster: Uuid) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            cluster,
            founds: true,
            user: None,
            tls: None,
            ttl: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(3),
            join_patience: Duration::from_secs(10),
            clock: Arc::new(Boottime),
        }
    }
}

/// Files of PEM, read when connecting.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The authority that etcd's certificate is of.
    pub authority: PathBuf,
    /// Our own certificate and its key, where etcd asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in etcd's certificate, where it is not that of the URL.
    pub server_name: Option<String>,
}
