//! What a server that is one of several knows of the others.
//!
//! One of them leads: it alone takes writes and changes of the catalogue. The others have all data a
//! moment later. How they agree on that, and how data comes to them, is the business of whoever
//! implements [`Peers`]; here is what the doors ask, and what they rely on. A server without it is alone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::catalog::CollectionId;
use subtle::ConstantTimeEq as _;

pub use crate::convert::read_time::ReadTime;
use crate::metrics::MetricFamily;

/// So many calls may wait on a thread of the door's for what [`Peers`] are asked; threads are there for
/// these beside those that calls are answered on.
pub fn peers_waiting() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (WAITING_PER_CPU * cpus).max(LEAST_WAITING)
}

const WAITING_PER_CPU: usize = 16;
const LEAST_WAITING: usize = 64;

/// Returns when the data is new enough.
pub type CatchUp<'a> = Pin<Box<dyn Future<Output = Result<(), PeersError>> + Send + 'a>>;

/// The other servers.
///
/// # What has to hold
///
/// 1. *Reads see what was answered.* A read at any server after `catch_up` with
///    [`ReadTime::Latest`] sees every write and every change of the catalogue that was answered,
///    anywhere, before `catch_up` was called. At a server that leads, it returns only if that
///    server still led after it was called.
/// 2. *Timestamps name writes.* The leader's [`timestamp`](Self::timestamp), asked after a write is
///    durable and visible, names it: after `catch_up` with [`ReadTime::AtLeast`] this one or a later
///    one, a read at any server sees the write. So what the log takes after the leader gave out a
///    timestamp stands behind it, what was answered before stands at it or before it, and a server
///    has applied a timestamp when it has applied everything that stands at it or before it. No
///    timestamp is given out that the next write has yet to bring, or reads would wait for it; where
///    nothing is written the leader says so, so that what the others have counts as fresh.
/// 3. *Timestamps grow*, also over a change of the leader, and over a restart of all.
/// 4. *What is taken away is gone everywhere.* A drop, rows that are truncated, a change of an alias, a right that is revoked, a
///    password that is changed and a field that is added are answered when every server that
///    answers reads has them. So names that are known here are not looked up anew for every search;
///    those that are not known are looked up with `catch_up(None, Latest)`, and then refused. At a server
///    that the others may not have waited for, `catch_up` returns when it has what is newest, whatever was
///    asked for.
/// 5. *Who does not lead changes nothing.* It is made sure who leads when a request is there; a call that
///    began then may end when another server leads, and the database refuses the write. A change that finds
///    nothing to do is no write: so whoever answers it led for certain after it came.
pub trait Peers: Send + Sync + fmt::Debug {
    /// Who leads now. Asked at each call that goes to the leader, so it must not wait.
    fn leader(&self) -> LeaderAt;

    /// Returns where this server leads, and led still after it was asked. Asked for each call that goes to
    /// the leader, so it waits only where that is not known without.
    fn confirm_lead(&self, deadline: Instant) -> CatchUp<'_>;

    /// Returns when this server's data is as new as a read wants; or says that it is not so: at the
    /// deadline, or before that where it is not known what is newest. `collection` is what is read;
    /// without one it is the catalogue, users and roles among it. Dropped, nobody waits any more.
    fn catch_up(
        &self,
        collection: Option<CollectionId>,
        wanted: ReadTime,
        deadline: Instant,
    ) -> CatchUp<'_>;

    /// A timestamp for what is answered now: milliseconds since 1970 above 18 bits that count, and even.
    /// At the leader it names all that was answered; at another server it is that of what it has
    /// applied.
    fn timestamp(&self) -> u64;

    /// A change that this server sent on was answered, and is named by this timestamp: reads of level
    /// Bounded that come to this server later see it.
    fn wrote(&self, timestamp: u64);

    /// The other servers that are there: whose leases have not ended.
    fn others(&self) -> Vec<ServerAt>;

    /// Has it looked at once whether there is something to be applied.
    fn look(&self);

    /// How far the log goes, where this server leads for certain after it was asked.
    fn leads_up_to(&self) -> Option<SharedLogEnd>;

    /// A moment now, by a clock that goes on while the machine is suspended.
    fn moment(&self) -> Duration;

    /// The leader, asked at this [moment](Self::moment), said that the log goes so far.
    fn heard(&self, end: SharedLogEnd, asked: Duration);

    /// The number of this server, which no other one has. It stands in the timestamps of iterators.
    fn number(&self) -> u8;

    /// What this server is shown by others that ask it as servers; without it none may.
    fn key(&self) -> Option<PeerKey> {
        None
    }

    /// What another server wants to be shown, where that is known.
    fn key_of(&self, server: &ServerAt) -> Option<PeerKey> {
        let _ = server;
        None
    }

    /// Whether this server and all others that are there have told what they are to be shown; a server
    /// that has not shows nothing itself.
    fn are_all_keyed(&self) -> bool {
        false
    }

    /// The leader, where that is another server, and what it wants to be shown.
    fn leading_peer(&self) -> Option<(ServerAt, PeerKey)> {
        None
    }

    /// The server with a number, if it is there.
    fn server(&self, number: u8) -> Option<ServerAt>;

    /// Figures for whoever watches this server.
    fn families(&self) -> Vec<MetricFamily> {
        Vec::new()
    }

    /// What this server is among the others, as JSON, for those who look after them.
    fn figures(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Whether it is about to end, and wants no new callers.
    fn is_ending(&self) -> bool {
        false
    }
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLogEnd {
    /// The term of its last object.
    pub term: u64,
    /// The number of it.
    pub number: u64,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderAt {
    /// This server.
    Here,
    /// Another one.
    There(ServerAt),
    /// Nobody that is known; the text says why, to whoever calls.
    Unknown(String),
}

/// What a server tells the others of its cluster alone, to know them by.
#[derive(Clone)]
pub struct PeerKey(Arc<str>);

impl PeerKey {
    /// The key of this text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Its text, for the server whose it is.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is this, compared in a time that tells nothing.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl fmt::Debug for PeerKey {
    /// Without its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey")
    }
}

/// Where another server takes calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAt {
    /// As `http://10.0.0.7:19530`, or `https://` where there is TLS.
    pub uri: String,
    /// What it is known by, and this server to it.
    pub tls: Option<Arc<PeerTls>>,
}

/// What another server is known by, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerTls {
    /// Who signs the certificates of servers.
    pub ca: Vec<u8>,
    /// The name in its certificate, where that is not the host.
    pub domain: Option<String>,
    /// This server's certificate and key, where others ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for PeerTls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerTls").field("domain", &self.domain).finish_non_exhaustive()
    }
}

/// Why data is not as new as a read wants. The same read may be answered a little later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// There is nobody to ask what is newest.
    #[error("no server leads now: {0}; try again")]
    NoLeader(String),
    /// It did not become so in time.
    #[error("this server's data is not as new as the read asks for: {0}; try again")]
    Behind(String),
}
