//! Queries whose list stays with their asker, over sockets and counted in one process; and replicas.

use std::collections::HashSet;

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::index::QueryError;
use pipeann_engine::search::{Policy, SearchParams};

use super::*;
use crate::relay::{Asker, Orchestrated, Orchestrator};
use crate::walker::{Answered, Counted};

/// A list that misses some of the nearest.
const SHORT: u32 = 12;
const SETTINGS: AskerSettings =
    AskerSettings { me: PeerId::Client(8), attempt_us: 20_000_000, attempts: 3, waiting: 1000 };

fn asked(vector: &[u8], width: u16, left: Duration) -> Orchestrated {
    Orchestrated {
        k: ONE.k,
        list: ONE.list,
        width,
        packed: false,
        parameters: Asked { width, ..ONE }.encode(),
        vector: vector.to_vec(),
        left_us: left.as_micros() as u64,
        hops: 1000,
    }
}

fn beam(width: u16) -> SearchParams {
    let policy = Policy::beam(width);
    SearchParams { k: ONE.k as usize, list: ONE.list as usize, policy, ..SearchParams::default() }
}

fn orchestrating(servers: &Servers) -> Client<Orchestrator> {
    let Servers { placement, authority, .. } = servers;
    let machine = Orchestrator::new(SETTINGS, Arc::new(placement.clone()));
    let tls = authority.sign("client");
    let network = network(SETTINGS.me, placement, Identity::default(), tls);
    let client = Client::over(network, machine).unwrap();
    assert!(client.wait_up(SERVERS as usize, Duration::from_secs(30)));
    client
}

#[test]
fn one_node_at_a_time_is_the_best_first_search_of_one_server() {
    let servers = servers();
    let client = orchestrating(&servers);
    let queries = vectors(40, 2);
    let answers: Vec<_> = queries
        .chunks_exact(DIM)
        .map(|vector| client.ask(asked(vector, 1, Duration::from_secs(60))).unwrap())
        .collect();
    for (vector, answer) in queries.chunks_exact(DIM).zip(answers) {
        let found = answer.recv().unwrap().unwrap();
        let expected = servers.whole.search(vector, &beam(1), None).unwrap();
        let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().collect();
        assert_eq!(rows.len(), expected.hits.len());
        let mut same = rows.iter().zip(&expected.hits);
        assert!(same.all(|(a, b)| (a.row, a.distance) == (b.row.0, b.distance)));
        let spent = Spent::decode(&found.stats).unwrap();
        assert_eq!(u64::from(spent.reads), expected.stats.reads);
        // One for the entries, and one for each node.
        assert_eq!((found.rounds, found.trace.len()), (1 + spent.explored, found.rounds as usize));
        assert_eq!(found.attempts, 1);
    }
    for host in &servers.hosts {
        let of = host.counters();
        assert!(of.scored > 100, "{of:?}");
        let others = of.begun + of.repeated + of.beyond_grant + of.out_of_place + of.failed;
        assert_eq!(others, 0, "{of:?}");
    }
}

