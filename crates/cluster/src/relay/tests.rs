//! A server between a network and a search that do as a test says.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::placement::{self, Placement};
use crate::transport::{Network, Refused};
use crate::wire::{
    Begin, Failure, FailureCode, Hit, Hits, Message, Mode, Numbers, PeerId, QueryId, State, read,
};

const ASKER: PeerId = PeerId::Client(5);
const NEXT: PeerId = PeerId::Server(1);

/// Keeps what is sent, and refuses what a test says.
#[derive(Default)]
pub(super) struct Wires {
    pub(super) sent: RefCell<Vec<(PeerId, Vec<u8>)>>,
    pub(super) refuse: RefCell<HashMap<PeerId, Refused>>,
}

impl Network for Wires {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        if let Some(&refused) = self.refuse.borrow().get(&to) {
            return Err(refused);
        }
        let mut frame = Vec::new();
        message.append(&mut frame).map_err(|_| Refused::TooLong)?;
        self.sent.borrow_mut().push((to, frame));
        Ok(())
    }
}

impl Wires {
    /// The only thing that was sent since this was asked last.
    fn one(&self) -> (PeerId, Vec<u8>) {
        let mut sent = self.sent.take();
        assert_eq!(sent.len(), 1, "one message");
        sent.remove(0)
    }

    /// The failure that was told to the asker, and nothing else was.
    fn failure(&self) -> (FailureCode, Option<u32>) {
        let (to, frame) = self.one();
        assert_eq!(to, ASKER);
        match read(&frame).unwrap().0 {
            Message::Failure(failure) => (failure.code, failure.partition),
            other => panic!("{other:?}"),
        }
    }

    fn silent(&self) -> bool {
        self.sent.borrow().is_empty()
    }
}

/// Keeps work, as far as it has room, and refuses parameters and vectors of more than eight bytes.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<Work>>>, Rc<Cell<bool>>);

impl Walker for Kept {
    fn submit(&self, work: Work) -> bool {
        let room = !self.1.get();
        if room {
            self.0.borrow_mut().push(work);
        }
        room
    }

    fn refuses(&self, parameters: &[u8], vector: &[u8]) -> Option<String> {
        (parameters.len() > 8 || vector.len() > 8).then(|| "too long".to_owned())
    }
}

/// Server 0 of two, which owns partitions 0 and 1 of three.
struct Bench {
    wires: Wires,
    work: Kept,
    server: Server<Kept>,
}

impl Bench {
    fn new() -> Self {
        let server = |number: u32, partitions: &[u32]| placement::Server {
            number,
            address: ([127, 0, 0, 1], number as u16 + 1).into(),
            tls_name: String::new(),
            partitions: partitions.to_vec(),
        };
        let servers = vec![server(0, &[0, 1]), server(1, &[2])];
        let placement = Arc::new(Placement::new("blue".to_owned(), 3, servers).unwrap());
        let settings = ServerSettings { number: 0, placement, slots: 2, longest_us: 1_000_000 };
        let work = Kept::default();
        Self { wires: Wires::default(), server: Server::new(settings, work.clone()), work }
    }

    fn begin(&mut self, number: u64, attempt: u16, hops: u16) {
        self.server.message(100, &self.wires, ASKER, Message::Begin(begin(number, attempt, hops)));
    }

    fn state(&mut self, state: State<'_>) {
        self.server.message(100, &self.wires, NEXT, Message::State(state));
    }

    /// The work that was given since this was asked last.
    fn work(&self) -> Vec<Work> {
        self.work.0.take()
    }

    /// The ticket of the only work that was given.
    fn ticket(&self) -> Ticket {
        match self.work().as_slice() {
            [Work::Begin { ticket, .. } | Work::Wake { ticket, .. }] => *ticket,
            other => panic!("{other:?}"),
        }
    }

