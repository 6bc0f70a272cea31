//! Runs, and what has to hold in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeann_db::catalog::NewCollection;
use pipeann_db::database::Database;
use pipeann_db::schema::PrimaryKey;
use pipeann_store::sim::seeds::{self, all_hold};

use super::clients::{Clients, History, rows_of, schema, value_of};
use super::history::{RegisterEffect, RegisterOperation, is_linearizable, may_be_seen};
use super::servers::{Cluster, LOOK, RunningServer};
use super::world::{ServerWorld, doze};
use crate::ReadFreshness;
use crate::planted::ServerFault;

const SITES: usize = 3;
const CLIENTS: i64 = 4;
const CALLS: u64 = 20;
const KEYS: u64 = 3;
/// When nothing goes wrong any more, all servers have all changes after so long.
const HEALED: Duration = Duration::from_secs(180);
/// It is tried again and again meanwhile, each time for so long.
const ONE_TRY: Duration = Duration::from_secs(20);
/// Where it takes longer, so often and each time so long is waited by the machine's time.
const LOOKS_BESIDE: usize = 100;
const BESIDE: Duration = Duration::from_millis(100);
/// Seeds where nothing else is said.
const SEEDS: u64 = 30;

/// Collections: one whose keys clients name, one whose keys servers give.
fn create(database: &Database) -> bool {
    [("keys", false), ("rows", true)].into_iter().all(|(name, gives)| {
        database.collection("default", name).is_ok()
            || database
                .create_collection("default", name, NewCollection::new(schema(gives)))
                .is_ok()
    })
}

/// What befalls servers, store and etcd while clients work.
fn befall(cluster: &Cluster, clients: &Clients) {
    let world = &cluster.world;
    let seconds = |most: u64| Duration::from_millis(world.below(most * 1000));
    let leading = |server: &Arc<RunningServer>| server.replica.status().leads.is_some();
    let leader = cluster.sites.iter().position(|site| site.server().is_some_and(|it| leading(&it)));
    let any = world.below(SITES as u64) as usize;
    let site = if world.happens(700) { leader.unwrap_or(any) } else { any };
    match world.below(10) {
        0..=3 => {
            clients.count("kills");
            cluster.kill(site, world.happens(850), seconds(4));
        }
        4..=5 => {
            clients.count("pauses");
            cluster.pause(site, seconds(8));
        }
        6 => {
            clients.count("cuts");
            cluster.cut_off(site, seconds(8));
        }
        7 => {
            clients.count("etcd emptied");
            cluster.etcd.empty();
        }
        8 => {
            clients.count("etcd halted");
            cluster.etcd.halt(true);
            world.wait(seconds(5));
            cluster.etcd.halt(false);
        }
        _ => {
            if let Some(server) = cluster.sites[site].server() {
                clients.count("leases lost");
                cluster.etcd.lose_lease(server.id);
            }
        }
    }
}

fn direct(
    world: &Arc<ServerWorld>,
    root: &Path,
    planted: Option<ServerFault>,
    history: &Arc<Mutex<History>>,
) {
    let cluster = Cluster::new(world, root, SITES, planted);
    (0..SITES).for_each(|number| cluster.keep(number));
    let clients = Clients { cluster: Arc::clone(&cluster), history: Arc::clone(history) };
    let made = || {
        cluster.sites.iter().filter_map(|site| site.server()).any(|server| {
            server.replica.status().leads.is_some()
                && server.life.within(|| create(server.replica.database()))
        })
    };
    if !heals(world, made) {
        clients.wrong("no server came to lead".into());
    }
    let working = Arc::new(Mutex::new(CLIENTS));
    for client in 0..CLIENTS {
        let (clients, working) = (clients.clone(), Arc::clone(&working));
        let work = move || {
            clients.call(client, CALLS, KEYS);
            *working.lock().unwrap() -= 1;
        };
        world.spawn("client", None, work).expect("threads can be made");
    }
    while *working.lock().unwrap() > 0 {
        world.pause(Duration::from_secs(8));
        befall(&cluster, &clients);
    }
    cluster.store.heal();
    let all_there = || cluster.sites.iter().all(|site| site.server().is_some());
    if heals(world, all_there) {
        check_end(&cluster, &clients);
    } else {
        let trouble: Vec<_> = cluster.sites.iter().map(|site| site.trouble()).collect();
        clients.wrong(format!("not all servers came back: {trouble:?}, {:?}", world.others()));
    }
    cluster.end();
    // A database ends in its own time.
    let ended = || {
        doze(Duration::from_millis(1));
        world.others().is_empty()
    };
    if !heals(world, ended) {
        clients.wrong(format!("these did not end: {:?}", world.others()));
    }
}

