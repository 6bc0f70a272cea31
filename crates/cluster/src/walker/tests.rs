//! Servers over sockets with an index in parts, asked by a client, against one that has it whole.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pipeann_engine::build::{BuildOptions, Silent, build};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::Accountant;
use pipeann_engine::pool::{FILTER_MAX, PoolOptions};
use pipeann_engine::search::{DistanceRange, Policy};
use pipeann_engine::types::{Metric, VectorSet, VectorType};

use super::{Asked, IndexWalker, ReadPolicy, Spent, WalkerOptions};
use crate::placement::Placement;
use crate::relay::{AskerSettings, Client, NoAnswer, Query, ServerHost, ServerSettings};
use crate::transport::tcp::tests::{Authority, cluster};
use crate::transport::tcp::{Identity, Limits, OpenError, Settings, Tls};
use crate::wire::{FailureCode, Hits, Mode, PeerId};

const DIM: usize = 16;
const SERVERS: u32 = 3;
const SLOTS: u32 = 32;

fn vectors(rows: usize, seed: u64) -> Vec<u8> {
    let mut x = seed;
    let mut next = move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as usize
    };
    (0..rows)
        .flat_map(|_| {
            let centre = next() % 30;
            (0..DIM).map(|d| ((centre * 37 + d * 11) % 160 + next() % 60) as u8).collect::<Vec<_>>()
        })
        .collect()
}

fn open_options(own: Option<u32>) -> OpenOptions {
    let own = own.map(|partition| [partition].into());
    let accountant = Accountant::new(None);
    OpenOptions { direct: false, accountant, own, ..OpenOptions::default() }
}

struct Servers {
    placement: Placement,
    hosts: Vec<ServerHost<IndexWalker>>,
    client: Client,
    dir: tempfile::TempDir,
    whole: Index,
    identity: Identity,
    authority: Authority,
}

fn identity(index: &Index) -> Identity {
    let origin = index.origin();
    Identity { index: origin.uuid, generation: origin.generation, codebook: origin.codebook }
}

fn network(me: PeerId, placement: &Placement, identity: Identity, tls: Tls) -> Settings {
    let limits = Limits { redial_first_us: 2_000, redial_most_us: 50_000, ..Limits::default() };
    let (placement, tls) = (placement.clone(), Some(tls));
    Settings { me, placement, identity, slots: SLOTS, tls, limits, seed: 1 }
}

fn index_in(dir: &Path, rows: usize) {
    let bytes = vectors(rows, 1);
    let set = VectorSet::new(&bytes, DIM, VectorType::U8).unwrap();
    let mut options =
        BuildOptions { partitions: SERVERS as usize, ..BuildOptions::new(Metric::L2) };
    options.graph.degree = 24;
    // With one thread it is the same graph every time.
    options.graph.threads = 1;
    options.graph.list = 40;
    build(set, dir, &options, &Silent, &AtomicBool::new(false)).unwrap();
}

fn servers() -> Servers {
    servers_behind(|_, listener| listener)
}

/// The same, where each server listens at what is made of its listener.
fn servers_behind(mut behind: impl FnMut(u32, TcpListener) -> TcpListener) -> Servers {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    index_in(&path, 3000);
    let (placement, listeners) = cluster(SERVERS);
    let authority = Authority::new();
    let whole = Index::open(&path, &open_options(None)).unwrap();
    let hosts = listeners.into_iter().zip(0..).map(|(listener, number)| {
        let listener = behind(number, listener);
        let index = Arc::new(Index::open(&path, &open_options(Some(number))).unwrap());
        let tls = authority.sign(&format!("server-{number}"));
        let network = network(PeerId::Server(number), &placement, identity(&index), tls);
        let longest = Duration::from_secs(60);
        let settings = ServerSettings {
            number,
            placement: Arc::new(placement.clone()),
            slots: SLOTS,
            longest_us: longest.as_micros() as u64,
        };
        let pool = PoolOptions { threads: 1, in_flight: 4, waiting: 1024, ..Default::default() };
        let options =
            WalkerOptions { separate: None, separate_filters: None, filters: None, pool, longest };
        ServerHost::open::<OpenError>(network, listener, settings, |results| {
            Ok(IndexWalker::start(index, options, results).unwrap())
        })
        .unwrap()
    });
    let hosts: Vec<_> = hosts.collect();
    let me = PeerId::Client(7);
    let tls = authority.sign("client");
    let settings = AskerSettings { me, attempt_us: 20_000_000, attempts: 3, waiting: 1000 };
    let client = Client::open(network(me, &placement, Identity::default(), tls), settings).unwrap();
    assert!(client.wait_up(SERVERS as usize, Duration::from_secs(30)));
    for host in &hosts {
        assert!(host.wait_up(SERVERS as usize - 1, Duration::from_secs(30)));
    }
    let identity = identity(&whole);
    Servers { placement, hosts, client, dir, whole, identity, authority }
}

