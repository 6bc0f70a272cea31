//! An orchestrator between a network and servers that do as a test says.

use super::*;
use crate::placement::Server;
use crate::relay::query::Found;
use crate::relay::tests::Wires;
use crate::transport::{Hold, Refused};
use crate::wire::{Hello, Hits, Neighbours, Numbers, Read, Reads, Scored, read};

const ME: PeerId = PeerId::Client(5);

struct Bench {
    wires: Wires,
    orchestrator: Orchestrator,
    now: u64,
}

/// A `Score` as it was sent: to whom, attempt, steps left, bound, and nodes.
type Sent = (u32, u16, u16, f32, Vec<u32>);

impl Bench {
    /// Two servers, each with a partition, that grant so many slots.
    fn new(slots: u32) -> Self {
        Self::of(slots, [vec![0], vec![1]])
    }

    /// Two servers with these partitions.
    fn of(slots: u32, partitions: [Vec<u32>; 2]) -> Self {
        let server = |(number, partitions)| Server {
            number,
            address: ([127, 0, 0, 1], number as u16 + 1).into(),
            tls_name: String::new(),
            partitions,
        };
        let servers = (0..).zip(partitions).map(server).collect();
        let placement = Arc::new(Placement::new("blue".to_owned(), 2, servers).unwrap());
        let settings = AskerSettings { me: ME, attempt_us: 1000, attempts: 2, waiting: 3 };
        let orchestrator = Orchestrator::new(settings, placement);
        let mut bench = Self { wires: Wires::default(), orchestrator, now: 0 };
        (0..2).for_each(|number| bench.up(number, slots, 4));
        bench
    }

    fn event(&mut self, event: Event<'_>) {
        self.orchestrator.event(self.now, &self.wires, event);
    }

    fn up(&mut self, number: u32, slots: u32, generation: u64) {
        let hello = Hello {
            cluster: "blue",
            who: PeerId::Server(number),
            index: [1; 16],
            generation,
            codebook: 1,
            partitions: Numbers::default(),
            slots,
            credit: 0,
        };
        self.event(Event::Up { peer: hello.who, hello });
    }

    fn down(&mut self, number: u32) {
        let peer = PeerId::Server(number);
        self.event(Event::Down { peer, why: &crate::transport::Why::Closed });
    }

    fn due(&mut self) -> Option<u64> {
        self.orchestrator.due(self.now, &self.wires)
    }

    fn failure(&mut self, (server, number): (u32, u64), attempt: u16, code: FailureCode) {
        let query = QueryId { asker: ME, number };
        let failure = Failure { query, attempt, code, partition: None, words: "it failed" };
        let (message, hold) = (Message::Failure(failure), Hold::default());
        self.event(Event::Message { peer: PeerId::Server(server), message, hold });
    }

    fn ask(&mut self) -> Result<u64, NoAnswer> {
        self.ask_packed(false)
    }

    fn ask_packed(&mut self, packed: bool) -> Result<u64, NoAnswer> {
        let (k, list, width, left_us, hops) = (2, 4, 3, 500_000, 9);
        let (parameters, vector) = (vec![1], vec![2]);
        let query = Orchestrated { k, list, width, packed, parameters, vector, left_us, hops };
        self.orchestrator.ask(self.now, &self.wires, query)
    }

    /// What was sent since this was asked last; cancellations are told apart.
    fn sent(&self) -> (Vec<Sent>, Vec<u32>) {
        let (mut scores, mut cancelled) = (Vec::new(), Vec::new());
        for (to, frame) in self.wires.sent.take() {
            let to = to.server().expect("it asks servers");
            match read(&frame).unwrap().0 {
                Message::Score(s) => {
                    assert_eq!((s.query.asker, s.parameters, s.vector), (ME, &[1][..], &[2][..]));
                    scores.push((to, s.attempt, s.hops, s.bound, s.nodes.iter().collect()));
                }
                Message::Cancel(_) => cancelled.push(to),
                other => panic!("{other:?}"),
            }
        }
        (scores, cancelled)
    }