    fn leaves(&mut self, ticket: Ticket, partition: u32) {
        let walked = Walked::Leaves { ticket, partition, state: vec![1, 2, 3] };
        self.server.walked(200, &self.wires, walked);
    }

    fn done(&mut self, ticket: Ticket) {
        let hits = Hits::pack([Hit { distance: 0.5, row: 7 }]);
        self.server.walked(200, &self.wires, Walked::Done { ticket, hits, stats: vec![9] });
    }

    fn is_empty(&self) -> bool {
        self.server.slots_in_use() == 0
    }
}

fn query(number: u64) -> QueryId {
    QueryId { asker: ASKER, number }
}

fn begin(number: u64, attempt: u16, hops: u16) -> Begin<'static> {
    Begin {
        query: query(number),
        attempt,
        left_us: 10_000,
        hops,
        mode: Mode::Relay,
        partial: false,
        missing: Numbers::default(),
        parameters: b"p",
        vector: b"v",
    }
}

fn state(number: u64, attempt: u16, hops: u16) -> State<'static> {
    State {
        query: query(number),
        attempt,
        left_us: 10_000,
        hops,
        partition: 1,
        trace: Numbers::of(&[1, 0, 0, 0]).expect("one number"),
        missing: Numbers::default(),
        state: b"s",
    }
}

#[test]
fn a_query_passes_on_and_nothing_of_it_stays() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 4);
    let ticket = bench.ticket();
    bench.leaves(ticket, 2);
    let (to, frame) = bench.wires.one();
    let Message::State(sent) = read(&frame).unwrap().0 else { panic!("a state") };
    assert_eq!((to, sent.query, sent.hops, sent.partition), (NEXT, query(1), 3, 2));
    // 100 of its time went by here.
    assert_eq!((sent.left_us, sent.state), (9_900, &[1, 2, 3][..]));
    assert!(sent.trace.iter().eq([0]) && bench.is_empty());
    assert_eq!(bench.server.due(1 << 40, &bench.wires), None);
}

#[test]
fn an_answer_goes_straight_to_whoever_asked() {
    let mut bench = Bench::new();
    bench.state(state(1, 3, 4));
    let ticket = bench.ticket();
    bench.done(ticket);
    let (to, frame) = bench.wires.one();
    let Message::Answer(answer) = read(&frame).unwrap().0 else { panic!("an answer") };
    assert_eq!((to, answer.query, answer.attempt), (ASKER, query(1), 3));
    assert!(answer.trace.iter().eq([1, 0]));
    assert!(answer.hits.iter().eq([Hit { distance: 0.5, row: 7 }]) && bench.is_empty());
    // What comes twice of one ticket has no query any more.
    bench.done(ticket);
    assert!(bench.wires.silent());
}

#[test]
fn what_arrives_twice_or_late_changes_nothing() {
    let mut bench = Bench::new();
    bench.state(state(1, 1, 4));
    let first = bench.ticket();
    bench.state(state(1, 1, 4));
    bench.state(state(1, 1, 5));
    bench.state(state(1, 0, 2));
    assert!(bench.work().is_empty() && bench.wires.silent());
    assert_eq!(bench.server.counters().repeated, 3);
    // What is further takes the place, and the work of the other is given up.
    bench.state(state(1, 1, 3));
    bench.done(first);
    assert!(bench.wires.silent(), "its work was given up");
    bench.state(state(1, 2, 9));
    let work = bench.work();
    assert_eq!(work.len(), 4, "{work:?}");
    assert_eq!(work[0], Work::Cancel { ticket: first });
    assert_eq!(bench.server.slots_in_use(), 1);
}

#[test]
fn more_than_was_granted_is_refused_and_harms_no_other() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 4);
    bench.begin(2, 0, 4);
    bench.begin(3, 0, 4);
    assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    assert_eq!((bench.work().len(), bench.server.counters().beyond_grant), (2, 1));
    // The slots of another asker are its own.
    let other = PeerId::Client(6);
    let query = QueryId { asker: other, number: 1 };
    let begin = Begin { query, ..begin(1, 0, 4) };
    bench.server.message(100, &bench.wires, other, Message::Begin(begin));
    assert_eq!((bench.work().len(), bench.server.slots_in_use()), (1, 3));
}