fn query(vector: &[u8], asked: Asked, left: Duration) -> Query {
    Query {
        mode: Mode::Relay,
        parameters: asked.encode(),
        vector: vector.to_vec(),
        left_us: left.as_micros() as u64,
        hops: 200,
        at: None,
        partial: false,
    }
}

const ONE: Asked = Asked {
    k: 10,
    list: 40,
    width: 1,
    ahead: 1,
    baton: false,
    round_robin: false,
    ty: VectorType::U8,
    within: DistanceRange::ALL,
};

#[test]
fn a_query_travels_over_sockets_to_the_answer_of_one_server_with_all() {
    let Servers { hosts, client, whole, dir: _dir, .. } = servers();
    let queries = vectors(60, 2);
    let mut travelled = 0;
    for asked in [ONE, Asked { baton: true, ..ONE }, Asked { round_robin: true, ..ONE }] {
        let answers: Vec<_> = queries
            .chunks_exact(DIM)
            .map(|vector| client.ask(query(vector, asked, Duration::from_secs(60))).unwrap())
            .collect();
        for (vector, answer) in queries.chunks_exact(DIM).zip(answers) {
            let found = answer.recv().unwrap().unwrap();
            let expected = whole.search(vector, &asked.params(), None).unwrap();
            let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().collect();
            let same = rows.iter().zip(&expected.hits);
            assert_eq!(rows.len(), expected.hits.len());
            assert!(same.clone().all(|(a, b)| (a.row, a.distance) == (b.row.0, b.distance)));
            let spent = Spent::decode(&found.stats).unwrap();
            assert_eq!(u64::from(spent.reads), expected.stats.reads);
            assert_eq!(spent.moves as usize + 1, found.trace.len());
            assert_eq!(found.attempts, 1);
            travelled += spent.moves;
        }
    }
    assert!(travelled > 60, "{travelled}");
    let counters = hosts.iter().map(ServerHost::counters);
    let (mut begun, mut answered, mut repeated) = (0, 0, 0);
    for of in counters {
        begun += of.begun;
        answered += of.answered;
        repeated += of.repeated + of.beyond_grant + of.out_of_place + of.failed;
    }
    assert_eq!((begun, answered, repeated), (180, 180, 0));
}