    fn scored(
        &mut self,
        (server, number): (u32, u64),
        (attempt, hops): (u16, u16),
        reads: &[(u32, f32)],
        neighbours: &[(f32, u32)],
        starts: &[u32],
    ) {
        let reads = reads.iter().map(|&(node, distance)| Read {
            node,
            distance,
            row: Some(u64::from(node) + 1000),
        });
        let (reads, neighbours) =
            (Reads::pack(reads), Neighbours::pack(neighbours.iter().copied()));
        let starts = Numbers::pack(starts.iter().copied());
        let message = Message::Scored(Scored {
            query: QueryId { asker: ME, number },
            attempt,
            hops,
            early_stop: false,
            reads: Reads::of(&reads).unwrap(),
            neighbours: Neighbours::of(&neighbours).unwrap(),
            starts: Numbers::of(&starts).unwrap(),
            stats: &[3, 0, 0, 0],
        });
        let hold = Hold::default();
        self.event(Event::Message { peer: PeerId::Server(server), message, hold });
    }

    fn one_end(&mut self) -> Ended {
        let mut ended = self.orchestrator.take_ended();
        assert_eq!((ended.len(), self.orchestrator.open()), (1, 0));
        ended.remove(0).1
    }
}

#[test]
fn a_step_asks_each_owner_once_and_ends_when_all_have_answered() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    assert_eq!(bench.sent().0, [(0, 0, 9, f32::INFINITY, vec![])]);
    let entries = [(1.0, 5), (2.0, 150), (3.0, 7), (4.0, 160)];
    bench.scored((0, query), (0, 9), &[], &entries, &[0, 100]);
    // The list is full of four, so its last is the bound.
    assert_eq!(bench.sent().0, [(0, 0, 8, 4.0, vec![5, 7]), (1, 0, 8, 4.0, vec![150])]);
    bench.scored((1, query), (0, 8), &[(150, 0.5)], &[(3.5, 170)], &[]);
    // Nor does what comes twice, of another step, or unasked change anything.
    bench.scored((1, query), (0, 8), &[(150, 0.1)], &[(0.1, 1)], &[]);
    bench.scored((0, query), (0, 9), &[], &[(0.1, 1)], &[]);
    bench.scored((0, query), (1, 8), &[], &[(0.1, 1)], &[]);
    assert_eq!(bench.sent(), (vec![], vec![]));
    bench.scored((0, query), (0, 8), &[(5, 9.0), (7, 1.5), (160, 0.0)], &[], &[]);
    assert_eq!(bench.sent().0, [(1, 0, 7, 4.0, vec![170, 160])]);
    bench.scored((1, query), (0, 7), &[(170, 3.0), (160, 3.9)], &[], &[]);
    let Found { hits, trace, rounds, attempts, stats, missing } = bench.one_end().unwrap();
    assert_eq!(missing, [0; 0]);
    let rows: Vec<_> = Hits::of(&hits).unwrap().iter().map(|hit| hit.row).collect();
    assert_eq!((rows, trace, rounds, attempts), (vec![1150, 1007], vec![0, 0, 1, 1], 3, 1));
    assert_eq!(stats, 12_u32.to_le_bytes(), "each of four answers cost three");
    // Of the next query nobody has to tell where partitions begin, and another server is asked.
    bench.ask().unwrap();
    assert_eq!(bench.sent().0[0].0, 1);
}

#[test]
fn an_attempt_that_is_not_heard_of_begins_anew_elsewhere_until_its_deadline() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    bench.sent();
    bench.now = 1000;
    assert_eq!(bench.orchestrator.due(bench.now, &bench.wires), Some(2000));
    assert_eq!(bench.sent(), (vec![(1, 1, 9, f32::INFINITY, vec![])], vec![0]));
    bench.scored((0, query), (0, 9), &[], &[(1.0, 5)], &[0, 100]);
    assert_eq!(bench.sent(), (vec![], vec![]), "the first attempt is over");
    bench.now = 2000;
    bench.orchestrator.due(bench.now, &bench.wires);
    assert!(matches!(bench.one_end(), Err(NoAnswer::Deadline { attempts: 2, .. })));
    assert_eq!(bench.sent(), (vec![], vec![1]));
}

#[test]
fn a_connection_that_is_dialled_anew_costs_a_query_nothing_but_time() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    let entries = [(1.0, 5), (2.0, 150)];
    bench.scored((0, query), (0, 9), &[], &entries, &[0, 100]);
    bench.sent();
    bench.down(1);
    bench.wires.refuse.borrow_mut().insert(PeerId::Server(1), Refused::Down);
    // What the other one still scores is given up before it is asked anew.
    assert_eq!(bench.sent(), (vec![(0, 1, 9, f32::INFINITY, vec![])], vec![0]));
    bench.scored((0, query), (1, 9), &[], &entries, &[]);
    assert_eq!(bench.sent(), (vec![(0, 1, 8, f32::INFINITY, vec![5])], vec![0]));
    // What the connection took is not counted, and what fails again is begun anew in a while.
    bench.now = 1999;
    assert_eq!(bench.due(), Some(2000));
    bench.wires.refuse.borrow_mut().clear();
    bench.up(1, 8, 4);
    assert_eq!(bench.sent(), (vec![], vec![]));
    bench.now = 2000;
    bench.due();
    assert_eq!(bench.sent(), (vec![(1, 2, 9, f32::INFINITY, vec![])], vec![]));
    bench.scored((1, query), (2, 9), &[], &entries, &[]);
    bench.scored((0, query), (2, 8), &[(5, 1.0)], &[], &[]);
    bench.scored((1, query), (2, 8), &[(150, 1.0)], &[], &[]);
    assert_eq!(bench.one_end().unwrap().attempts, 3);
}

