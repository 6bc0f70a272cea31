//! Why a call is refused, and whether asking again helps.

use std::time::Duration;

use uuid::Uuid;

/// What went wrong. [`Error::is_passing`] tells what time may mend; the others want other input, or
/// somebody to look.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No URL answered.
    #[error("etcd cannot be reached at {urls}: {why}")]
    Unreachable {
        /// Where it was looked for.
        urls: String,
        /// The last answer, or that there was none.
        why: String,
    },
    /// It was asked, and the answer did not come in time. What was asked for may have happened.
    #[error("no answer within {0:?}; whether it was done is not known")]
    Late(Duration),
    /// The server has no lease at present.
    #[error("this server is not joined: {0}")]
    NotJoined(String),
    /// Another version of the value, or none, is there.
    #[error("{name} is at revision {revision}, where another was expected")]
    Conflict {
        /// The value's name.
        name: String,
        /// What is there; 0 for nothing.
        revision: u64,
    },
    /// Somebody else leads, or nobody.
    #[error("shard {0} is not led by this server")]
    NotLeader(u64),
    /// There is no live server of that id.
    #[error("there is no live server {0}")]
    NoServer(Uuid),
    /// A live server has the id or an address already.
    #[error("{what} {value} is taken by the live server {holder}")]
    Duplicate {
        /// Id or address.
        what: &'static str,
        /// Which.
        value: String,
        /// Whose it is.
        holder: String,
    },
    /// The name of the cluster is another cluster's.
    #[error(
        "the name {name} is used by the cluster {theirs}; this one is {ours}: give one of them another name. \
         Where that cluster is gone for good, `etcdctl del --prefix /pipeann/{name}/` frees its name"
    )]
    OtherCluster {
        /// The name.
        name: String,
        /// The id that was given.
        ours: Uuid,
        /// The id that stands in etcd.
        theirs: Uuid,
    },
    /// etcd is older than what is relied on.
    #[error("etcd at {url} is {version}; {least} is the oldest that serves")]
    TooOld {
        /// Which of them.
        url: String,
        /// What it says of itself.
        version: String,
        /// What is needed.
        least: &'static str,
    },
    /// User, password or certificate were not accepted.
    #[error("etcd refuses the credentials: {0}")]
    Credentials(String),
    /// What was given cannot be.
    #[error("{what}: {why}")]
    Invalid {
        /// Which argument.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A live server and this one do not read each other.
    #[error("the server {server} at {address}, of version {version}, is there: {why}")]
    Incompatible {
        /// What people call that server.
        server: String,
        /// Where it is reached.
        address: String,
        /// Its version.
        version: String,
        /// Which of them does not read what.
        why: String,
    },
    /// A live server asks something else of those who call than this one.
    #[error(
        "the server {server} at {address} is there: {why}. Servers of one cluster ask the same of those who \
         call: start this one as the others, or end all of them before that is changed"
    )]
    OtherGuards {
        /// What people call that server.
        server: String,
        /// Where it is reached.
        address: String,
        /// What one of them has and the other lacks.
        why: String,
    },
    /// A key was written by a later version, which is left alone.
    #[error("{key} has format {format}, of a later version than this one")]
    Newer {
        /// The key.
        key: String,
        /// Its format.
        format: u32,
    },
    /// A key holds what nobody wrote who belongs here.
    #[error("{key} cannot be read: {why}")]
    Unreadable {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no term after the last.
    #[error("shard {0} has no term left")]
    TermsEnd(u64),
    /// etcd refuses for a reason of its own.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// The connection was closed by its owner.
    #[error("the connection to etcd was closed")]
    Closed,
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Late(_) | Self::NotJoined(_))
    }
}
