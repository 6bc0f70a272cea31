//! What a server takes in, and of whom.

use super::*;
use crate::wire::Score;

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
