//! What a server takes in, and of whom.

use super::*;
use crate::wire::Score;

/// Ten bytes of an asker's.
fn ten_bytes(asker: u64, number: u64) -> (PeerId, Message<'static>) {
    let asker = PeerId::Client(asker);
    let query = QueryId { asker, number };
    let (parameters, vector) = (&[0; 8][..], &[0; 2][..]);
    (asker, Message::Begin(Begin { query, parameters, vector, ..begin(number, 0, 4) }))
}

/// How often something was sent, whether or not it was taken.
struct Tried<'w>(&'w Wires, Cell<u32>);

impl Network for Tried<'_> {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        self.1.set(self.1.get() + 1);
        self.0.send(to, message)
    }
}

fn score(number: u64) -> Score<'static> {
    Score {
        query: query(number),
        attempt: 0,
        left_us: 10_000,
        hops: 4,
        partition: 1,
        bound: f32::INFINITY,
        most: 1,
        starts: false,
        packed: false,
        nodes: Numbers::default(),
        parameters: b"p",
        vector: b"v",
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_taken_in() {
    let mut bench = Bench::new();
    let long = &[0; 9][..];
    for message in [
        Message::Begin(Begin { vector: long, ..begin(1, 0, 4) }),
        Message::Begin(Begin { parameters: long, ..begin(2, 0, 4) }),
        Message::Score(Score { vector: long, ..score(3) }),
        Message::Score(Score { parameters: long, ..score(4) }),
    ] {
        bench.server.message(100, &bench.wires, ASKER, message);
        assert_eq!(bench.wires.failure(), (FailureCode::Refused, None));
        assert!(bench.work().is_empty() && bench.is_empty());
    }
    bench.server.message(100, &bench.wires, ASKER, Message::Score(score(5)));
    assert_eq!(bench.work().len(), 1, "what is not too long is taken");
}

#[test]
fn work_that_was_given_up_counts_until_it_has_ended() {
    let mut bench = Bench::new();
    let mut given_up = Vec::new();
    for number in 1..=2 {
        bench.begin(number, 0, 4);
        given_up.push(bench.ticket());
        bench.server.message(100, &bench.wires, ASKER, Message::Cancel(query(number)));
        assert_eq!(bench.work().len(), 1, "it is told");
    }
    assert!(bench.is_empty(), "no slot is taken");
    for message in [Message::Begin(begin(3, 0, 4)), Message::Score(score(3))] {
        bench.server.message(100, &bench.wires, ASKER, message);
        assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    }
    // Another asker's is its own affair.
    let query = QueryId { asker: PeerId::Client(6), number: 1 };
    let other = Begin { query, ..begin(1, 0, 4) };
    bench.server.message(100, &bench.wires, query.asker, Message::Begin(other));
    assert_eq!(bench.work().len(), 1);
    // Nor does it help to come anew.
    bench.server.down(100, &bench.wires, ASKER);
    bench.begin(3, 0, 4);
    assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    bench.done(given_up[0]);
    bench.done(given_up[0]);
    assert!(bench.wires.silent(), "nobody waits for it");
    bench.begin(3, 0, 4);
    let ticket = bench.ticket();
    // What ends by itself was never given up, though nobody has room for its answer.
    bench.wires.refuse.borrow_mut().insert(ASKER, Refused::Full);
    bench.done(ticket);
    bench.server.message(100, &bench.wires, ASKER, Message::Cancel(super::query(3)));
    assert!(bench.work().is_empty());
    assert_eq!(bench.server.slots_in_use(), 1, "that of the other asker");
    bench.wires.refuse.borrow_mut().clear();
    bench.begin(4, 0, 4);
    assert_eq!(bench.work().len(), 1);
}

#[test]
fn a_search_without_room_is_told_at_once() {
    let mut bench = Bench::new();
    bench.work.1.set(true);
    for number in 1..=4 {
        bench.begin(number, 0, 4);
        assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
        assert!(bench.is_empty());
    }
    bench.work.1.set(false);
    bench.begin(5, 0, 4);
    assert_eq!(bench.work().len(), 1, "nothing of those counts");
}

#[test]
fn work_that_found_no_room_in_the_search_was_never_given_up() {
    let mut bench = Bench::new();
    bench.work.1.set(true);
    bench.wires.refuse.borrow_mut().insert(ASKER, Refused::Full);
    for number in 1..=2 {
        bench.begin(number, 0, 4);
        bench.server.message(100, &bench.wires, ASKER, Message::Cancel(query(number)));
    }
    bench.work.1.set(false);
    bench.begin(3, 0, 4);
    assert_eq!(bench.work().len(), 1);
}

#[test]
fn queries_of_all_askers_hold_no_more_than_so_many_bytes() {
    let mut bench = Bench::new();
    bench.server.hold_at_most(20);
    let ask = |bench: &mut Bench, (asker, message)| {
        bench.server.message(100, &bench.wires, asker, message);
    };
    ask(&mut bench, ten_bytes(5, 1));
    let first = bench.ticket();
    ask(&mut bench, ten_bytes(6, 1));
    let other = bench.ticket();
    ask(&mut bench, ten_bytes(5, 2));
    assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    ask(&mut bench, (ASKER, Message::Score(score(2))));
    assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    // A state has its slot, or servers could wait for each other.
    bench.state(state(3, 0, 4));
    let came = bench.ticket();
    assert!(bench.wires.silent() && bench.server.held_bytes() > 20);
    bench.done(came);
    assert_eq!(bench.wires.one().0, ASKER);
    // What is given up is held until it has ended.
    ask(&mut bench, (ASKER, Message::Cancel(query(1))));
    assert_eq!(bench.work(), [Work::Cancel { ticket: first }]);
    ask(&mut bench, ten_bytes(5, 2));
    assert_eq!(bench.wires.failure(), (FailureCode::NoRoom, None));
    bench.done(first);
    ask(&mut bench, ten_bytes(5, 2));
    let second = bench.ticket();
    bench.done(second);
    bench.done(other);
    assert_eq!(bench.wires.sent.take().len(), 2);
    assert!(bench.is_empty() && bench.server.held_bytes() == 0);
}

#[test]
fn answers_that_nobody_takes_hold_no_more_than_so_many_bytes() {
    let mut bench = Bench::new();
    // Two queries of two bytes, and of answers of thirteen bytes one.
    bench.server.hold_at_most(20);
    bench.wires.refuse.borrow_mut().insert(ASKER, Refused::Full);
    for number in 1..=2 {
        bench.begin(number, 0, 4);
        let ticket = bench.ticket();
        bench.done(ticket);
    }
    assert_eq!(bench.server.slots_in_use(), 2);
    bench.wires.refuse.borrow_mut().clear();
    bench.server.room(300, &bench.wires, ASKER);
    let sent = bench.wires.sent.take();
    let told = |at: usize| read(&sent[at].1).unwrap().0;
    assert!(matches!(told(0), Message::Answer(answer) if answer.query == query(1)));
    let Message::Failure(failure) = told(1) else { panic!("{:?}", told(1)) };
    assert_eq!((failure.query, failure.code), (query(2), FailureCode::NoRoom));
    assert!(bench.is_empty() && bench.server.held_bytes() == 0);
}

#[test]
fn room_for_one_is_no_reason_to_try_all() {
    let mut bench = Bench::new();
    bench.wires.refuse.borrow_mut().insert(NEXT, Refused::Full);
    for number in 1..=2 {
        bench.begin(number, 0, 4);
        let ticket = bench.ticket();
        bench.leaves(ticket, 2);
    }
    let tried = |bench: &mut Bench| {
        let net = Tried(&bench.wires, Cell::new(0));
        bench.server.room(300, &net, NEXT);
        net.1.get()
    };
    assert_eq!(tried(&mut bench), 1, "the other waits behind it");
    assert_eq!(bench.server.slots_in_use(), 2);
    // Nothing waits of a query that nobody wants.
    bench.server.message(300, &bench.wires, ASKER, Message::Cancel(query(1)));
    bench.wires.refuse.borrow_mut().clear();
    assert_eq!(tried(&mut bench), 1);
    assert!(bench.wires.one().0 == NEXT && bench.is_empty());
    assert_eq!(tried(&mut bench), 0);
}
