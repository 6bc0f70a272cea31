//! What the door asks of the other servers, answered by this server's replica and its members.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::catalog::CollectionId;
use pipeann_milvus::{
    CatchUp, LeaderAt, PeerTls, Peers, PeersError, ReadTime, ServerAt, SharedLogEnd,
};
use pipeann_replica::{ClusterMembership, Elected, ReadFreshness as Wanted, Replica, ReplicaError};
use pipeann_store::Position;

/// See the module's description.
pub(super) struct ClusterPeers {
    pub(super) replica: Arc<Replica>,
    /// Without it this server is the only one.
    pub(super) members: Option<Arc<ClusterMembership>>,
    /// By what other servers are known, where connections are encrypted.
    pub(super) tls: Option<Arc<PeerTls>>,
}

impl fmt::Debug for ClusterPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPeers").field("replica", &self.replica).finish_non_exhaustive()
    }
}

impl ClusterPeers {
    fn at(&self, address: &str) -> ServerAt {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        ServerAt { uri: format!("{scheme}://{address}"), tls: self.tls.clone() }
    }
}

fn wanted(read: ReadTime) -> Wanted {
    match read {
        ReadTime::Latest => Wanted::Latest,
        ReadTime::AtLeast(timestamp) => Wanted::AtLeast(timestamp),
        ReadTime::Bounded { staleness_ms, at_least } => {
            Wanted::Bounded { staleness: Duration::from_millis(staleness_ms), at_least }
        }
        ReadTime::Any => Wanted::Any,
    }
}

impl Peers for ClusterPeers {
    fn leader(&self) -> LeaderAt {
        match self.replica.elected() {
            Elected::Me => LeaderAt::Here,
            Elected::Other { address } => LeaderAt::There(self.at(&address)),
            Elected::Nobody { why } => LeaderAt::Unknown(why),
        }
    }

    fn catch_up(
        &self,
        _collection: Option<CollectionId>,
        read: ReadTime,
        deadline: Instant,
    ) -> CatchUp<'_> {
        let wanted = wanted(read);
        if self.replica.has(wanted) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let replica = Arc::clone(&self.replica);
        Box::pin(async move {
            let waited = tokio::task::spawn_blocking(move || replica.catch_up(wanted, deadline));
            let behind = |why: String| PeersError::Behind(why);
            let waited = waited.await.map_err(|error| behind(error.to_string()))?;
            waited.map_err(|error| match error {
                ReplicaError::Log(error) => PeersError::NoLeader(error.to_string()),
                error => behind(error.to_string()),
            })
        })
    }

    fn timestamp(&self) -> u64 {
        self.replica.timestamp()
    }

    fn others(&self) -> Vec<ServerAt> {
        let others = self.members.as_ref().map_or_else(Vec::new, |members| members.others());
        others.iter().map(|server| self.at(&server.address)).collect()
    }

    fn look(&self) {
        self.replica.nudge();
    }

    fn leads_up_to(&self) -> Option<SharedLogEnd> {
        let Position { term, number } = self.replica.leads_up_to()?;
        Some(SharedLogEnd { term, number })
    }

    fn heard(&self, SharedLogEnd { term, number }: SharedLogEnd, asked: Instant) {
        self.replica.heard(Position { term, number }, asked);
    }

    fn number(&self) -> u8 {
        self.members.as_ref().map_or(0, |members| members.number())
    }

    fn server(&self, number: u8) -> Option<ServerAt> {
        let server = self.members.as_ref()?.server(number)?;
        Some(self.at(&server.address))
    }
}
