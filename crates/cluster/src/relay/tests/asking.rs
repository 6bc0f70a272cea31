//! An asker between a network and servers that do as a test says.

use super::*;
use crate::transport::{Event, Handler};
use crate::wire::{Answer, Failure, Hello};

/// An asker of three servers with a partition each.
struct Desk {
    wires: Wires,
    asker: Asker,
}

/// A query that began: where, in which attempt, and what it leaves out.
type Begun = (PeerId, u16, bool, Vec<u32>);

impl Desk {
    fn new() -> Self {
        let server = |number: u32| placement::Server {
            number,
            address: ([127, 0, 0, 1], number as u16 + 1).into(),
            tls_name: String::new(),
            partitions: vec![number],
        };
        let servers = (0..3).map(server).collect();
        let placement = Arc::new(Placement::new("blue".to_owned(), 3, servers).unwrap());
        let settings = AskerSettings { me: ASKER, attempt_us: 1000, attempts: 3, waiting: 10 };
        let mut desk = Self { wires: Wires::default(), asker: Asker::new(settings, placement) };
        (0..3).for_each(|server| desk.up(0, server, 4));
        desk
    }

    /// A server comes that grants so many slots.
    fn up(&mut self, now: u64, server: u32, slots: u32) {
        self.up_with(now, server, slots, (4, 1));
    }

    /// A server comes that serves another generation, or codes of another codebook.
    fn up_with(&mut self, now: u64, server: u32, slots: u32, (generation, codebook): (u64, u32)) {
        let hello = Hello {
            cluster: "blue",
            who: PeerId::Server(server),
            index: [1; 16],
            generation,
            codebook,
            partitions: Numbers::default(),
            slots,
            credit: 0,
        };
        self.asker.server_up(now, &self.wires, server, &hello);
    }

    fn ask(&mut self, partial: bool) -> Begun {
        self.asker.ask(0, &self.wires, whatever(partial)).unwrap();
        self.begun().remove(0)
    }

    /// What began since this was asked last; others that were sent are pings and cancellations.
    fn begun(&self) -> Vec<Begun> {
        let begun = |(to, frame): (PeerId, Vec<u8>)| match read(&frame).unwrap().0 {
            Message::Begin(of) => Some((to, of.attempt, of.partial, of.missing.iter().collect())),
            Message::Ping(_) | Message::Cancel(_) => None,
            other => panic!("{other:?}"),
        };
        self.wires.sent.take().into_iter().filter_map(begun).collect()
    }

    /// The servers that were told to give up a query, and nothing else was sent.
    fn cancelled(&self, number: u64) -> Vec<PeerId> {
        let cancelled = |(to, frame): (PeerId, Vec<u8>)| match read(&frame).unwrap().0 {
            Message::Cancel(of) => {
                assert_eq!(of, query(number));
                to
            }
            other => panic!("{other:?}"),
        };
        self.wires.sent.take().into_iter().map(cancelled).collect()
    }

    fn pinged(&self) -> Vec<PeerId> {
        let mut asked: Vec<_> = self.wires.sent.take().into_iter().map(|(to, _)| to).collect();
        asked.dedup();
        asked
    }

    fn alive(&mut self, now: u64, servers: &[u32]) {
        for server in servers {
            let peer = PeerId::Server(*server);
            Handler::event(&mut self.asker, now, &self.wires, Event::Alive { peer });
        }
    }

    fn answer(&mut self, attempt: u16, missing: &[u32]) {
        self.answer_at(5000, attempt, missing);
    }

    fn answer_at(&mut self, now: u64, attempt: u16, missing: &[u32]) {
        let missing: Vec<u8> = missing.iter().flat_map(|at| at.to_le_bytes()).collect();
        let answer = Answer {
            query: query(0),
            attempt,
            hits: Hits::default(),
            trace: Numbers::default(),
            missing: Numbers::of(&missing).unwrap(),
            stats: &[],
        };
        self.asker.message(now, &self.wires, Message::Answer(answer));
    }

    fn gone(&mut self, attempt: u16, partition: u32) {
        let (query, code, words) = (query(0), FailureCode::PartitionGone, "gone");
        let failure = Failure { query, attempt, code, partition: Some(partition), words };
        self.asker.message(100, &self.wires, Message::Failure(failure));
    }