/// Waits until something is so, once everything is well. A database does some of its work by the machine's
/// time, which is not to be taken for a hang where the machine is slow.
fn heals(world: &ServerWorld, mut is_so: impl FnMut() -> bool) -> bool {
    until(world, HEALED, &mut is_so)
        || (0..LOOKS_BESIDE).any(|_| {
            doze(BESIDE);
            until(world, ONE_TRY, &mut is_so)
        })
}

/// Waits until something is so; `false` where it was not for so long.
fn until(world: &ServerWorld, time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until = world.now() + time;
    while world.now() < until {
        if is_so() {
            return true;
        }
        world.wait(LOOK);
    }
    false
}

/// Keys and values of each of a server's collections.
type ServerRows = BTreeMap<String, Vec<(PrimaryKey, i64)>>;

/// All servers have the same, and what each key has is read once more.
fn check_end(cluster: &Cluster, clients: &Clients) {
    let world = &cluster.world;
    let caught_up = |server: &Arc<RunningServer>, within: Duration| {
        let deadline = world.instant() + within;
        let caught = || server.replica.catch_up(ReadFreshness::Latest, deadline);
        server.life.within(caught).map_err(|error| error.to_string())
    };
    let read = |server: &Arc<RunningServer>| -> Result<ServerRows, String> {
        let catalog = server.replica.database().catalog();
        let all = catalog.collections("default").map_err(|error| error.to_string())?;
        all.map(|it| {
            let rows = rows_of(server, &it.name);
            Ok((it.name.clone(), rows.map_err(|error| format!("{}: {error}", it.name))?))
        })
        .collect()
    };
    // A server may begin anew meanwhile, with a generation.
    let mut seen: Vec<Option<ServerRows>> = vec![None; SITES];
    for (site, seen) in cluster.sites.iter().zip(&mut seen) {
        let mut why = "no server runs there".to_owned();
        let reads = || {
            let Some(server) = site.server() else { return false };
            let found = caught_up(&server, ONE_TRY).and_then(|()| read(&server));
            *seen = found.map_err(|error| why = error).ok();
            seen.is_some()
        };
        if !heals(world, reads) {
            let statuses = cluster.sites.iter().map(|it| Some(it.server()?.replica.status()));
            let statuses: Vec<_> = statuses.collect();
            return clients.wrong(format!("site {} has not all: {why}; {statuses:?}", site.number));
        }
    }
    let all: Vec<_> = seen.into_iter().flatten().collect();
    if all.iter().any(|it| *it != all[0]) {
        return clients.wrong(format!("servers differ: {all:?}"));
    }
    let Some(server) = cluster.sites[0].server().filter(|it| caught_up(it, HEALED).is_ok()) else {
        return clients.wrong("the first server has ended".into());
    };
    let mut history = clients.history.lock().unwrap();
    for (key, operations) in &mut history.operations {
        let Some(value) = value_of(&server, *key) else { continue };
        let end = RegisterOperation {
            effect: RegisterEffect::Read(value),
            begin: u64::MAX - 1,
            end: Some(u64::MAX),
        };
        operations.push(end);
    }
    let wrong = check_rows(&history, &all[0]["rows"]).err();
    history.wrong = history.wrong.take().or(wrong);
}

