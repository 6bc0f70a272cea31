//! Partial answers over sockets: a server that is killed, one that hangs, a state that gets lost.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use pipeann_engine::search::SearchParams;

use super::*;
use crate::transport::{Event, Handler, Network};

/// Rows of a partition.
fn rows_of(dir: &Path, partition: u32) -> HashSet<u64> {
    let index = Index::open(dir, &open_options(Some(partition))).unwrap();
    index.rows_here().unwrap().into_iter().map(|(row, _)| row.0).collect()
}

fn partial(vector: &[u8], left: Duration) -> Query {
    Query { partial: true, ..query(vector, ONE, left) }
}

/// That answers without a partition are those of one server without it, and find what is there.
fn is_right(client: &Client, whole: &Index, left: Duration, missing: u32) {
    let gone = rows_of(whole.path(), missing);
    let base = vectors(3000, 1);
    let without = whole.pages_of(&[missing]).unwrap();
    let params = SearchParams { without, ..ONE.params() };
    let (mut right, mut right_of_whole, mut all) = (0, 0, 0);
    for vector in vectors(40, 3).chunks_exact(DIM) {
        let started = Instant::now();
        let found = client.search(partial(vector, left)).unwrap();
        assert!(started.elapsed() < left, "within the deadline");
        assert_eq!(found.missing, [missing]);
        assert!(!found.trace.contains(&missing));
        let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().map(|hit| hit.row).collect();
        assert!(rows.iter().all(|row| !gone.contains(row)), "no row of what is missing");
        let expected = whole.search(vector, &params, None).unwrap();
        assert!(rows.iter().copied().eq(expected.hits.iter().map(|hit| hit.row.0)));
        // Recall over the rows that are there.
        let distance = |row: u64| -> u32 {
            let of = &base[row as usize * DIM..][..DIM];
            of.iter().zip(vector).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
        };
        let count = |found: &[u64], there: &dyn Fn(&u64) -> bool| {
            let mut truth: Vec<u32> = (0..3000).filter(there).map(distance).collect();
            truth.sort_unstable();
            found.iter().filter(|row| distance(**row) <= truth[9]).count()
        };
        right += count(&rows, &|row| !gone.contains(row));
        let with_all = whole.search(vector, &ONE.params(), None).unwrap();
        let with_all: Vec<u64> = with_all.hits.iter().map(|hit| hit.row.0).collect();
        right_of_whole += count(&with_all, &|_| true);
        all += 10;
    }
    let told = format!("{right} of {all} that are there, {right_of_whole} where all are");
    assert!(right * 100 >= right_of_whole * 95, "{told}");
}