#[test]
fn a_scoring_server_that_is_killed_is_named_before_the_deadline() {
    let mut servers = servers();
    let client = orchestrating(&servers);
    drop(servers.hosts.remove(1));
    let queries = vectors(30, 3);
    let started = Instant::now();
    let (mut found, mut gone) = (0, 0);
    for vector in queries.chunks_exact(DIM) {
        match client.search(asked(vector, 8, Duration::from_secs(60))) {
            Ok(answer) => {
                assert!(!answer.trace.contains(&1));
                found += 1;
            }
            Err(NoAnswer::Failed { code: FailureCode::PartitionGone, partition, words }) => {
                assert_eq!(partition, Some(1));
                assert_eq!(words, "server 1, of partition 1, is gone");
                gone += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(gone > 0, "{found} found, {gone} not");
    assert!(started.elapsed() < Duration::from_secs(60), "none waited for its deadline");
    let late = client.search(asked(&queries[..DIM], 8, Duration::ZERO)).unwrap_err();
    assert!(matches!(late, NoAnswer::Deadline { .. } | NoAnswer::Failed { .. }), "{late}");
}

#[test]
fn what_cannot_be_scored_is_refused_with_the_reason() {
    let servers = servers();
    let client = orchestrating(&servers);
    let left = Duration::from_secs(60);
    let vector = vectors(1, 4);
    let refused = |query: Orchestrated, words: &str| {
        let Err(NoAnswer::Failed { code, words: told, .. }) = client.search(query) else {
            panic!("{words}")
        };
        assert_eq!(code, FailureCode::Refused, "{told}");
        assert!(told.contains(words), "{told}");
    };
    refused(asked(&vector[..5], 1, left), "query has 5 dimensions, the index has 16");
    let of = |parameters| Orchestrated { parameters, ..asked(&vector, 1, left) };
    refused(of(Asked { ty: VectorType::I8, ..ONE }.encode()), "the index has u8");
    refused(of(Asked { k: 0, ..ONE }.encode()), "k is 0");
    refused(of(ONE.encode_among(b"a < 3")), "takes no filter");
    refused(of(vec![9; 4]), "parameters that cannot be read");
    let few = Orchestrated { hops: 2, ..asked(&vector, 1, left) };
    let Err(NoAnswer::Failed { code, .. }) = client.search(few) else { panic!("too few steps") };
    assert_eq!(code, FailureCode::Hops);
}

/// The servers in one process, each with its partition, or all as replicas at home in theirs.
fn counted(dir: &Path, placement: &Placement, replicas: bool) -> Counted {
    let path = dir.join("index");
    Counted::open::<QueryError>(&Arc::new(placement.clone()), |number| {
        let own = open_options(Some(number));
        let options = if replicas { OpenOptions { own: None, home: own.own, ..own } } else { own };
        let pool = PoolOptions { threads: 1, in_flight: 4, waiting: 1024, ..Default::default() };
        let longest = Duration::from_secs(60);
        let options_of =
            WalkerOptions { separate: None, separate_filters: None, filters: None, pool, longest };
        Ok((Arc::new(Index::open(&path, &options).unwrap()), options_of))
    })
    .unwrap()
}

/// The ten nearest rows.
fn truth(base: &[u8], vector: &[u8]) -> HashSet<u64> {
    let distance = QueryDistance::new(Metric::L2, VectorType::U8, vector);
    let rows = base.chunks_exact(DIM).zip(0_u64..);
    let mut all: Vec<_> = rows.map(|(other, row)| (distance.distance(other), row)).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all[..10].iter().map(|(_, row)| *row).collect()
}

/// True neighbours found, pages read, and messages of all queries, by a list that misses some.
fn kept(
    counted: &mut Counted,
    placement: &Placement,
    (queries, truths): (&[u8], &[HashSet<u64>]),
    (width, packed): (u16, bool),
) -> (usize, u64, u64) {
    let settings = AskerSettings { me: Counted::asker(), ..SETTINGS };
    let machine = Orchestrator::new(settings, Arc::new(placement.clone()));
    let mut machine = machine.stopping(crate::walker::coding_errors);
    let left = Duration::from_secs(60);
    let asked = queries.chunks_exact(DIM).map(|vector| asked(vector, width, left));
    let parameters = Asked { list: SHORT, width, ..ONE }.encode();
    let asked = asked.map(|query| Orchestrated {
        packed,
        list: SHORT,
        parameters: parameters.clone(),
        ..query
    });
    let answers = counted.ask(&mut machine, asked).unwrap();
    let (mut found, mut reads, mut sent) = (0, 0, 0);
    for (truth, Answered { ended, messages, .. }) in truths.iter().zip(answers) {
        let answer = ended.unwrap();
        let hits = Hits::of(&answer.hits).unwrap();
        found += hits.iter().filter(|hit| truth.contains(&hit.row)).count();
        reads += u64::from(Spent::decode(&answer.stats).unwrap().reads);
        sent += messages;
    }
    (found, reads, sent)
}

#[test]
fn packed_it_reads_what_a_search_of_one_server_reads_that_uses_whole_pages_and_stops_early() {
    let Servers { placement, dir, whole, hosts, .. } = servers();
    drop(hosts);
    let (base, queries) = (vectors(3000, 1), vectors(200, 5));
    let mut counted = counted(dir.path(), &placement, false);
    let truths: Vec<_> = queries.chunks_exact(DIM).map(|vector| truth(&base, vector)).collect();
    for width in [1, 4, 16] {
        let policy = Policy::page(width);
        let params = SearchParams { policy, list: SHORT as usize, ..beam(width) };
        let (mut of_page, mut page_reads) = (0, 0);
        for (vector, truth) in queries.chunks_exact(DIM).zip(&truths) {
            let whole = whole.search(vector, &params, None).unwrap();
            of_page += whole.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
            page_reads += whole.stats.reads;
        }
        let asked = (queries.as_slice(), truths.as_slice());
        let mut run = |packed| kept(&mut counted, &placement, asked, (width, packed));
        let (paper, packed) = (run(false), run(true));
        assert_eq!(run(true), packed, "counts do not depend on who answers first");
        let (found, reads, messages) = packed;
        let said = format!("width {width}: {packed:?}, {of_page} {page_reads}, {paper:?}");
        assert!(found + 20 >= of_page && found + 20 >= paper.0, "{said}");
        // Nodes of one page are so many of a step, and one read.
        assert!(reads * 20 <= page_reads * 21, "{said}");
        assert!(width > 1 || reads * 20 >= page_reads * 19, "{said}");
        assert!(reads < paper.1 && messages < paper.2, "{said}");
    }
}

#[test]
fn a_step_of_any_width_finds_what_a_beam_of_that_width_finds_and_is_counted_exactly() {
    let Servers { placement, dir, whole, hosts, .. } = servers();
    drop(hosts);
    let (base, queries) = (vectors(3000, 1), vectors(200, 5));
    let mut counted = counted(dir.path(), &placement, false);
    for width in [1, 4, 16, 64] {
        let mut machine = Orchestrator::new(
            AskerSettings { me: Counted::asker(), ..SETTINGS },
            Arc::new(placement.clone()),
        );
        let rows = queries.chunks_exact(DIM);
        let left = Duration::from_secs(60);
        let asked = rows.clone().map(|vector| asked(vector, width, left));
        let answers = counted.ask(&mut machine, asked).unwrap();
        let (mut found, mut of_beam, mut explored, mut beam_explored) = (0, 0, 0, 0);
        for (vector, Answered { ended, messages, bytes }) in rows.zip(answers) {
            let answer = ended.unwrap();
            let truth = truth(&base, vector);
            found +=
                Hits::of(&answer.hits).unwrap().iter().filter(|h| truth.contains(&h.row)).count();
            let whole = whole.search(vector, &beam(width), None).unwrap();
            of_beam += whole.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
            explored += u64::from(Spent::decode(&answer.stats).unwrap().explored);
            beam_explored += whole.stats.hops;
            // Each request has one answer.
            assert_eq!(messages, 2 * answer.trace.len() as u64);
            assert!(answer.rounds as usize <= answer.trace.len());
            assert!(bytes > messages * 60, "{bytes} bytes of {messages} messages");
        }
        assert!(found.abs_diff(of_beam) <= 10, "width {width}: {found} and {of_beam} of 2000");
        // A beam explores nothing that a nearer one of the same round pushed out of its list; a
        // server knows of no list, and scores all that it is given.
        let over = explored as f64 / beam_explored as f64;
        let near = if width == 1 { 1.0..=1.0 } else { 0.8..=2.0 };
        assert!(near.contains(&over), "width {width}: {explored} and {beam_explored} explored");
    }
}

#[test]
fn a_query_of_replicas_begins_where_its_entry_is_at_home_and_goes_there_once() {
    let Servers { placement, dir, hosts, .. } = servers();
    drop(hosts);
    let mut counted = counted(dir.path(), &placement, true);
    let queries = vectors(60, 6);
    let mut by_mode = Vec::new();
    for mode in [Mode::Replicas, Mode::Region] {
        let mut asker = Asker::new(
            AskerSettings { me: Counted::asker(), ..SETTINGS },
            Arc::new(placement.clone()),
        );
        let rows = queries.chunks_exact(DIM);
        let asked =
            rows.map(|vector| Query { mode, ..query(vector, ONE, Duration::from_secs(60)) });
        by_mode.push(counted.ask(&mut asker, asked).unwrap());
    }
    let (mut moved, mut homes) = (0, HashSet::new());
    for (in_turn, by_region) in by_mode[0].iter().zip(&by_mode[1]) {
        let (a, b) = (in_turn.ended.as_ref().unwrap(), by_region.ended.as_ref().unwrap());
        assert_eq!(a.hits, b.hits);
        let (a_spent, b_spent) =
            (Spent::decode(&a.stats).unwrap(), Spent::decode(&b.stats).unwrap());
        assert_eq!((a_spent.moves, a_spent.reads), (0, b_spent.reads));
        assert_eq!((in_turn.messages, by_region.messages), (2, 2 + u64::from(b_spent.moves)));
        assert!(b_spent.moves <= 1 && b.trace.len() == 1 + b_spent.moves as usize);
        moved += b_spent.moves;
        homes.insert(*b.trace.last().unwrap());
    }
    assert!(moved > 20 && homes.len() == SERVERS as usize, "{moved} moved, {homes:?}");
}
