//! What every implementation does, tried on each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_members::memory::SharedMemory;
use pipeann_members::{Boottime, ClusterMember, Coordinator, Error, Noticed, PutIf, Standing};
use uuid::Uuid;

use crate::etcd_process::EtcdProcess;
use crate::tools::{
    CLUSTER, LONG, TTL, await_equal, await_lead, await_leader_but, await_some, await_that, connect,
    info,
};

/// Makes coordinators of one cluster.
type Make<'m> = &'m dyn Fn() -> Arc<dyn Coordinator>;

#[test]
fn in_memory() {
    let memory = SharedMemory::new(CLUSTER, TTL, Arc::new(Boottime));
    all(&|| memory.connect(CLUSTER).unwrap(), Duration::ZERO);
}

#[test]
fn on_etcd() {
    let Some(etcd) = EtcdProcess::start() else { return };
    all(&|| connect(&etcd.url()), LONG);
}

/// `patience` is how long shards may be shared anew: of processes one may stall while they are shared.
fn all(make: Make<'_>, patience: Duration) {
    who_joins_is_seen_until_it_leaves(make);
    who_joins_sees_all_who_joined_before(make);
    one_of_several_leads_and_terms_grow(make);
    shards_are_shared_and_handed_over(make, patience);
    duplicates_are_refused_by_name(make);
    values_are_compared_before_they_change(make);
    what_cannot_be_is_refused(make);
}

fn names(it: &dyn Coordinator) -> Vec<String> {
    it.servers().into_iter().map(|it| it.name).collect()
}

fn who_joins_is_seen_until_it_leaves(make: Make<'_>) {
    let (a, b) = (make(), make());
    let notices = b.watch();
    let first = a.join(info(1)).unwrap();
    let second = b.join(info(2)).unwrap();
    await_some("a notice", || {
        let told = notices.next(LONG);
        matches!(told, Some(Noticed::Servers | Noticed::Everything)).then_some(())
    });
    for it in [&a, &b] {
        await_equal("servers", &vec!["server 1".into(), "server 2".into()], || names(&**it));
    }
    assert_eq!(b.servers()[0], info(1));
    assert_eq!(first.standing(), Standing::Joined);
    await_that("a lease", || first.lease_left() > Duration::ZERO && first.lease_left() <= TTL);
    first.leave().unwrap();
    assert_eq!((first.standing(), first.lease_left()), (Standing::Left, Duration::ZERO));
    assert!(first.campaign(1, 0).is_err());
    await_equal("servers", &vec![String::from("server 2")], || names(&*b));
    drop(second);
    await_equal("servers", &Vec::<String>::new(), || names(&*a));
}

fn who_joins_sees_all_who_joined_before(make: Make<'_>) {
    let ends = [make(), make(), make(), make()];
    let mut members = Vec::new();
    for (id, end) in (1..).zip(&ends) {
        members.push(end.join(info(id)).unwrap());
        assert_eq!(end.servers().len(), members.len(), "whatever a watch has told until now");
    }
}

fn one_of_several_leads_and_terms_grow(make: Make<'_>) {
    let ends = [make(), make(), make()];
    let members: Vec<_> = (1..).zip(&ends).map(|(id, it)| it.join(info(id)).unwrap()).collect();
    members.iter().for_each(|it| it.campaign(100, 40).unwrap());
    let (first, term) = await_leader_but(&*ends[0], 100, None);
    assert_eq!(term, 41);
    for it in &ends {
        await_equal("a leader", &Some((first, 41)), || {
            it.leader(100).map(|it| (it.server, it.term))
        });
    }
    let of = |id: Uuid| members.iter().find(|it| it.server().id == id).unwrap();
    let held = await_some("leading", || of(first).leads(100));
    assert!(held.left <= TTL && held.term == 41);
    assert_eq!(members.iter().filter(|it| it.leads(100).is_some()).count(), 1);
    assert_eq!(of(first).led()[0].address, of(first).server().address);
    // A newer term in the log than its own is followed by a newer one still.
    of(first).campaign(100, 50).unwrap();
    await_equal("a newer term", &Some(51), || of(first).leads(100).map(|it| it.term));
    of(first).resign(100).unwrap();
    assert_eq!(of(first).leads(100), None);
    let (second, term) = await_leader_but(&*ends[0], 100, Some(first));
    assert_eq!(term, 52);
    of(second).leave().unwrap();
    let (third, term) = await_leader_but(&*ends[0], 100, Some(second));
    assert_eq!((term, third != first), (53, true));
}