#[test]
fn a_killed_server_is_left_out_where_that_is_allowed() {
    let Servers { mut hosts, client, whole, dir: _dir, .. } = servers();
    let left = Duration::from_secs(60);
    let first = client.search(partial(&vectors(1, 5), left)).unwrap();
    assert!(first.missing.is_empty(), "nothing is missing yet");
    drop(hosts.remove(2));
    while client.missing() != [2] {
        std::thread::yield_now();
    }
    is_right(&client, &whole, left, 2);
    // The others name what is missing, as before.
    let ended = vectors(40, 3);
    let ended = ended.chunks_exact(DIM).map(|vector| client.search(query(vector, ONE, left)));
    let (mut found, mut gone) = (0, 0);
    for ended in ended {
        match ended {
            Ok(answer) => {
                assert!(answer.missing.is_empty());
                found += 1;
            }
            Err(NoAnswer::Failed { code: FailureCode::PartitionGone, partition, .. }) => {
                assert_eq!(partition, Some(2));
                gone += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(found > 0 && gone > 0, "{found} found, {gone} not");
}

#[test]
fn a_server_that_is_killed_in_the_middle_leaves_every_query_an_answer() {
    let Servers { mut hosts, client, dir: _dir, .. } = servers();
    let asked = vectors(300, 8);
    let left = Duration::from_secs(60);
    let answers: Vec<_> =
        asked.chunks_exact(DIM).map(|vector| client.ask(partial(vector, left)).unwrap()).collect();
    drop(hosts.remove(2));
    for answer in answers {
        let found = answer.recv().unwrap().unwrap();
        assert!(found.missing.is_empty() || found.missing == [2], "{:?}", found.missing);
        assert_eq!(Hits::of(&found.hits).unwrap().iter().count(), 10);
    }
}

/// Passes bytes between whoever connects and an address, until it is held. Its threads end with the
/// connections, or with the test.
fn pass_on(listener: TcpListener, to: std::net::SocketAddr) -> Arc<AtomicBool> {
    let held = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&held);
    thread("between", move || {
        while let Ok((from, _)) = listener.accept() {
            let Ok(to) = TcpStream::connect(to) else { continue };
            let (back, forth) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            for (mut from, mut to) in [(from, forth), (to, back)] {
                let stop = Arc::clone(&stop);
                thread("one-way", move || {
                    let mut bytes = [0; 4096];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        while stop.load(Ordering::Relaxed) {
                            std::thread::park_timeout(Duration::from_millis(5));
                        }
                        if to.write_all(&bytes[..read]).is_err() {
                            return;
                        }
                    }
                    // It may be gone already.
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    held
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
}

#[test]
fn a_server_that_hangs_is_left_out_within_the_deadline() {
    let mut held = None;
    let Servers { hosts: _hosts, client, whole, dir: _dir, .. } =
        servers_behind(|number, listener| {
            if number != 0 {
                return listener;
            }
            // Everybody dials the first server, at the address of the topology; it listens behind that.
            let behind = TcpListener::bind((listener.local_addr().unwrap().ip(), 0)).unwrap();
            held = Some(pass_on(listener, behind.local_addr().unwrap()));
            behind
        });
    let held = held.unwrap();
    held.store(true, Ordering::Relaxed);
    let left = Duration::from_secs(9);
    // All at once, before the silence ends a connection: who takes all learns who was silent.
    let asked = vectors(20, 3);
    let ask = |query: &dyn Fn(&[u8]) -> Query| -> Vec<_> {
        asked.chunks_exact(DIM).map(|vector| client.ask(query(vector)).unwrap()).collect()
    };
    let whole_only = ask(&|vector| query(vector, ONE, Duration::from_secs(2)));
    let in_part = ask(&|vector| partial(vector, left));
    let mut named = 0;
    for answer in whole_only {
        match answer.recv().unwrap() {
            Ok(found) => assert!(found.missing.is_empty() && !found.trace.contains(&0)),
            Err(why) => {
                assert!(why.is_missing(), "{why}");
                named += usize::from(why.to_string().contains("not heard of: server 0, of part"));
            }
        }
    }
    let mut lacking = 0;
    for answer in in_part {
        let found = answer.recv().unwrap().expect("an answer within the deadline");
        assert!(found.missing.is_empty() || found.missing == [0]);
        lacking += usize::from(found.missing == [0]);
    }
    assert!(named > 0 && lacking > 0, "{named} named it, {lacking} did without");
    while client.missing() != [0] {
        std::thread::yield_now();
    }
    is_right(&client, &whole, left, 0);
    held.store(false, Ordering::Relaxed);
}

/// A server that takes states and forgets them; its network answers.
struct Forgets;

impl Handler for Forgets {
    fn event(&mut self, _now_us: u64, _network: &dyn Network, _event: Event<'_>) {}

    fn due(&mut self, _now_us: u64, _network: &dyn Network) -> Option<u64> {
        None
    }
}

#[test]
fn states_that_get_lost_cost_coverage_and_no_hang() {
    let Servers { mut hosts, client, placement, identity, authority, dir: _dir, .. } = servers();
    drop(hosts.remove(2));
    let listener = crate::transport::tcp::listen(placement.server(2).unwrap().address).unwrap();
    let network = network(PeerId::Server(2), &placement, identity, authority.sign("server-2"));
    let _forgets = crate::transport::tcp::Tcp::open(network, Some(listener), Forgets).unwrap();
    assert!(client.wait_up(3, Duration::from_secs(30)));
    let left = Duration::from_secs(3);
    for vector in vectors(6, 3).chunks_exact(DIM) {
        let started = Instant::now();
        match client.search(partial(vector, left)) {
            // The last attempt asks one server for its own rows: it may be the one that forgets.
            Ok(found) => assert!(found.missing.len() < 3, "{:?}", found.missing),
            Err(NoAnswer::Deadline { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(started.elapsed() < left + Duration::from_secs(20), "it does not hang");
    }
}