#[test]
fn a_server_that_is_killed_is_named_before_the_deadline_and_the_others_go_on() {
    let Servers { placement, mut hosts, client, whole, dir: _dir, .. } = servers();
    drop(hosts.remove(2));
    let queries = vectors(40, 3);
    let started = Instant::now();
    let (mut found, mut gone) = (0, 0);
    for vector in queries.chunks_exact(DIM) {
        match client.search(query(vector, ONE, Duration::from_secs(60))) {
            Ok(answer) => {
                assert!(!answer.trace.contains(&2));
                let expected = whole.search(vector, &ONE.params(), None).unwrap();
                let rows = Hits::of(&answer.hits).unwrap().iter().map(|hit| hit.row);
                assert!(rows.eq(expected.hits.iter().map(|hit| hit.row.0)));
                found += 1;
            }
            Err(NoAnswer::Failed { code: FailureCode::PartitionGone, partition, words }) => {
                assert_eq!(partition, Some(2));
                assert!(words.contains("server 2, of partition 2, is gone"), "{words}");
                gone += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(found > 0 && gone > 0, "{found} found, {gone} not");
    assert!(started.elapsed() < Duration::from_secs(60), "none waited for its deadline");
    assert_eq!(placement.owner(2), Some(2));
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason_and_once() {
    let Servers { hosts, client, dir: _dir, .. } = servers();
    let vector = vectors(1, 4);
    let left = Duration::from_secs(60);
    let refused = |query: Query, words: &str| {
        let Err(NoAnswer::Failed { code, words: told, .. }) = client.search(query) else {
            panic!("{words}")
        };
        assert_eq!(code, FailureCode::Refused, "{told}");
        assert!(told.contains(words), "{told}");
    };
    refused(query(&vector[..5], ONE, left), "query has 5 dimensions, the index has 16");
    let wide = Asked { ty: VectorType::F32, ..ONE };
    refused(query(&[0; 4 * DIM], wide, left), "query has f32 components, the index has u8");
    let parameters = ONE.encode_among(&[b' '; FILTER_MAX + 1]);
    let long = Query { parameters, ..query(&vector, ONE, left) };
    refused(long, "the filter is longer than 65536 bytes");
    let begun = hosts.iter().map(|host| host.counters().begun).sum::<u64>();
    assert_eq!(begun, 0, "nothing of these was taken in");
    let other = Asked { ty: VectorType::I8, ..ONE };
    refused(query(&vector, other, left), "query has i8 components, the index has u8");
    refused(query(&vector, Asked { k: 0, ..ONE }, left), "k is 0");
    refused(query(&vector, Asked { ahead: 0, ..ONE }, left), "ahead is 0");
    let scatter = Query { mode: Mode::Scatter, ..query(&vector, ONE, left) };
    refused(scatter, "no index of its own rows");
    let orchestrate = Query { mode: Mode::Orchestrate, ..query(&vector, ONE, left) };
    refused(orchestrate, "the mode Orchestrate is not served");
    let nowhere = Query { at: Some(9), ..query(&vector, ONE, left) };
    let Err(NoAnswer::Failed { code, words, .. }) = client.search(nowhere) else {
        panic!("nobody is there")
    };
    assert_eq!((code, words.as_str()), (FailureCode::PartitionGone, "server 9 is gone"));
    let garbage = Query { parameters: vec![9; 4], ..query(&vector, ONE, left) };
    refused(garbage, "parameters that cannot be read");
    let hops = Query { hops: 0, ..query(&vector, ONE, left) };
    match client.search(hops) {
        Ok(found) => assert_eq!(found.trace.len(), 1),
        Err(NoAnswer::Failed { code, .. }) => assert_eq!(code, FailureCode::Hops),
        Err(other) => panic!("{other}"),
    }
    let late = client.search(query(&vector, ONE, Duration::ZERO)).unwrap_err();
    assert!(matches!(late, NoAnswer::Deadline { .. } | NoAnswer::Failed { .. }), "{late}");
    assert!(client.search(query(&vector, ONE, left)).is_ok(), "and the next one is answered");
}

#[test]
fn what_is_asked_and_spent_is_read_as_it_was_written() {
    assert_eq!(Asked::decode(&ONE.encode()), Some((ONE, &[][..])));
    assert_eq!(Asked::decode(&ONE.encode_among(b"a < 3")), Some((ONE, &b"a < 3"[..])));
    assert_eq!(Asked::decode(&ONE.encode()[1..]), None);
    for (baton, round_robin) in [(false, true), (true, false), (true, true)] {
        let asked = Asked { baton, round_robin, ..ONE };
        assert_eq!(Asked::decode(&asked.encode()), Some((asked, &[][..])));
        assert_eq!(asked.params().policy.home, !round_robin);
    }
    let unknown = [&ONE.encode()[..12], &[4], &ONE.encode()[13..]].concat();
    assert_eq!(Asked::decode(&unknown), None);
    let ahead = [(1, 10), (10, 20), (10, 64), (100, 160), (9, u32::MAX), (u32::MAX, 0)];
    let ahead = ahead.map(|(k, list)| Asked::look_ahead(k, list));
    assert_eq!(ahead, [4, 8, 12, 32, 512, 8]);
    let spent = Spent { reads: 1, from_memory: 2, explored: 3, codes: 4, moves: u32::MAX };
    assert_eq!(Spent::decode(&spent.encode()), Some(spent));
    assert_eq!(Spent::decode(&[0; 21]), None);
}

#[test]
fn what_is_left_open_is_the_papers_search_in_rounds_and_ours_otherwise() {
    let of = |policy: ReadPolicy| (policy.width(), policy.ahead(10, 200));
    let (ours, rounds) = (ReadPolicy::default(), ReadPolicy { baton: true, ..Default::default() });
    assert_eq!(of(ours), (2, Asked::look_ahead(10, 200)));
    assert_eq!(of(rounds), (64, 64));
    assert_eq!(of(ReadPolicy { width: Some(8), ..rounds }), (8, 8));
    assert_eq!(of(ReadPolicy { width: Some(8), ..ours }), (8, Asked::look_ahead(10, 200)));
    assert_eq!(of(ReadPolicy { width: Some(1), ahead: Some(3), ..rounds }), (1, 3));
    // The paper's is what the engine calls so.
    let asked = Asked { width: 64, ahead: 64, baton: true, ..ONE };
    assert_eq!(asked.params().policy, Policy::baton(64));
}

mod orchestrated;
mod pages;
mod partial;
mod ranges;
