//! The portable part: exported at every step, it goes on to the identical answer.

use std::collections::VecDeque;
use std::ops::Bound;

use super::fixture::{DIM, Fixture};
use crate::search::{
    DistanceRange, Hit, PageSource, Policy, PortableError, SearchParams, SearchState, Step,
};
use crate::types::{Metric, PageId, VectorType};

/// Runs a query; at each wait whose number `moves` accepts, the state is exported, the reads in
/// flight are dropped, and another state goes on.
fn run_moving(
    fixture: &Fixture,
    params: &SearchParams,
    query: &[u8],
    moves: impl Fn(usize) -> bool,
) -> (Vec<Hit>, usize, usize) {
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin(&view, query, params, None).unwrap();
    let mut waiting: VecDeque<PageId> = VecDeque::new();
    let (mut waits, mut largest) = (0, 0);
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => {}
            Step::Wait => {
                waits += 1;
                if moves(waits) {
                    let mut bytes = Vec::new();
                    state.export(&view, &mut bytes);
                    largest = largest.max(bytes.len());
                    waiting.clear();
                    state = SearchState::new(&view);
                    state.import(&view, &bytes, None).unwrap();
                    settle(&mut state, fixture, &mut waiting);
                }
                let page = waiting.pop_front().unwrap();
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            // The others serve only to go on beyond `k`, and stay behind.
            Step::Done => {
                let k = params.k.min(state.hits().len());
                return (state.hits()[..k].to_vec(), waits, largest);
            }
        }
    }
}

/// Steps an imported state until it has read again what it needs and waits with its former
/// reads under way.
fn settle(state: &mut SearchState, fixture: &Fixture, waiting: &mut VecDeque<PageId>) {
    let view = fixture.view();
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => waiting.push_back(page),
            Step::Wait if state.is_rebuilding() => {
                let page = waiting.pop_front().unwrap();
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Wait => return,
            step => panic!("{step:?} before the reads under way have come back"),
        }
    }
}

#[test]
fn a_search_moved_at_any_step_gives_the_identical_answer() {
    let fixture = Fixture::new(2000);
    let unpacked = Policy { packed: false, ..Policy::pipe() };
    for policy in [Policy::pipe(), unpacked, Policy::beam(4), Policy::page(4)] {
        let params = SearchParams { k: 10, list: 50, policy, ..Default::default() };
        for query in fixture.queries(5) {
            let (expected, waits, _) = run_moving(&fixture, &params, &query, |_| false);
            for at in 1..=waits {
                let (moved, ..) = run_moving(&fixture, &params, &query, |w| w == at);
                assert_eq!(moved, expected, "moved at wait {at} with {:?}", params.policy);
            }
            let (moved, ..) = run_moving(&fixture, &params, &query, |_| true);
            assert_eq!(moved, expected, "moved at every wait");
        }
    }
}

#[test]
fn a_search_within_a_range_moves() {
    let fixture = Fixture::new(2000);
    for query in fixture.queries(5) {
        let all = SearchParams { k: 200, list: 300, ..Default::default() };
        let (nearest, ..) = run_moving(&fixture, &all, &query, |_| false);
        let within = DistanceRange {
            from: Bound::Excluded(nearest[3].distance),
            to: Bound::Included(nearest[60].distance),
        };
        let params = SearchParams { within, ..all };
        let (expected, ..) = run_moving(&fixture, &params, &query, |_| false);
        let (moved, ..) = run_moving(&fixture, &params, &query, |_| true);
        assert!(expected.len() > 40);
        assert_eq!(moved, expected);
    }
}

#[test]
fn a_search_of_any_type_by_any_metric_moves() {
    for ty in VectorType::ALL {
        for metric in Metric::ALL.into_iter().filter(|&metric| ty.takes_metric(metric)) {
            let fixture = Fixture::of(600, ty, metric);
            let params = SearchParams { k: 10, list: 30, ..Default::default() };
            for query in fixture.queries(2) {
                let (expected, ..) = run_moving(&fixture, &params, &query, |_| false);
                let (moved, ..) = run_moving(&fixture, &params, &query, |_| true);
                assert_eq!(moved, expected, "{ty} {metric}");
                let truth = fixture.truth(&query, 1, |_| true);
                assert!(expected.len() >= 10);
                assert!(expected[0].row.0 == truth[0] || metric != Metric::L2, "{ty} {metric}");
            }
        }
    }
}

#[test]
fn the_portable_part_is_small() {
    let fixture = Fixture::new(3000);
    let params = SearchParams { k: 10, list: 200, ..Default::default() };
    let (_, _, largest) = run_moving(&fixture, &params, &fixture.queries(1)[0], |_| true);
    assert!(largest + 128 - DIM <= 8192, "{largest} bytes at L=200");
}

#[test]
fn damaged_bytes_are_refused_and_never_panic() {
    let fixture = Fixture::new(500);
    let view = fixture.view();
    let params = SearchParams { k: 10, list: 20, ..Default::default() };
    let mut state = SearchState::new(&view);
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    while let Step::Read(_) | Step::Explored = state.step(&view).unwrap() {}
    let mut good = Vec::new();
    state.export(&view, &mut good);
    for cut in 0..good.len() {
        assert!(state.import(&view, &good[..cut], None).is_err(), "cut at {cut}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let _ = state.import(&view, &bad, None);
        }
    }
    let mut newer = good.clone();
    newer[0] = 9;
    assert_eq!(state.import(&view, &newer, None), Err(PortableError::Version { found: 9 }));
    assert_eq!(state.import(&view, &good, None), Ok(()));
}

/// A header that was made up to promise, or to count, what no search does: each value at its place.
#[test]
fn a_header_that_no_search_writes_is_refused() {
    let fixture = Fixture::new(500);
    let view = fixture.view();
    let params = SearchParams { k: 10, list: 20, ..Default::default() };
    let mut state = SearchState::new(&view);
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    while let Step::Read(_) | Step::Explored = state.step(&view).unwrap() {}
    let mut good = Vec::new();
    state.export(&view, &mut good);
    let with = |at: usize, value: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + value.len()].copy_from_slice(value);
        bad
    };
    let word = u32::to_le_bytes;
    for (what, bad) in [
        ("no width to grow to", with(6, &[0, 0])),
        ("a ranking among nodes that nothing allows", with(78, &word(0))),
        ("a window far beyond the longest list", with(82, &word(u32::MAX))),
        ("a window of nothing", with(86, &word(0))),
        ("as many nodes seen as can be counted", with(90, &word(u32::MAX))),
        ("as many reads as can be counted", with(126, &word(u32::MAX))),
    ] {
        let imported = SearchState::new(&view).import(&view, &bad, None);
        assert!(matches!(imported, Err(PortableError::Malformed(_))), "{what}: {imported:?}");
    }
}

#[test]
fn room_is_made_for_what_came_and_not_for_what_was_promised() {
    let fixture = Fixture::new(500);
    let view = fixture.view();
    let most = SearchParams::LIST_MAX;
    let params = SearchParams { k: most, list: most, reserve: most, ..Default::default() };
    let mut state = SearchState::new(&view);
    let query = &fixture.queries(1)[0];
    state.begin(&view, query, &params, None).unwrap();
    let mut bytes = Vec::new();
    state.export(&view, &mut bytes);
    let mut moved = SearchState::new(&view);
    let before = moved.bytes();
    moved.import(&view, &bytes, None).unwrap();
    let grown = moved.bytes() - before;
    assert!(grown <= 4 * bytes.len() + (64 << 10), "{grown} for {} bytes", bytes.len());
    assert!(state.bytes() > 20 * (before + grown), "the promise is large");
}
