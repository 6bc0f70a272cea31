//! What may happen to etcd and its data while servers stand.

use std::time::{Duration, Instant};

use pipeann_members::etcd::{Etcd, Options};
use pipeann_members::{Coordinator, Error, PutIf, Standing, Traffic};

use crate::etcd_process::EtcdProcess;
use crate::processes::EtcdByHand;
use crate::tools::{
    LONG, TTL, await_equal, await_lead, await_leader_but, await_some, await_that, connect, info,
    join, options, pause,
};

#[test]
fn an_etcd_that_stands_still_ends_certainty_and_no_more() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    let term = await_lead(&*member, 1);
    etcd.stop();
    await_that("it is not certain", || member.lease_left().is_zero());
    assert_eq!(member.leads(1), None);
    assert!(matches!(member.standing(), Standing::Lost { .. }));
    // Whom to ask is still known.
    assert_eq!((coordinator.servers().len(), coordinator.leader(1).unwrap().term), (1, term));
    etcd.go_on();
    await_that("it is certain again", || member.standing() == Standing::Joined);
    // Whether its lease had ended meanwhile is etcd's to say.
    assert!(await_lead(&*member, 1) >= term);
    await_equal("the watch goes on", &None, || coordinator.stale_since());
}

#[test]
fn an_etcd_that_was_killed_goes_on_with_its_data() {
    let Some(mut etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    let other = connect(&etcd.url());
    coordinator.put_value("x", b"1", PutIf::Any).unwrap();
    member.campaign(1, 7).unwrap();
    let term = await_lead(&*member, 1);
    etcd.kill();
    await_that("nothing is heard", || coordinator.stale_since().is_some());
    let brief = Options { connect_timeout: Duration::from_secs(1), ..options() };
    assert!(Etcd::connect(&[&etcd.url()], brief).is_err_and(|it| it.is_passing()));
    etcd.restart();
    assert!(await_lead(&*member, 1) >= term);
    await_equal("the other hears", &None, || other.stale_since());
    await_equal("the other sees it", &1, || other.servers().len());
    await_that("values are read", || coordinator.value("x").is_ok_and(|it| it.is_some()));
}

#[test]
fn an_etcd_that_was_emptied_costs_elections_only() {
    let Some(mut etcd) = EtcdProcess::start() else { return };
    let servers: Vec<_> = (1..4).map(|id| join(&etcd.url(), id)).collect();
    for (_, member) in &servers {
        (0..20).for_each(|shard| member.campaign(shard, 40).unwrap());
    }
    let (coordinator, _) = &servers[0];
    await_equal("leaders", &20, || coordinator.leaders().len());
    let before = coordinator.leaders();
    assert!(before.iter().all(|it| it.term == 41));
    etcd.kill();
    etcd.empty();
    etcd.restart();
    for (coordinator, member) in &servers {
        await_equal("all join again", &3, || coordinator.servers().len());
        await_that("it stands", || member.standing() == Standing::Joined);
        let newer = || coordinator.leaders().iter().filter(|it| it.term > 41).count();
        await_equal("terms go on above those of before", &20, newer);
    }
    let led: usize = servers.iter().map(|(_, member)| member.led().len()).sum();
    assert_eq!(led, 20);
}

#[test]
fn nobody_is_elected_while_an_old_lease_may_be_counted_on() {
    let Some(mut etcd) = EtcdProcess::start() else { return };
    let (_first, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    await_lead(&*member, 1);
    etcd.kill();
    etcd.empty();
    let (stopped, left) = (Instant::now(), member.lease_left());
    etcd.restart();
    let (_second, rival) = join(&etcd.url(), 2);
    rival.campaign(1, 0).unwrap();
    // Never do both lead, and the old leader at most as long as it had counted on.
    await_some("a leader under the new etcd", || {
        let (old, new) = (member.leads(1), rival.leads(1));
        assert!(old.is_none() || new.is_none());
        assert!(old.is_none_or(|it| it.term > 1 || it.left <= left));
        old.filter(|it| it.term > 1).or(new)
    });
    assert!(stopped.elapsed() >= left, "one was elected before the old lease had ended");
}

#[test]
fn garbage_in_keys_is_counted_and_overwritten() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    let by_hand = EtcdByHand::new(etcd.port());
    let junk = "\u{1}not json";
    by_hand.put("/pipeann/blue/leaders/0000000000000001", junk);
    by_hand.put("/pipeann/blue/terms/0000000000000001", junk);
    by_hand.put("/pipeann/blue/leaders/strange", junk);
    by_hand.put("/pipeann/blue/servers/00000000-0000-0000-0000-000000000002", junk);
    by_hand.put("/pipeann/blue/addresses/h2:1", junk);
    member.campaign(1, 8).unwrap();
    assert_eq!(await_lead(&*member, 1), 9);
    await_that("it is counted", || coordinator.traffic().refused_records >= 3);
    assert_eq!(coordinator.servers().len(), 1);
    let second = coordinator.join(info(2)).unwrap();
    // What a later version has written is left alone, and said.
    by_hand.put("/pipeann/blue/terms/0000000000000002", r#"{"format":2,"era":5}"#);
    by_hand.put("/pipeann/blue/values/far", &"x".repeat(70_000));
    second.campaign(2, 0).unwrap();
    await_that("it has come", || coordinator.traffic().refused_records >= 4);
    pause(TTL);
    assert_eq!(coordinator.leader(2), None);
    assert!(matches!(coordinator.value("far"), Err(Error::Unreadable { .. })));
    by_hand.put("/pipeann/blue/cluster", junk);
    let refused = Etcd::connect(&[&etcd.url()], options()).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Unreadable { key, .. } if key.ends_with("/cluster")));
}

#[test]
fn keys_that_are_removed_by_hand_come_again() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    let term = await_lead(&*member, 1);
    EtcdByHand::new(etcd.port()).remove("/pipeann/blue/", "/pipeann/blue0");
    await_equal("a new term", &Some(term + 1), || member.leads(1).map(|it| it.term));
    assert_eq!((coordinator.servers().len(), coordinator.traffic().lease_losses), (1, 1));
}

#[test]
fn a_watch_outlives_compaction() {
    let Some(mut etcd) = EtcdProcess::start() else { return };
    let coordinator = connect(&etcd.url());
    let by_hand = EtcdByHand::new(etcd.port());
    let revision = coordinator.put_value("x", b"1", PutIf::Any).unwrap();
    by_hand.compact(revision);
    etcd.kill();
    etcd.restart();
    let (_other, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    let (server, _) = await_leader_but(&*coordinator, 1, None);
    assert_eq!((server, coordinator.servers().len()), (member.server().id, 1));
    assert!(coordinator.traffic().lists >= 2);
}

#[test]
fn who_rests_writes_nothing() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    await_lead(&*member, 1);
    let until = Instant::now() + LONG;
    loop {
        let before = coordinator.traffic();
        pause(TTL * 3);
        let after = coordinator.traffic();
        let read = |it: &Traffic| (it.reads, it.lists);
        let renewals = after.renewals - before.renewals;
        assert_eq!(member.standing(), Standing::Joined);
        assert_eq!(after.writes, before.writes);
        if read(&after) == read(&before) && (3..30).contains(&renewals) {
            return;
        }
        // A machine that stalls ends a connection, and whoever makes another one reads all again.
        assert!(Instant::now() < until, "{before:?}, {after:?}");
    }
}
