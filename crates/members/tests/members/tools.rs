//! Servers, and waiting for what comes about.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_members::etcd::{Etcd, Options};
use pipeann_members::{ClusterMember, Coordinator, ServerInfo, ServerKey, SharedFormats};
use uuid::Uuid;

/// Far more than anything takes on a machine that others use too.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// The shortest lease.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// The cluster of all tests.
pub(crate) const CLUSTER: Uuid = Uuid::from_u128(0xc1);

pub(crate) fn info(id: u128) -> ServerInfo {
    ServerInfo {
        id: Uuid::from_u128(id),
        name: format!("server {id}"),
        address: format!("h{id}:1"),
        peer_address: format!("h{id}:2"),
        version: "1".into(),
        formats: SharedFormats::FIRST,
        regions: vec!["eu".into()],
        key: ServerKey::default(),
        guards: None,
        started_ms: 7,
    }
}

pub(crate) fn options() -> Options {
    Options {
        ttl: TTL,
        connect_timeout: Duration::from_secs(20),
        call_timeout: Duration::from_secs(10),
        ..Options::new("blue", CLUSTER)
    }
}

pub(crate) fn connect(url: &str) -> Arc<Etcd> {
    Arc::new(Etcd::connect(&[url], options()).unwrap())
}

pub(crate) fn join(url: &str, id: u128) -> (Arc<Etcd>, Arc<dyn ClusterMember>) {
    let etcd = connect(url);
    let member = etcd.join(info(id)).unwrap();
    (etcd, member)
}

/// Waits until there is something.
pub(crate) fn await_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "waited for long: {what}");
        pause(Duration::from_millis(10));
    }
}

pub(crate) fn await_that(what: &str, mut look: impl FnMut() -> bool) {
    await_some(what, || look().then_some(()));
}

pub(crate) fn await_equal<T: PartialEq + Debug>(
    what: &str,
    expected: &T,
    mut look: impl FnMut() -> T,
) {
    let mut last = None;
    let begun = Instant::now();
    while last.as_ref() != Some(expected) {
        assert!(begun.elapsed() < LONG, "{what}: {last:?} instead of {expected:?}");
        pause(Duration::from_millis(10));
        last = Some(look());
    }
}

/// Who leads a shard, once anybody but `not` does.
pub(crate) fn await_leader_but(
    etcd: &dyn Coordinator,
    shard: u64,
    not: Option<Uuid>,
) -> (Uuid, u64) {
    await_some("a leader", || {
        let leader = etcd.leader(shard)?;
        (Some(leader.server) != not).then_some((leader.server, leader.term))
    })
}

pub(crate) fn await_lead(member: &dyn ClusterMember, shard: u64) -> u64 {
    await_some("leading", || member.leads(shard)).term
}

#[expect(clippy::disallowed_methods, reason = "processes and etcd take real time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