#[test]
fn a_state_for_a_partition_of_another_server_is_refused_by_name() {
    let mut bench = Bench::new();
    for partition in [2, 3] {
        bench.state(State { partition, ..state(1, 0, 4) });
        assert_eq!(bench.wires.failure(), (FailureCode::NotOwner, Some(partition)));
    }
    assert!(bench.work().is_empty() && bench.is_empty());
}

#[test]
fn hops_and_time_that_are_spent_end_in_a_failure() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 0);
    let ticket = bench.ticket();
    bench.leaves(ticket, 2);
    assert_eq!(bench.wires.failure(), (FailureCode::Hops, Some(2)));
    bench.begin(2, 0, 4);
    let ticket = bench.ticket();
    assert_eq!(bench.server.due(10_099, &bench.wires), Some(10_100));
    assert!(bench.wires.silent());
    assert_eq!(bench.server.due(10_100, &bench.wires), None);
    assert_eq!(bench.wires.failure(), (FailureCode::Deadline, None));
    assert_eq!(bench.work(), [Work::Cancel { ticket }]);
    bench.state(State { left_us: 0, ..state(3, 0, 4) });
    assert_eq!(bench.wires.failure(), (FailureCode::Deadline, None));
    // However long a peer says: a slot is held no longer than this server allows.
    bench.state(State { left_us: u64::MAX, ..state(4, 0, 4) });
    assert_eq!(bench.server.due(101, &bench.wires), Some(1_000_100));
}

#[test]
fn an_owner_that_is_gone_is_told_at_once_with_its_partition() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 4);
    let ticket = bench.ticket();
    bench.wires.refuse.borrow_mut().insert(NEXT, Refused::Down);
    bench.leaves(ticket, 2);
    assert_eq!(bench.wires.failure(), (FailureCode::PartitionGone, Some(2)));
    assert!(bench.is_empty());
}

#[test]
fn who_waits_for_a_state_whose_connection_ended_is_told_at_once() {
    let mut bench = Bench::new();
    for number in 1..4 {
        bench.begin(number, 0, 4);
        let ticket = bench.ticket();
        bench.leaves(ticket, 2);
        assert_eq!(bench.wires.one().0, NEXT);
    }
    // One comes back and is here; one answers, which its asker knows; of the first nothing was heard.
    bench.state(state(2, 0, 2));
    bench.state(state(3, 0, 2));
    let [.., Work::Wake { ticket, .. }] = bench.work()[..] else { panic!("two states came") };
    bench.done(ticket);
    bench.wires.sent.take();
    bench.server.down(300, &bench.wires, NEXT);
    let told: Vec<_> = bench.wires.sent.take();
    let told: Vec<_> = told.iter().map(|(to, frame)| (*to, read(frame).unwrap().0)).collect();
    let lost = |number| {
        let (query, code) = (query(number), FailureCode::Lost);
        let words = "the connection to server 1, of partition 2, ended";
        let failure = Failure { query, attempt: 0, code, partition: Some(2), words };
        (ASKER, Message::Failure(failure))
    };
    assert_eq!(told, [lost(1), lost(3)]);
    bench.server.down(300, &bench.wires, NEXT);
    assert!(bench.wires.silent(), "once");
    // Those whose time is over are waited for by nobody.
    bench.begin(4, 0, 4);
    let ticket = bench.ticket();
    bench.leaves(ticket, 2);
    bench.wires.sent.take();
    bench.server.down(10_100, &bench.wires, NEXT);
    assert!(bench.wires.silent());
}