/// Rows that were answered are there once, under the keys that were answered, and no key is given twice.
fn check_rows(history: &History, rows: &[(PrimaryKey, i64)]) -> Result<(), String> {
    let keys: BTreeSet<_> = rows.iter().map(|(key, _)| format!("{key:?}")).collect();
    if keys.len() != rows.len() {
        return Err(format!("a key was given twice: {rows:?}"));
    }
    let mut found: BTreeMap<i64, Vec<&PrimaryKey>> = BTreeMap::new();
    for (key, value) in rows {
        found.entry(*value).or_default().push(key);
    }
    for (value, answered) in &history.rows {
        let there = found.remove(value).unwrap_or_default();
        if there.len() > 1 {
            return Err(format!("row {value} is stored twice: {there:?}"));
        }
        if let Some(key) = answered
            && there != [key]
        {
            return Err(format!("row {value} was answered as {key:?} and is {there:?}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("rows that nobody wrote: {found:?}")) }
}

/// What has happened in a run, or what was wrong.
fn run(seed: u64, planted: Option<ServerFault>) -> Result<BTreeMap<&'static str, u64>, String> {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let root = root.expect("there is room");
    let (world, history) = (ServerWorld::new(seed), Arc::<Mutex<History>>::default());
    let (inside, path, kept) = (Arc::clone(&world), root.path().to_owned(), Arc::clone(&history));
    world.run(move || direct(&inside, &path, planted, &kept))?;
    let history = history.lock().unwrap();
    if let Some(why) = &history.wrong {
        return Err(why.clone());
    }
    for (key, operations) in &history.operations {
        if !is_linearizable(operations) {
            return Err(format!("key {key} is no register: {operations:?}"));
        }
    }
    for read in &history.bounded {
        let operations = history.operations.get(&read.key).map_or(&[][..], |it| it);
        if !may_be_seen(operations, read.seen, (read.begin, read.end)) {
            return Err(format!("{read:?} lacks what was answered before: {operations:?}"));
        }
    }
    Ok(history.happened.clone())
}

#[test]
fn servers_hold() {
    let all = Mutex::new(BTreeMap::<&str, u64>::new());
    all_hold(SEEDS, |seed| {
        let happened = run(seed, None)?;
        let mut all = all.lock().unwrap();
        for (what, count) in happened {
            *all.entry(what).or_default() += count;
        }
        Ok(())
    });
    let all = all.into_inner().unwrap();
    println!("{all:?}");
    for what in [
        "answers lost",
        "bounded reads",
        "changes",
        "collections",
        "kills",
        "pauses",
        "reads of own writes",
        "strong reads",
    ] {
        assert!(all.get(what).is_some_and(|it| *it > 10), "{what} is rare: {all:?}");
    }
}

/// Runs seeds with a planted fault until one fails, which has to be.
fn is_noticed(planted: ServerFault) {
    seeds::is_noticed(|seed| run(seed, Some(planted)).map(drop));
}

#[test]
fn an_answer_before_the_put_is_noticed() {
    is_noticed(ServerFault::AnsweredBeforePut);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn a_lease_taken_for_granted_is_noticed() {
    is_noticed(ServerFault::LeaseTakenForGranted);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn a_change_under_way_that_a_read_misses_is_noticed() {
    is_noticed(ServerFault::ChangesUnderWayMissed);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn a_batch_told_of_before_it_is_applied_is_noticed() {
    is_noticed(ServerFault::SaidBeforeApplied);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn an_opening_that_is_not_applied_is_noticed() {
    is_noticed(ServerFault::OpeningNotApplied);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn requests_that_a_restart_forgets_are_noticed() {
    is_noticed(ServerFault::RequestsNotNoted);
}

#[test]
fn a_generation_named_late_is_noticed() {
    is_noticed(ServerFault::GenerationNamedLate);
}

#[test]
fn a_change_repeated_under_another_id_is_noticed() {
    is_noticed(ServerFault::RepeatedWithoutId);
}

#[test]
fn a_bounded_read_of_whatever_is_there_is_noticed() {
    is_noticed(ServerFault::BoundNotKept);
}

#[test]
fn an_end_seen_before_the_read_is_noticed() {
    is_noticed(ServerFault::EndSeenBefore);
}

#[test]
#[ignore = "takes many seeds: `bench/run simnet`"]
fn what_is_put_and_not_answered_taken_for_applied_is_noticed() {
    is_noticed(ServerFault::PutTakenForApplied);
}
