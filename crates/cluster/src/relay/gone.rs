//! Who is not there for a query: servers that are gone, and such as were not heard of when asked.
//!
//! A server that answers nothing is not told apart from a slow one by waiting for an answer of its
//! search. So halfway through an attempt every server that has been silent since it began is pinged,
//! which its network answers whatever its searches do; whoever is silent still when the attempt is
//! given up is not there, for other queries neither until something is heard of it. A state that was lost on its way leaves everybody heard, and the query is
//! begun again with all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::placement::Placement;
use crate::transport::Network;
use crate::wire::{Message, PeerId};

/// When each server was last heard of, and which were found silent since.
#[derive(Default)]
pub(super) struct Heard {
    at: BTreeMap<u32, u64>,
    doubted: BTreeSet<u32>,
    /// When these are asked again.
    again_at: u64,
}

impl Heard {
    /// Something came from a server.
    pub(super) fn note(&mut self, peer: PeerId, now: u64) {
        if let Some(server) = peer.server() {
            self.at.insert(server, now);
            self.doubted.remove(&server);
        }
    }

    fn since(&self, server: u32, at: u64) -> bool {
        self.at.get(&server).is_some_and(|heard| *heard >= at)
    }

    /// Asks whoever of these has been silent since a moment whether it is there. What it answers
    /// counts for earlier moments too.
    pub(super) fn ask(&self, servers: impl Iterator<Item = u32>, since: u64, net: &dyn Network) {
        for server in servers.filter(|server| !self.since(*server, since)) {
            // Whoever cannot be reached is gone by another way.
            let _ = net.send(PeerId::Server(server), &Message::Ping(since));
        }
    }

    /// Whether a server was found silent, and has been since.
    pub(super) fn is_doubted(&self, server: u32) -> bool {
        self.doubted.contains(&server)
    }

    /// Asks those that were found silent again, each time that so long went by; says when next.
    pub(super) fn ask_again(&mut self, now: u64, every: u64, net: &dyn Network) -> Option<u64> {
        if self.doubted.is_empty() {
            return None;
        }
        if self.again_at <= now {
            self.again_at = now.saturating_add(every.max(1));
            self.ask(self.doubted.iter().copied(), u64::MAX, net);
        }
        Some(self.again_at)
    }

    /// Notes that these were found silent.
    pub(super) fn doubt(&mut self, silent: &BTreeSet<u32>) {
        self.doubted.extend(silent);
    }

    /// Which of these have been silent since a moment.
    pub(super) fn silent(&self, servers: impl Iterator<Item = u32>, since: u64) -> BTreeSet<u32> {
        servers.filter(|server| !self.since(*server, since)).collect()
    }
}

/// The partitions of some servers, ascending.
pub(super) fn partitions_of(placement: &Placement, is_gone: impl Fn(u32) -> bool) -> Vec<u32> {
    let owned = |partition: &u32| placement.owner(*partition).is_some_and(&is_gone);
    (0..placement.partitions()).filter(owned).collect()
}

/// Numbers for a person, behind a comma where there are any.
pub(super) fn said(silent: &[u32], placement: &Placement) -> String {
    let server = |number: &u32| {
        let of = partitions_of(placement, |server| server == *number);
        let of: Vec<_> = of.iter().map(u32::to_string).collect();
        format!("server {number}, of partitions {}", of.join(", "))
    };
    let said: Vec<_> = silent.iter().map(server).collect();
    if said.is_empty() { String::new() } else { format!("; not heard of: {}", said.join("; ")) }
}
