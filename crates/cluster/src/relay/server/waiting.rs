//! Queries of which something waits for room at a peer.

use std::collections::{BTreeSet, HashMap};

use crate::wire::{PeerId, QueryId};

/// Such queries, by the peer.
#[derive(Debug, Default)]
pub(super) struct WaitingQueries(HashMap<PeerId, BTreeSet<QueryId>>);

impl WaitingQueries {
    /// Something of a query waits.
    pub(super) fn note(&mut self, peer: PeerId, query: QueryId) {
        self.0.entry(peer).or_default().insert(query);
    }

    /// Nothing of it does any more.
    pub(super) fn forget(&mut self, peer: PeerId, query: QueryId) {
        let Some(queries) = self.0.get_mut(&peer) else { return };
        queries.remove(&query);
        if queries.is_empty() {
            self.0.remove(&peer);
        }
    }

    /// The first that waits for a peer, in an order that no hash decides.
    pub(super) fn first(&self, peer: PeerId) -> Option<QueryId> {
        self.0.get(&peer)?.first().copied()
    }
}