#[test]
fn a_server_that_goes_is_named_once_no_attempt_is_left() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    bench.scored((0, query), (0, 9), &[], &[(1.0, 5), (2.0, 150)], &[0, 100]);
    bench.down(1);
    bench.wires.refuse.borrow_mut().insert(PeerId::Server(1), Refused::Down);
    for attempt in 1..=2 {
        assert_eq!(bench.orchestrator.open(), 1);
        bench.due();
        bench.sent();
        bench.scored((0, query), (attempt, 9), &[], &[(1.0, 5), (2.0, 150)], &[]);
        bench.now += 2000;
    }
    let Err(NoAnswer::Failed { code, partition, words }) = bench.one_end() else { panic!() };
    assert_eq!((code, partition), (FailureCode::PartitionGone, Some(1)));
    assert_eq!(words, "server 1, of partition 1, is gone");
    assert_eq!(bench.sent().1, [0]);
}

#[test]
fn a_server_without_a_slot_is_asked_again_after_waits_that_grow() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    let mut waited = Vec::new();
    for attempt in 0..5 {
        let server = bench.sent().0[0].0;
        bench.failure((server, query), attempt, FailureCode::NoRoom);
        assert!(bench.orchestrator.take_ended().is_empty(), "more attempts than two");
        let before = bench.now;
        while let next = bench.due().expect("it rests")
            && bench.wires.sent.borrow().is_empty()
        {
            bench.now = next;
        }
        waited.push(bench.now - before);
    }
    assert_eq!(waited, [0, 2000, 4000, 8000, 16_000]);
    let server = bench.sent().0[0].0;
    bench.failure((server, query), 5, FailureCode::Internal);
    bench.now = bench.due().unwrap();
    bench.due();
    let server = bench.sent().0[0].0;
    bench.failure((server, query), 6, FailureCode::Internal);
    let Err(NoAnswer::Failed { code, .. }) = bench.one_end() else { panic!() };
    assert_eq!(code, FailureCode::Internal, "two of these are counted");
}

#[test]
fn what_was_read_beside_a_node_is_used_where_that_was_asked_for() {
    let mut bench = Bench::new(8);
    for packed in [false, true] {
        let query = bench.ask_packed(packed).unwrap();
        let (server, ..) = bench.sent().0[0];
        bench.scored((server, query), (0, 9), &[], &[(1.0, 5), (2.0, 7)], &[0, 100]);
        assert_eq!(bench.sent().0[0].4, [5, 7]);
        // One of the list, and one that nobody knew of.
        bench.scored((0, query), (0, 8), &[(5, 2.0), (7, 3.0), (9, 1.0)], &[(0.5, 9)], &[]);
        let asked_again = if packed { vec![] } else { vec![9] };
        assert_eq!(
            bench.sent().0.iter().flat_map(|s| s.4.clone()).collect::<Vec<_>>(),
            asked_again
        );
        if !packed {
            bench.scored((0, query), (0, 7), &[(9, 1.0)], &[], &[]);
        }
        let found = bench.one_end().unwrap();
        let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().map(|hit| hit.row).collect();
        assert_eq!((rows, found.rounds), (vec![1009, 1005], if packed { 2 } else { 3 }));
    }
}

#[test]
fn what_finds_no_room_waits_for_it_and_no_more_is_under_way_than_was_granted() {
    let mut bench = Bench::new(1);
    bench.wires.refuse.borrow_mut().insert(PeerId::Server(0), Refused::Full);
    let first = bench.ask().unwrap();
    (0..3).for_each(|_| assert!(bench.ask().is_ok()));
    assert!(matches!(bench.ask(), Err(NoAnswer::Crowded)));
    assert_eq!(bench.sent(), (vec![], vec![]));
    bench.wires.refuse.borrow_mut().clear();
    bench.event(Event::Room { peer: PeerId::Server(0) });
    assert_eq!(bench.sent().0.len(), 1, "one of four, as one slot was granted");
    bench.scored((0, first), (0, 9), &[], &[], &[0, 100]);
    assert_eq!(bench.orchestrator.take_ended().len(), 1, "nothing is near");
    assert_eq!(bench.sent().0.len(), 1, "then the next one");
}

