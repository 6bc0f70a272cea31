//! Queries of which a state may still be somewhere, and queries that no message holds.

use super::*;

#[test]
fn what_may_be_lost_keeps_its_slot_for_a_while_after_servers_were_told_to_give_it_up() {
    let mut desk = Desk::new();
    for _ in 0..4 {
        desk.ask(false);
    }
    desk.lost(100, 0);
    desk.begun();
    desk.answer_at(200, 1, &[]);
    assert!(desk.ended().is_ok());
    assert_eq!(desk.cancelled(0), SERVERS);
    desk.asker.ask(200, &desk.wires, whatever(false)).unwrap();
    assert_eq!(desk.asker.due(449, &desk.wires), Some(450));
    assert_eq!(desk.begun(), [], "a state of the first may still be somewhere");
    desk.asker.due(450, &desk.wires);
    assert_eq!(desk.begun().len(), 1, "a quarter of an attempt's time is long enough");
    // Of what ended with nothing of it anywhere nobody has to be told.
    let mut desk = Desk::new();
    desk.ask(false);
    desk.answer_at(200, 0, &[]);
    assert_eq!(desk.cancelled(0), []);
}

#[test]
fn what_is_over_for_servers_too_is_not_told_to_them() {
    let mut desk = Desk::new();
    desk.ask(false);
    desk.lost(100, 0);
    desk.begun();
    desk.asker.due(10_000, &desk.wires);
    assert!(desk.ended().is_err());
    assert_eq!(desk.cancelled(0), []);
    assert_eq!(desk.asker.due(10_000, &desk.wires), None, "no slot is kept");
}

#[test]
fn what_rests_with_a_state_somewhere_has_a_slot_and_no_second_one_when_it_begins() {
    let mut desk = Desk::new();
    for _ in 0..4 {
        desk.ask(false);
    }
    desk.lost(100, 0);
    assert_eq!(desk.begun().len(), 1, "it goes on in its own slot");
    desk.lost(110, 1);
    desk.asker.ask(120, &desk.wires, whatever(false)).unwrap();
    assert_eq!(desk.begun(), [], "it rests, and its slot is no other's");
    desk.asker.due(999, &desk.wires);
    assert_eq!(desk.begun(), [], "nor when something is due for others");
    // The others are not heard of; all four begin again, and the fifth waits.
    desk.asker.due(2110, &desk.wires);
    let mut attempts: Vec<_> = desk.begun().into_iter().map(|(_, attempt, ..)| attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 1, 2]);
}

#[test]
fn slots_that_get_fewer_stop_nobody_for_ever() {
    let mut desk = Desk::new();
    for _ in 0..4 {
        desk.ask(false);
    }
    desk.up(10, 1, 1);
    // All four are given up, and a state of each may be somewhere.
    desk.asker.due(500, &desk.wires);
    desk.asker.due(1000, &desk.wires);
    assert_eq!(desk.begun().len(), 1, "one by one");
    desk.asker.due(1500, &desk.wires);
    desk.asker.due(2000, &desk.wires);
    assert_eq!(desk.begun().len(), 1);
}

#[test]
fn a_query_that_no_message_holds_is_refused_and_the_others_go_on() {
    let mut desk = Desk::new();
    let long = Query { vector: vec![0; 1 << 20], ..whatever(false) };
    desk.asker.ask(0, &desk.wires, long).unwrap();
    let Err(NoAnswer::Failed { code, words, .. }) = desk.ended() else {
        panic!("it has no answer")
    };
    assert_eq!(
        (code, words.as_str()),
        (FailureCode::Refused, "the query is longer than a message")
    );
    assert_eq!(desk.ask(false), (SERVERS[1], 0, false, vec![]));
}

#[test]
fn a_server_that_goes_shortens_the_wait_of_those_that_take_all_too() {
    let mut desk = Desk::new();
    assert_eq!(desk.ask(false), (SERVERS[0], 0, false, vec![]));
    desk.asker.server_down(100, &desk.wires, 1);
    assert_eq!(desk.begun(), [], "its state may be elsewhere");
    desk.asker.due(225, &desk.wires);
    desk.asker.due(349, &desk.wires);
    assert_eq!(desk.begun(), []);
    desk.asker.due(350, &desk.wires);
    assert_eq!(desk.begun(), [(SERVERS[2], 1, false, vec![])], "and nothing is left out");
    // Connections that end again and again cost no attempt: there are three of them.
    for (at, attempt) in [(400, 2), (700, 3), (1000, 4), (1300, 5)] {
        desk.up(at, 1, 4);
        desk.asker.server_down(at, &desk.wires, 1);
        desk.asker.due(at + 125, &desk.wires);
        desk.asker.due(at + 250, &desk.wires);
        let begun: Vec<_> = desk.begun().into_iter().map(|(_, attempt, ..)| attempt).collect();
        assert_eq!(begun, [attempt]);
    }
    desk.answer_at(1600, 5, &[]);
    assert_eq!(desk.ended().unwrap().attempts, 6);
}