#[test]
fn what_finds_no_room_waits_in_its_slot() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 4);
    let ticket = bench.ticket();
    bench.wires.refuse.borrow_mut().insert(NEXT, Refused::Full);
    bench.leaves(ticket, 2);
    assert!(bench.wires.silent() && !bench.is_empty());
    bench.server.room(300, &bench.wires, NEXT);
    assert!(bench.wires.silent() && !bench.is_empty(), "still full");
    bench.wires.refuse.borrow_mut().clear();
    bench.server.room(300, &bench.wires, NEXT);
    assert!(bench.wires.one().0 == NEXT && bench.is_empty());
    // Whoever waits for a peer that goes away fails at once.
    bench.begin(2, 0, 4);
    let ticket = bench.ticket();
    bench.wires.refuse.borrow_mut().insert(NEXT, Refused::Full);
    bench.leaves(ticket, 2);
    bench.wires.refuse.borrow_mut().insert(NEXT, Refused::Down);
    bench.server.down(300, &bench.wires, NEXT);
    let told = bench.wires.sent.take();
    let told = told.iter().map(|(to, frame)| match read(frame).unwrap().0 {
        Message::Failure(failure) if *to == ASKER => (failure.query, failure.code),
        other => panic!("{other:?}"),
    });
    // Of what was sent before it is told that it may be lost.
    let wanted = [(query(2), FailureCode::PartitionGone), (query(1), FailureCode::Lost)];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
    assert!(bench.is_empty());
}

#[test]
fn an_asker_that_is_gone_or_wants_no_answer_holds_no_slot() {
    let mut bench = Bench::new();
    bench.begin(1, 0, 4);
    let first = bench.ticket();
    bench.begin(2, 0, 4);
    let second = bench.ticket();
    bench.server.message(100, &bench.wires, ASKER, Message::Cancel(query(1)));
    bench.server.down(100, &bench.wires, ASKER);
    let cancelled = [first, second].map(|ticket| Work::Cancel { ticket });
    assert_eq!(bench.work(), cancelled);
    assert!(bench.is_empty() && bench.wires.silent());
}

#[test]
fn nobody_speaks_for_another() {
    let mut bench = Bench::new();
    let other = PeerId::Client(6);
    bench.server.message(100, &bench.wires, other, Message::Begin(begin(1, 0, 4)));
    bench.server.message(100, &bench.wires, ASKER, Message::State(state(1, 0, 4)));
    bench.server.message(100, &bench.wires, other, Message::Cancel(query(1)));
    assert_eq!(bench.server.counters().out_of_place, 3);
    assert!(bench.work().is_empty() && bench.wires.silent());
}

#[test]
fn a_search_that_errs_harms_its_own_query_only() {
    let mut bench = Bench::new();
    for partition in [0, 9] {
        bench.begin(1, 0, 4);
        let ticket = bench.ticket();
        bench.leaves(ticket, partition);
        assert_eq!(bench.wires.failure(), (FailureCode::Internal, Some(partition)));
    }
    bench.begin(1, 0, 4);
    let ticket = bench.ticket();
    let (hits, stats) = (vec![0; 13], Vec::new());
    bench.server.walked(200, &bench.wires, Walked::Done { ticket, hits, stats });
    assert_eq!(bench.wires.failure(), (FailureCode::Internal, None));
    bench.begin(1, 0, 4);
    let ticket = bench.ticket();
    let walked = Walked::Leaves { ticket, partition: 2, state: vec![0; 1 << 20] };
    bench.server.walked(200, &bench.wires, walked);
    assert_eq!(bench.wires.failure(), (FailureCode::Refused, None));
    bench.begin(1, 0, 4);
    let (ticket, code) = (bench.ticket(), FailureCode::Refused);
    let walked = Walked::Failed { ticket, code, words: "é".repeat(5000) };
    bench.server.walked(200, &bench.wires, walked);
    assert_eq!(bench.wires.failure(), (FailureCode::Refused, None));
    assert!(bench.is_empty());
}

mod asking;
mod bounds;
