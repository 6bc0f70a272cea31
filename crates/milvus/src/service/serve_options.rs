//! How the network is used: settings, bounds of messages, and why nothing is served.

use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;

use pipeann_db::scheduler::SchedulerOptions;

use super::access_log::AccessLog;
use super::network_limits::NetworkLimits;
use super::peers::Peers;

/// Where Milvus listens.
pub const DEFAULT_PORT: u16 = 19530;
/// Where Milvus tells its metrics.
pub const DEFAULT_METRICS_PORT: u16 = 9091;
/// The largest request. Clients cut what they insert accordingly.
pub(super) const MAX_REQUEST_BYTES: usize = 64 << 20;
/// The largest question for health, which is the name of a service.
pub(super) const MAX_HEALTH_BYTES: usize = 1 << 10;
/// The largest answer.
pub(super) const MAX_ANSWER_BYTES: usize = 256 << 20;
/// Bytes of one request, and of all on one connection, that a client may send before they are read: as
/// many as a thread copies before others get their turn. With 4 MiB, searches beside large messages
/// take twice as long in the 99th percentile, and inserts are no faster.
pub(super) const WINDOW_BYTES: u32 = 256 << 10;
/// Calls of one connection that are under way; what comes beyond waits with the client.
pub(super) const CALLS_OF_CONNECTION: u32 = 128;

/// How the network is used.
#[derive(Clone)]
pub struct ServeOptions {
    /// Address to listen on; a name or a number.
    pub host: String,
    /// Port; 0 for any that is free.
    pub port: u16,
    /// Searches that are done at once, and as many other calls; 0 for numbers by the CPUs.
    pub threads: usize,
    /// Whether searches that wait and are alike are done together.
    pub merge: bool,
    /// Whether a collection that is read before it is loaded is loaded then, as in Milvus Lite. What
    /// was released stays so.
    pub auto_load: bool,
    /// Address to tell metrics on: whoever reaches it learns names of collections and how much is
    /// done in them.
    pub metrics_host: String,
    /// Port for metrics, 0 for any that is free; none are told unless given.
    pub metrics_port: Option<u16>,
    /// What clients have to send: `user:password`, or a key. Nothing is asked for where it is none.
    pub token: Option<String>,
    /// Whether clients are asked who they are, and may do what the users of the database may.
    pub authorization: bool,
    /// What connections are encrypted with, if they are.
    pub tls: Option<ServerTls>,
    /// How much of the network clients may have.
    pub limits: NetworkLimits,
    /// Who is told of each call.
    pub access_log: Option<Arc<dyn AccessLog>>,
    /// The other servers, where this one is not alone.
    pub peers: Option<Arc<dyn Peers>>,
    /// What listens already, by [`bind`](super::bind), in the place of host and port.
    pub socket: Option<Arc<TcpListener>>,
}

/// What connections are encrypted with, as PEM.
#[derive(Clone)]
pub struct ServerTls {
    /// The server's certificates, its own first.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Who signs the certificates that clients have to show; they need none unless given.
    pub client_ca: Option<Vec<u8>>,
}

impl fmt::Debug for ServerTls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Default for ServeOptions {
    /// All addresses, the port of Milvus.
    fn default() -> Self {
        Self {
            host: "0.0.0.0".to_owned(),
            port: DEFAULT_PORT,
            threads: 0,
            merge: true,
            auto_load: false,
            metrics_host: "127.0.0.1".to_owned(),
            metrics_port: None,
            token: None,
            authorization: false,
            tls: None,
            limits: NetworkLimits::default(),
            access_log: None,
            peers: None,
            socket: None,
        }
    }
}

impl ServeOptions {
    /// Those of the scheduler.
    pub(super) fn scheduler(&self) -> SchedulerOptions {
        let options = SchedulerOptions { merge: self.merge, ..SchedulerOptions::default() };
        match self.threads {
            0 => options,
            at_once => SchedulerOptions { at_once, ..options },
        }
    }
}

impl fmt::Debug for ServeOptions {
    /// Without the token, which is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("threads", &self.threads)
            .field("merge", &self.merge)
            .finish_non_exhaustive()
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or none of this machine.
    #[error("cannot listen on {host}:{port}: {source}")]
    Address {
        /// The host given.
        host: String,
        /// The port given.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// No socket can be made there.
    #[error("cannot listen on {path}: {source}")]
    Socket {
        /// The path given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A certificate or a key that cannot be used.
    #[error("connections cannot be encrypted: {why}")]
    Tls {
        /// What is wrong.
        why: String,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Options(&'static str),
    /// Threads cannot be made.
    #[error("the server cannot begin: {0}")]
    Runtime(#[source] std::io::Error),
}
