//! What the longest lists take, and give back.

use super::fixture::{DEGREE, DIM, Fixture};
use super::machine::run;
use crate::search::{GraphView, PageSource, Policy, SearchParams, SearchState};

fn longest() -> SearchParams {
    let policy = Policy { early_stop: false, ..Policy::default() };
    SearchParams { list: SearchParams::LIST_MAX, policy, ..SearchParams::default() }
}

#[test]
fn the_longest_list_takes_memory_for_what_it_meets_and_not_for_what_it_might() {
    let fixture = Fixture::new(2_000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin(&view, &fixture.queries(1)[0], &longest(), None).unwrap();
    let neighbours = SearchParams::LIST_MAX * DEGREE * size_of::<u32>();
    assert!(state.derived.stash.bytes() < neighbours / 16, "{}", state.derived.stash.bytes());
    run(&fixture, &mut state);
    let hits = state.hits().len();
    assert!(hits > fixture.rows / 2, "{hits}");
    assert!(state.derived.stash.bytes() < neighbours / 16, "{}", state.derived.stash.bytes());
    state.slim();
    assert!(state.bytes() < 1 << 20, "{}", state.bytes());
    let params = SearchParams { k: 10, list: 60, ..SearchParams::default() };
    let common = state.bytes();
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    run(&fixture, &mut state);
    assert!(state.hits().len() >= 10 && state.bytes() > common);
    let bytes = state.bytes();
    state.slim();
    assert_eq!(state.bytes(), bytes, "what common searches take is kept");
}

#[test]
fn nodes_that_a_long_list_meets_in_a_large_index_are_remembered() {
    let fixture = Fixture::new(200);
    // Only the nodes that are there are looked at; the others there might be.
    let view = GraphView { node_slots: 10_000_000, ..fixture.view() };
    let mut state = SearchState::new(&view);
    state.begin(&view, &[0; DIM], &longest(), None).unwrap();
    let bytes = state.derived.visited.bytes();
    assert!(bytes <= 2 << 20, "{bytes}");
    let met = SearchParams::LIST_MAX * DEGREE / 2;
    (0..met as u32).for_each(|node| state.mark_visited(node));
    assert!(!state.derived.visited.is_full());
    let bytes = state.derived.visited.bytes();
    assert!(bytes <= 48 << 20, "{bytes}");
}