    fn lost(&mut self, now: u64, attempt: u16) {
        let (query, code, words) = (query(0), FailureCode::Lost, "lost");
        let failure = Failure { query, attempt, code, partition: Some(1), words };
        self.asker.message(now, &self.wires, Message::Failure(failure));
    }

    fn ended(&mut self) -> Ended {
        let mut ended = self.asker.take_ended();
        assert_eq!(ended.len(), 1, "one end");
        ended.remove(0).1
    }
}

fn whatever(partial: bool) -> Query {
    Query {
        mode: Mode::Relay,
        parameters: Vec::new(),
        vector: Vec::new(),
        left_us: 10_000,
        hops: 9,
        at: None,
        partial,
    }
}

const SERVERS: [PeerId; 3] = [PeerId::Server(0), PeerId::Server(1), PeerId::Server(2)];

#[test]
fn partitions_that_are_gone_are_left_out_where_that_is_allowed() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask(true), (SERVERS[0], 0, true, vec![]));
    desk.gone(0, 2);
    assert_eq!(desk.begun(), [(SERVERS[1], 1, true, vec![2])]);
    // Whoever is left out is not counted against the attempts, and not asked either.
    desk.gone(1, 1);
    assert_eq!(desk.begun(), [(SERVERS[0], 2, true, vec![1, 2])]);
    desk.answer(2, &[1, 2]);
    let found = desk.ended().unwrap();
    assert_eq!((found.missing, found.attempts), (vec![1, 2], 3));
}

#[test]
fn who_takes_no_partial_answer_never_gets_one() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask(false), (SERVERS[0], 0, false, vec![]));
    desk.gone(0, 2);
    assert_eq!(desk.begun(), [(SERVERS[1], 1, false, vec![])]);
    desk.asker.server_down(200, &desk.wires, 2);
    assert_eq!(desk.begun(), []);
    desk.answer(1, &[2]);
    let why = desk.ended().unwrap_err();
    assert!(why.to_string().contains("lacks other partitions"), "{why}");
    // Nor one that lacks more than it was asked without.
    let mut desk = Desk::new();
    desk.ask(true);
    desk.answer(0, &[0]);
    assert!(desk.ended().is_err());
}

#[test]
fn whoever_was_not_heard_of_in_an_attempt_is_left_out_of_the_next() {
    for partial in [true, false] {
        let mut desk = Desk::new();
        desk.ask(partial);
        assert_eq!(desk.asker.due(0, &desk.wires), Some(500), "halfway through");
        assert_eq!(desk.asker.due(500, &desk.wires), Some(1000));
        assert_eq!(desk.pinged(), SERVERS);
        desk.alive(600, &[0, 2]);
        desk.asker.due(1000, &desk.wires);
        let missing = if partial { vec![1] } else { vec![] };
        let next = SERVERS[if partial { 2 } else { 1 }];
        assert_eq!(desk.begun(), [(next, 1, partial, missing)]);
        // Who was heard since is not asked again; who takes all learns who was silent.
        desk.alive(1200, &[0, 2]);
        desk.asker.due(1500, &desk.wires);
        assert_eq!(desk.pinged(), [SERVERS[1]]);
        if partial {
            desk.answer(1, &[1]);
            assert_eq!(desk.ended().unwrap().missing, [1]);
            // The next query does without it from its beginning, until something is heard of it.
            assert_eq!(desk.ask(true), (SERVERS[0], 0, true, vec![1]));
            desk.alive(1600, &[1]);
            assert_eq!(desk.ask(true), (SERVERS[1], 0, true, vec![]));
            continue;
        }
        desk.asker.due(2000, &desk.wires);
        desk.alive(2100, &[0, 2]);
        desk.asker.due(2500, &desk.wires);
        desk.asker.due(3000, &desk.wires);
        let why = desk.ended().unwrap_err().to_string();
        assert!(why.ends_with("not heard of: server 1, of partitions 1"), "{why}");
    }
}

#[test]
fn whoever_is_asked_late_has_as_long_to_answer() {
    let mut desk = Desk::new();
    desk.ask(true);
    assert_eq!(desk.asker.due(1200, &desk.wires), Some(1700));
    assert_eq!(desk.pinged(), SERVERS);
    desk.alive(1300, &[0, 1, 2]);
    assert_eq!(desk.asker.due(1600, &desk.wires), Some(1700));
    desk.asker.due(1700, &desk.wires);
    assert_eq!(desk.begun(), [(SERVERS[1], 1, true, vec![])], "nobody was silent");
}