#[test]
fn first_nodes_are_asked_for_again_when_the_index_is_another() {
    let mut bench = Bench::new(8);
    let query = bench.ask().unwrap();
    bench.scored((0, query), (0, 9), &[], &[], &[0, 100]);
    assert_eq!(bench.orchestrator.starts, [0, 100]);
    bench.down(1);
    bench.up(1, 8, 5);
    assert_eq!(bench.orchestrator.starts, [0, 100], "the first one's is searched");
    bench.down(0);
    assert!(bench.orchestrator.starts.is_empty());
    let query = bench.ask().unwrap();
    bench.orchestrator.take_ended();
    // A server that tells other partitions than the topology has is not believed.
    bench.scored((1, query), (0, 9), &[], &[(1.0, 5)], &[0, 100, 200]);
    assert!(matches!(bench.one_end(), Err(NoAnswer::Failed { code: FailureCode::Refused, .. })));
}

#[test]
fn a_server_of_another_index_is_not_there_while_others_are_and_named_where_it_is_needed() {
    let mut bench = Bench::new(8);
    bench.down(1);
    bench.up(1, 8, 5);
    let query = bench.ask().unwrap();
    for attempt in 0..2 {
        assert_eq!(bench.sent().0, [(0, attempt, 9, f32::INFINITY, vec![])]);
        bench.scored((0, query), (attempt, 9), &[], &[(2.0, 150)], &[0, 100]);
    }
    let Err(NoAnswer::Failed { code, partition, words }) = bench.one_end() else { panic!() };
    assert_eq!((code, partition), (FailureCode::PartitionGone, Some(1)));
    assert!(words.starts_with("server 1, of partition 1, serves another index"), "{words}");
    // One that is under way when nobody is left of its index begins anew over the other one.
    bench.ask().unwrap();
    assert_eq!(bench.sent().0, [(0, 0, 9, f32::INFINITY, vec![])]);
    bench.down(0);
    assert_eq!(bench.sent().0, [(1, 1, 9, f32::INFINITY, vec![])]);
    bench.up(0, 8, 4);
    bench.ask().unwrap();
    assert_eq!(bench.sent().0, [(1, 0, 9, f32::INFINITY, vec![])], "now that is the other one");
}

#[test]
fn a_server_that_owns_nothing_is_asked_for_nothing() {
    let mut bench = Bench::of(8, [vec![0, 1], vec![]]);
    for _ in 0..3 {
        bench.ask().unwrap();
        assert_eq!(bench.sent().0, [(0, 0, 9, f32::INFINITY, vec![])]);
    }
    let mut alone = Bench::of(8, [vec![], vec![0, 1]]);
    alone.down(1);
    alone.ask().unwrap();
    assert_eq!(alone.sent().0, [], "it waits for one that has something");
    alone.up(1, 8, 4);
    assert_eq!(alone.sent().0, [(1, 0, 9, f32::INFINITY, vec![])]);
}

#[test]
fn whoever_is_told_other_owners_does_not_stop_those_that_go_on() {
    let mut bench = Bench::new(8);
    let first = bench.ask().unwrap();
    bench.scored((0, first), (0, 9), &[], &[(1.0, 5)], &[0, 100]);
    let second = bench.ask().unwrap();
    bench.scored((1, second), (0, 9), &[], &[(2.0, 150)], &[]);
    bench.sent();
    bench.failure((1, second), 0, FailureCode::NotOwner);
    assert_eq!(bench.sent().0, [(0, 1, 9, f32::INFINITY, vec![])], "the second begins anew");
    bench.scored((0, first), (0, 8), &[(5, 1.0)], &[(3.0, 150)], &[]);
    assert_eq!(bench.sent().0, [(1, 0, 7, f32::INFINITY, vec![150])], "and the first goes on");
    bench.scored((0, second), (1, 9), &[], &[(2.0, 150)], &[0, 151]);
    assert_eq!(bench.sent().0, [(0, 1, 8, f32::INFINITY, vec![150])], "by what it was told now");
    assert!(!bench.orchestrator.doubts_starts);
}
