//! Handing a lead over, who may join, and numbers that etcd has lost.

use std::thread;

use pipeann_members::memory::SharedMemory;
use pipeann_members::{Boottime, HandClock};

use super::*;
use crate::drain::ask_to_drain;
use crate::tests::{deadline, server_info};

fn info(id: u128, writes: u32) -> ServerInfo {
    let formats = SharedFormats { writes, oldest_read: 1, newest_read: writes };
    ServerInfo { formats, ..server_info(id, u64::MAX - id as u64) }
}

#[test]
fn a_lead_is_handed_to_who_has_run_longest_and_is_not_asked_to_end() {
    let cluster = Uuid::from_u128(9);
    let clock = Arc::new(HandClock::default());
    let memory = SharedMemory::new(cluster, Duration::from_secs(1), Arc::clone(&clock) as _);
    clock.advance(Duration::from_secs(1));
    let join = |id| ClusterMembership::join(memory.connect(cluster).unwrap(), info(id, 1)).unwrap();
    let all = [1, 2, 3].map(join);
    let elected = |at: usize| {
        let pass = || clock.advance(Duration::from_millis(100));
        (0..100).any(|_| {
            pass();
            all[at].elected() == Elected::Me
        })
    };
    all[0].stand(7);
    assert!(elected(0));
    [1, 2].into_iter().for_each(|at| all[at].stand(7));
    ask_to_drain(&*all[0].coordinator, all[0].info()).unwrap();
    // The third began first, and is asked to end too.
    ask_to_drain(&*all[0].coordinator, all[2].info()).unwrap();
    let heir = all[0].hand_over().unwrap().unwrap();
    assert_eq!(heir.id, all[1].info().id);
    assert!(elected(1));
    // It stands no more, and its successor has nobody left to hand it to but itself.
    all[0].stand(7);
    assert_eq!(all[1].hand_over().unwrap(), None);
    assert!(!elected(0));
    assert!(elected(2), "who is asked to end leads rather than nobody");
}

#[test]
fn a_server_that_others_cannot_read_does_not_join() {
    let cluster = Uuid::from_u128(9);
    let memory = SharedMemory::new(cluster, Duration::from_secs(1), Arc::new(Boottime));
    let join =
        |id, writes| ClusterMembership::join(memory.connect(cluster).unwrap(), info(id, writes));
    let first = join(1, 1).unwrap();
    let refused = join(2, 2).unwrap_err();
    assert!(matches!(refused, MembersError::Incompatible { .. }), "{refused}");
    assert!(refused.to_string().contains("server 1 at 10.0.0.1:1"), "{refused}");
    drop(first);
    // Nobody is there whom it could not stand beside.
    let _second = join(2, 2).unwrap();
    let refused = join(1, 1).unwrap_err().to_string();
    assert!(refused.contains("this one reads 1 to 1"), "{refused}");
}

/// Waits until it is so.
fn until(what: &str, mut comes: impl FnMut() -> bool) {
    let end = deadline();
    while !comes() {
        assert!(Instant::now() < end, "waited for long: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_number_that_etcd_has_lost_goes_to_no_other_server() {
    let cluster = Uuid::from_u128(9);
    let memory = SharedMemory::new(cluster, Duration::from_secs(60), Arc::new(Boottime));
    let join = |id| ClusterMembership::join(memory.connect(cluster).unwrap(), info(id, 1)).unwrap();
    let (first, second) = (join(1), join(2));
    for members in [&first, &second] {
        let watch = members.drain_watch();
        // It ends with the membership.
        thread::Builder::new().spawn(move || watch.wait()).unwrap();
    }
    for id in [3, 4] {
        memory.empty();
        let known = || numbers(&*first.coordinator).unwrap().len();
        until("numbers of those that are there", || known() == 2);
        let third = join(id);
        assert_eq!([&first, &second, &third].map(ClusterMembership::number), [0, 1, 2]);
        // The number may have been another one's before.
        let server = || second.server(2).map(|server| server.id);
        until("whose a number is", || server() == Some(Uuid::from_u128(id)));
    }
}
