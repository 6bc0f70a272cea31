//! Searches that may be asked for more than `k`: what they need for it is in their state, and they do
//! not go from part to part.

use std::collections::VecDeque;

use super::fixture::Fixture;
use super::machine::run;
use super::relay::{cut, of_part, params};
use crate::search::{PageSource, Policy, PortableError, SearchParams, SearchState, Step};
use crate::types::PageId;

#[test]
fn a_search_with_a_reserve_carries_all_hits_and_goes_on_as_if_it_had_not_moved() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let params = SearchParams { reserve: 60, ..params(Policy::relay(1, 1)) };
    for query in fixture.queries(5) {
        let mut state = SearchState::new(&view);
        state.begin(&view, &query, &params, None).unwrap();
        run(&fixture, &mut state);
        let mut bytes = Vec::new();
        state.export(&view, &mut bytes);
        let mut moved = SearchState::new(&view);
        moved.import(&view, &bytes, None).unwrap();
        assert_eq!(moved.hits(), state.hits(), "all of them, and not the ten best");
        assert!(moved.hits().len() > 40);
        for state in [&mut moved, &mut state] {
            run(&fixture, state);
            for _ in 0..3 {
                state.extend(&view, 10);
                run(&fixture, state);
            }
        }
        assert_eq!(moved.hits()[..40], state.hits()[..40]);
    }
}

#[test]
fn a_state_that_would_read_again_what_is_elsewhere_is_refused() {
    let mut fixture = Fixture::new(2000);
    let part_of = cut(fixture.pages.len(), 4, true);
    let params = SearchParams { reserve: 60, ..params(Policy::relay(1, 1)) };
    let mut refused = 0;
    for query in fixture.queries(10) {
        fixture.owned = Some(of_part(&part_of, 0));
        let mut state = SearchState::new(&fixture.view());
        state.begin(&fixture.view(), &query, &params, None).unwrap();
        while let Some((next, bytes)) = leaves(&fixture, &mut state) {
            fixture.owned = Some(of_part(&part_of, part_of[next.0 as usize]));
            let view = fixture.view();
            match state.import(&view, &bytes, None) {
                Ok(()) => assert!(!state.is_rebuilding(), "nothing is read again"),
                Err(PortableError::Malformed(why)) => {
                    assert_eq!(why, "pages to be read again are not here");
                    refused += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(refused > 0, "some had records at hand that nobody would explore");
}

/// Goes on with a search where it is, until it leaves for a page; none where it ends.
fn leaves(fixture: &Fixture, state: &mut SearchState) -> Option<(PageId, Vec<u8>)> {
    let view = fixture.view();
    let mut waiting = VecDeque::new();
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => waiting.push_back(page),
            Step::Wait => {
                let page: PageId = waiting.pop_front().unwrap();
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Explored => {}
            Step::Elsewhere(page) => {
                let mut bytes = Vec::new();
                state.export(&view, &mut bytes);
                return Some((page, bytes));
            }
            Step::Done => return None,
        }
    }
}