#[test]
fn states_that_get_lost_though_all_are_heard_leave_one_server_to_ask() {
    let mut desk = Desk::new();
    desk.ask(true);
    for (at, expected) in [(1000, (SERVERS[1], vec![])), (2000, (SERVERS[2], vec![0, 1]))] {
        desk.asker.due(at - 500, &desk.wires);
        desk.alive(at - 400, &[0, 1, 2]);
        desk.asker.due(at, &desk.wires);
        let (to, _, _, missing) = desk.begun().remove(0);
        assert_eq!((to, missing), expected);
    }
    desk.answer(2, &[0, 1]);
    assert_eq!(desk.ended().unwrap().missing, [0, 1]);
}

#[test]
fn a_server_that_goes_shortens_the_wait_of_those_that_can_do_without() {
    let mut desk = Desk::new();
    desk.ask(true);
    desk.asker.server_down(100, &desk.wires, 1);
    assert_eq!(desk.begun(), [], "its state may be elsewhere");
    desk.asker.due(225, &desk.wires);
    desk.alive(230, &[0, 2]);
    desk.asker.due(350, &desk.wires);
    assert_eq!(desk.begun(), [(SERVERS[2], 1, true, vec![1])]);
    // With nobody left there is nobody to ask.
    desk.gone(1, 0);
    assert_eq!(desk.begun(), [(SERVERS[2], 2, true, vec![0, 1])]);
    desk.gone(2, 2);
    assert!(matches!(desk.ended(), Err(NoAnswer::Failed { partition: None, .. })));
}

#[test]
fn partitions_left_out_of_a_query_that_takes_all_are_refused() {
    let mut bench = Bench::new();
    let gone = 2_u32.to_le_bytes();
    let missing = Numbers::of(&gone).unwrap();
    let unasked = Begin { missing, ..begin(1, 0, 4) };
    bench.server.message(100, &bench.wires, ASKER, Message::Begin(unasked));
    assert_eq!(bench.wires.failure(), (FailureCode::Refused, None));
    let asked = Begin { partial: true, ..unasked };
    bench.server.message(100, &bench.wires, ASKER, Message::Begin(asked));
    let work = bench.work();
    let [Work::Begin { ticket, missing, .. }] = work.as_slice() else { panic!("{work:?}") };
    assert_eq!(missing, &[2]);
    // And travel with it.
    bench.done(*ticket);
    let (_, frame) = bench.wires.one();
    let Message::Answer(answer) = read(&frame).unwrap().0 else { panic!("an answer") };
    assert!(answer.missing.iter().eq([2]));
}

#[test]
fn a_state_that_may_be_lost_is_asked_for_again_without_waiting_for_its_time() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask(false), (SERVERS[0], 0, false, vec![]));
    desk.lost(100, 0);
    assert_eq!(desk.begun(), [(SERVERS[1], 1, false, vec![])]);
    desk.lost(110, 0);
    assert_eq!(desk.begun(), [], "of an attempt that is over");
    // Connections that end again and again: it waits a little longer each time, and is not given up for
    // having been begun more than three times.
    let mut now = 200;
    for attempt in 1..6 {
        desk.lost(now, attempt);
        assert_eq!(desk.begun(), []);
        let due = desk.asker.due(now, &desk.wires).unwrap();
        let rest = 2_000 << (attempt - 1);
        assert_eq!(due, (now + rest).min(10_000));
        if now + rest >= 10_000 {
            break;
        }
        desk.asker.due(due - 1, &desk.wires);
        assert_eq!(desk.begun(), []);
        desk.asker.due(due, &desk.wires);
        let begun = desk.begun();
        assert_eq!((begun.len(), begun[0].1), (1, attempt + 1));
        now = due;
    }
    desk.asker.due(10_000, &desk.wires);
    assert!(matches!(desk.ended(), Err(NoAnswer::Deadline { .. })));
    assert_eq!(desk.asker.open(), 0);
    // What rested when its time was over is not begun afterwards.
    desk.asker.due(u64::MAX - 1, &desk.wires);
    assert_eq!(desk.begun(), []);
}

mod astray;
mod indexes;