fn shards_are_shared_and_handed_over(make: Make<'_>, patience: Duration) {
    let (a, b) = (make(), make());
    let (one, two) = (a.join(info(1)).unwrap(), b.join(info(2)).unwrap());
    await_equal("both", &2, || a.servers().len());
    await_equal("both", &2, || b.servers().len());
    let third = make().join(info(3)).unwrap();
    (200..240).for_each(|shard| third.campaign(shard, 0).unwrap());
    await_equal("the first has them", &40, || third.led().len());
    for shard in 200..240 {
        one.campaign(shard, 0).unwrap();
        two.campaign(shard, 0).unwrap();
    }
    drop(third);
    let led = |it: &Arc<dyn ClusterMember>| it.led().len();
    await_equal("all are led", &40, || led(&one) + led(&two));
    // Each takes its half at once and waits with the other; one that stalls meanwhile has fewer.
    let until = Instant::now() + patience;
    while led(&one) < 10 || led(&two) < 10 {
        assert!(Instant::now() < until, "{} and {}", led(&one), led(&two));
        let all = make().join(info(3)).unwrap();
        for shard in 200..240 {
            all.campaign(shard, 0).unwrap();
            let from = if one.leads(shard).is_some() { &one } else { &two };
            from.transfer(shard, all.server().id).unwrap();
        }
        await_equal("one has them", &40, || all.led().len());
        drop(all);
        await_equal("all are led", &40, || led(&one) + led(&two));
    }
    let given = one.led()[0].clone();
    let taken = one.transfer(given.shard, two.server().id).unwrap();
    assert_eq!((taken.server, taken.term), (two.server().id, given.term + 1));
    assert_eq!(one.leads(given.shard), None);
    assert_eq!(await_lead(&*two, given.shard), given.term + 1);
    assert_eq!(one.transfer(given.shard, two.server().id), Err(Error::NotLeader(given.shard)));
    let other = one.led()[0].shard;
    let nobody = Uuid::from_u128(77);
    assert_eq!(one.transfer(other, nobody), Err(Error::NoServer(nobody)));
    await_that("it still leads", || one.leads(other).is_some());
    // Who did not ask for a shard gives it up again.
    one.campaign(300, 0).unwrap();
    await_lead(&*one, 300);
    one.transfer(300, two.server().id).unwrap();
    await_equal("nobody leads", &None, || a.leader(300));
    drop(one);
    await_equal("the other leads all", &40, || led(&two));
}

fn duplicates_are_refused_by_name(make: Make<'_>) {
    let (a, b) = (make(), make());
    let first = a.join(info(1)).unwrap();
    let refused = b.join(info(1)).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Duplicate { what: "id", .. }), "{refused}");
    let other = pipeann_members::ServerInfo { address: info(1).peer_address, ..info(2) };
    let refused = b.join(other.clone()).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Duplicate { what: "address", .. }), "{refused}");
    assert!(refused.to_string().contains("h1:2"), "{refused}");
    drop(first);
    b.join(other).unwrap();
}

fn values_are_compared_before_they_change(make: Make<'_>) {
    let (a, b) = (make(), make());
    let notices = b.watch();
    let first = a.put_value("jobs/1", b"one", PutIf::Absent).unwrap();
    let told = |name: &str| {
        await_some("a notice", || {
            (notices.next(LONG)? == Noticed::Value(name.to_owned())).then_some(())
        });
    };
    told("jobs/1");
    let conflict = |revision| Err(Error::Conflict { name: "jobs/1".into(), revision });
    assert_eq!(b.put_value("jobs/1", b"x", PutIf::Absent), conflict(first));
    let second = b.put_value("jobs/1", b"two", PutIf::At(first)).unwrap();
    assert!(second > first);
    assert_eq!(a.put_value("jobs/1", b"x", PutIf::At(first)), conflict(second));
    let found = a.value("jobs/1").unwrap().unwrap();
    assert_eq!((found.bytes.as_slice(), found.revision), (&b"two"[..], second));
    a.put_value("jobs/2", &[0xff; 65536], PutIf::Any).unwrap();
    a.put_value("placement", b"", PutIf::Any).unwrap();
    let names = |prefix| -> Vec<String> {
        b.values(prefix).unwrap().into_iter().map(|it| it.name).collect()
    };
    assert_eq!(names("jobs/"), ["jobs/1", "jobs/2"]);
    assert_eq!(names(""), ["jobs/1", "jobs/2", "placement"]);
    assert!(b.remove_value("jobs/2", PutIf::At(1 << 40)).is_err());
    assert_eq!(b.remove_value("jobs/2", PutIf::Any), Ok(true));
    assert_eq!(b.remove_value("jobs/2", PutIf::Any), Ok(false));
    assert_eq!((a.value("jobs/2"), names("jobs/").len()), (Ok(None), 1));
    for n in 0..300 {
        a.put_value(&format!("many/{n:03}"), b"x", PutIf::Absent).unwrap();
    }
    assert_eq!(names("many/").len(), 300);
}

fn what_cannot_be_is_refused(make: Make<'_>) {
    let a = make();
    let invalid =
        |it: Result<(), Error>| assert!(matches!(it, Err(Error::Invalid { .. })), "{it:?}");
    let put = |name: &str, bytes: &[u8]| a.put_value(name, bytes, PutIf::Any).map(|_| ());
    invalid(put("", b"x"));
    invalid(put("a b", b"x"));
    invalid(put("a", &[0; 65537]));
    let mut bad = info(9);
    bad.address.clear();
    invalid(a.join(bad).map(|_| ()));
    let member = a.join(info(9)).unwrap();
    invalid(member.campaign(1, u64::MAX));
}
