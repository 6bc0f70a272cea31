//! What befalls servers in memory, by a clock set by hand.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::{
    ClusterMember, Coordinator, HandClock, Lead, ServerInfo, ServerKey, SharedFormats, Standing,
};

const S: fn(u64) -> Duration = Duration::from_secs;

struct Trial {
    memory: Arc<SharedMemory>,
    clock: Arc<HandClock>,
}

impl Trial {
    fn new() -> Self {
        let clock = Arc::new(HandClock::default());
        let memory = SharedMemory::new(Uuid::from_u128(99), S(5), Arc::clone(&clock) as _);
        clock.advance(S(5));
        Self { memory, clock }
    }

    fn join(&self, id: u128) -> (Arc<SharedMemoryEnd>, Arc<dyn ClusterMember>) {
        let end = self.memory.connect(Uuid::from_u128(99)).unwrap();
        let member = end.join(info(id)).unwrap();
        (end, member)
    }
}

fn info(id: u128) -> ServerInfo {
    ServerInfo {
        id: Uuid::from_u128(id),
        name: format!("server {id}"),
        address: format!("h{id}:1"),
        peer_address: format!("h{id}:2"),
        version: "1".into(),
        formats: SharedFormats::FIRST,
        regions: Vec::new(),
        key: ServerKey::default(),
        guards: None,
        started_ms: 0,
    }
}

#[test]
fn one_that_is_cut_off_stops_before_another_begins() {
    let trial = Trial::new();
    let ((_, a), (end, b)) = (trial.join(1), trial.join(2));
    a.campaign(7, 0).unwrap();
    b.campaign(7, 0).unwrap();
    let first = end.leader(7).unwrap();
    assert_eq!((first.server, first.term), (a.server().id, 1));
    trial.memory.cut_off(a.server().id, true);
    for _ in 0..44 {
        trial.clock.advance(Duration::from_millis(100));
        assert!(a.leads(7).is_some() && b.leads(7).is_none());
    }
    trial.clock.advance(Duration::from_millis(100));
    assert_eq!((a.leads(7), b.leads(7)), (None, None));
    assert!(matches!(a.standing(), Standing::Lost { since, .. } if since == S(5) + S(9) / 2));
    trial.clock.advance(S(1));
    assert_eq!(b.leads(7).unwrap().term, 2);
    trial.memory.cut_off(a.server().id, false);
    assert_eq!((a.standing(), a.leads(7)), (Standing::Joined, None));
}

#[test]
fn data_that_is_lost_costs_elections_only() {
    let trial = Trial::new();
    let ((end, a), (_, b)) = (trial.join(1), trial.join(2));
    for shard in 0..10 {
        a.campaign(shard, 40).unwrap();
        b.campaign(shard, 40).unwrap();
    }
    let before = end.leaders();
    trial.memory.empty();
    // A lease of before may be counted on by somebody who has not heard.
    assert_eq!((end.leaders().len(), end.servers().len()), (0, 2));
    trial.clock.advance(S(5));
    let after = end.leaders();
    assert_eq!(after.len(), 10);
    assert!(before.iter().zip(&after).all(|(old, new)| new.term > old.term && old.term > 40));
}

#[test]
fn while_it_is_halted_nothing_ends_and_nobody_is_certain() {
    let trial = Trial::new();
    let (end, a) = trial.join(1);
    a.campaign(7, 0).unwrap();
    trial.memory.halt(true);
    trial.clock.advance(S(60));
    assert_eq!((a.leads(7), a.lease_left()), (None, S(0)));
    assert!(end.value("x").unwrap_err().is_passing() && end.stale_since().is_some());
    assert_eq!(end.leader(7).unwrap().term, 1);
    trial.memory.halt(false);
    assert_eq!(a.leads(7), Some(Lead { term: 1, left: S(9) / 2 }));
    assert_eq!(end.stale_since(), None);
}

#[test]
fn a_lost_lease_is_a_new_term() {
    let trial = Trial::new();
    let (_, a) = trial.join(1);
    a.campaign(7, 0).unwrap();
    trial.memory.lose_lease(a.server().id);
    assert_eq!(a.leads(7).unwrap().term, 2);
}
