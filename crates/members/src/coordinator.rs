//! What every implementation offers: the words and the two traits.
//!
//! All calls may come from any thread and block at most until a deadline. What is only looked at
//! ([`Coordinator::servers`], [`Coordinator::leader`], [`ClusterMember::leads`]) is answered from what a
//! watch has told, asks nobody, and may be a moment old.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::{Error, Notices, ServerInfo, Traffic};

/// The most shards that are told of, and that a server campaigns for.
pub const SHARDS_MAX: usize = 1 << 16;
/// The last term there can be; a greater one is refused.
pub const TERM_MAX: u64 = 1 << 62;
/// The longest value, in bytes.
pub const VALUE_MAX: usize = 64 << 10;
/// The most values that are listed at once.
pub const VALUES_MAX: usize = 10_000;

/// Whom to ask for a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadingServer {
    /// The shard.
    pub shard: u64,
    /// Who leads it.
    pub server: Uuid,
    /// Where clients reach that server.
    pub address: String,
    /// Since when, in terms: no two leaders of a shard have the same.
    pub term: u64,
}

/// A shard that is led here, at the moment of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// The term under which it is led.
    pub term: u64,
    /// For how long the lease under it certainly runs.
    pub left: Duration,
}

/// Whether a server stands under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Its lease certainly runs.
    Joined,
    /// It is not certain to run. It is joined again without being asked; until then it leads nothing.
    Lost {
        /// Since when, by the coordinator's clock.
        since: Duration,
        /// What is in the way.
        why: String,
    },
    /// It has left.
    Left,
}

/// A value of the small store for placement and jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Grows with each change; what [`PutIf::At`] compares.
    pub revision: u64,
}

/// What has to be there for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutIf {
    /// Whatever is there.
    Any,
    /// Nothing of that name.
    Absent,
    /// This version of it.
    At(u64),
}

/// Tells who is alive and who leads, and lets a server join.
pub trait Coordinator: Send + Sync {
    /// Puts a server under a lease that is renewed until it leaves or is dropped. An id or address of
    /// a live server is refused once a lease that a dead one left would have ended.
    fn join(&self, server: ServerInfo) -> Result<Arc<dyn ClusterMember>, Error>;

    /// Who is there, by id, as far as is known.
    fn servers(&self) -> Vec<ServerInfo>;

    /// Who leads a shard, as far as is known.
    fn leader(&self, shard: u64) -> Option<LeadingServer>;

    /// All leaders that are known, by shard.
    fn leaders(&self) -> Vec<LeadingServer>;

    /// Since when, by the coordinator's clock, nothing new has been heard; `None` while the watch runs.
    fn stale_since(&self) -> Option<Duration>;

    /// Tells what changes from now on.
    fn watch(&self) -> Notices;

    /// A value, as it is now.
    fn value(&self, name: &str) -> Result<Option<StoredValue>, Error>;

    /// All values whose names begin so, by name; refused where they are more than [`VALUES_MAX`].
    fn values(&self, prefix: &str) -> Result<Vec<StoredValue>, Error>;

    /// Writes a value and returns its revision.
    fn put_value(&self, name: &str, bytes: &[u8], when: PutIf) -> Result<u64, Error>;

    /// Removes a value; whether it was there.
    fn remove_value(&self, name: &str, when: PutIf) -> Result<bool, Error>;

    /// What has been sent and lost so far.
    fn traffic(&self) -> Traffic;
}

/// A server that has joined.
pub trait ClusterMember: Send + Sync {
    /// What it told of itself.
    fn server(&self) -> &ServerInfo;

    /// Whether its lease runs.
    fn standing(&self) -> Standing;

    /// Stands for a shard until [`ClusterMember::resign`], again after each loss. Terms begin above
    /// `at_least`, the newest in the shard's log; whoever leads below that is given a newer term.
    fn campaign(&self, shard: u64, at_least: u64) -> Result<(), Error>;

    /// Stops leading and standing.
    fn resign(&self, shard: u64) -> Result<(), Error>;

    /// Hands a shard that is led here to another live server, under a newer term and with no moment
    /// between. This server stops standing for it. One that does not stand for it gives it up again.
    fn transfer(&self, shard: u64, to: Uuid) -> Result<LeadingServer, Error>;

    /// Whether this server leads a shard for certain, and for how long that certainly stays so.
    fn leads(&self, shard: u64) -> Option<Lead>;

    /// All shards that it leads for certain.
    fn led(&self) -> Vec<LeadingServer>;

    /// For how long the lease certainly runs, counted from the sending of the last renewal that was
    /// answered, less a margin for clocks of different speeds.
    fn lease_left(&self) -> Duration;

    /// Ends the lease and all that stands under it. Dropping does the same, and does not tell.
    fn leave(&self) -> Result<(), Error>;
}

/// Refuses names of values that are no paths of plain parts.
pub(crate) fn check_value_name(name: &str) -> Result<(), Error> {
    let sound = (1..=512).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b));
    if sound {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let why = format!("{shown:?} is not of 1 to 512 letters, digits and -_.:/");
    Err(Error::Invalid { what: "name of a value", why })
}

/// Refuses a value that is too long.
pub(crate) fn check_value(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() <= VALUE_MAX {
        return Ok(());
    }
    let why = format!("has {} bytes, {VALUE_MAX} are the most", bytes.len());
    Err(Error::Invalid { what: "value", why })
}

/// Refuses a term that nothing can follow.
pub(crate) fn check_term(at_least: u64) -> Result<(), Error> {
    if at_least < TERM_MAX {
        return Ok(());
    }
    let why = format!("{at_least} is not below {TERM_MAX}");
    Err(Error::Invalid { what: "newest term in the log", why })
}
