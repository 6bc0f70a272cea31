//! Servers of several indexes, or generations of one: one of them is searched at a time.

use super::*;

impl Desk {
    /// The last server serves something else, and grants but one slot.
    fn of_two(other: (u64, u32)) -> Self {
        let mut desk = Self::new();
        desk.asker.server_down(0, &desk.wires, 2);
        desk.up_with(0, 2, 1, other);
        desk
    }
}

#[test]
fn a_server_of_another_index_is_asked_nothing_while_others_are_there() {
    for other in [(5, 1), (4, 2)] {
        let mut desk = Desk::of_two(other);
        assert_eq!((desk.asker.up(), desk.asker.is_up(1), desk.asker.is_up(2)), (3, true, false));
        // Nor does it matter how many slots it grants.
        let begun: Vec<_> = (0..4).map(|_| desk.ask(false)).collect();
        let at = [0, 1, 0, 1].map(|server| (SERVERS[server], 0, false, vec![]));
        assert_eq!(begun, at, "{other:?}");
        desk.gone(0, 2);
        assert_eq!(desk.begun(), [(SERVERS[0], 1, false, vec![])]);
        // Who takes a partial answer does without it from the beginning.
        let mut desk = Desk::of_two(other);
        for server in [0, 1] {
            assert_eq!(desk.ask(true), (SERVERS[server], 0, true, vec![2]));
        }
        desk.answer(0, &[2]);
        assert_eq!(desk.ended().unwrap().missing, [2]);
    }
}

#[test]
fn who_names_a_server_of_another_index_is_told_what_it_serves() {
    let mut desk = Desk::of_two((5, 1));
    let at = |server| Query { at: Some(server), ..whatever(false) };
    desk.asker.ask(0, &desk.wires, at(2)).unwrap();
    let Err(NoAnswer::Failed { code, words, .. }) = desk.ended() else { panic!("nobody is asked") };
    assert_eq!(code, FailureCode::PartitionGone);
    assert!(words.starts_with("server 2 serves another index"), "{words}");
    desk.asker.ask(0, &desk.wires, at(1)).unwrap();
    assert_eq!(desk.begun(), [(SERVERS[1], 0, false, vec![])]);
}

#[test]
fn another_index_is_searched_once_nobody_is_left_of_the_one_before() {
    let mut desk = Desk::of_two((5, 1));
    assert_eq!(desk.ask(true), (SERVERS[0], 0, true, vec![2]));
    desk.asker.server_down(100, &desk.wires, 0);
    assert_eq!(desk.begun(), [(SERVERS[1], 1, true, vec![0, 2])]);
    // It has an attempt left, and whoever was gone of the one before is not missing of this one.
    desk.asker.server_down(100, &desk.wires, 1);
    assert_eq!(desk.begun(), [(SERVERS[2], 2, true, vec![0, 1])]);
    desk.up_with(200, 0, 4, (5, 1));
    desk.answer(1, &[0, 2]);
    assert_eq!(desk.asker.take_ended(), [], "an answer of the one before");
    desk.answer(2, &[0, 1]);
    assert_eq!(desk.ended().unwrap().missing, [0, 1]);
    // One that comes back with what was searched before is the other one now.
    desk.up(300, 1, 4);
    let next = desk.ask(true);
    assert_eq!(next, (SERVERS[0], 0, true, vec![1]));
}

#[test]
fn one_of_another_index_that_goes_costs_nobody_a_thing() {
    let mut desk = Desk::of_two((5, 1));
    desk.ask(false);
    let due = desk.asker.due(0, &desk.wires);
    desk.asker.server_down(100, &desk.wires, 2);
    assert_eq!((desk.begun(), desk.asker.due(100, &desk.wires)), (vec![], due));
    // It may come back with the index that is searched.
    desk.up(200, 2, 4);
    assert!(desk.asker.is_up(2));
}
