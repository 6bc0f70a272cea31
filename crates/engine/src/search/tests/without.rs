//! Searches where some parts of the graph are gone: what is left is found, and nothing else.

use super::fixture::Fixture;
use super::relay::{Passes, cut, params, walk, walk_among};
use crate::search::allowed::AllowPlan;
use crate::search::{Owned, PageSource, Policy, PortableError, SearchParams, SearchState, Step};
use crate::types::NodeId;

/// The pages of some parts.
fn pages_of(part_of: &[usize], gone: &[usize]) -> Owned {
    let pages = part_of.iter().zip(0_u32..).filter(|(part, _)| gone.contains(part));
    Owned::new(pages.map(|(_, page)| page..page + 1))
}

#[test]
fn what_is_left_is_found_and_nothing_of_what_is_gone() {
    let mut fixture = Fixture::new(4000);
    for (gone, at_random) in [(vec![3], false), (vec![0, 1, 4], false), (vec![2, 3], true)] {
        let part_of = cut(fixture.pages.len(), 5, at_random);
        let without = pages_of(&part_of, &gone);
        for policy in [Policy::relay(1, 1), Policy::relay(2, 8), Policy::baton(8)] {
            let head = policy.head;
            let params = SearchParams { without: without.clone(), ..params(policy) };
            let (mut found, mut full) = (0, 0);
            for query in fixture.queries(40) {
                let walk = walk(&mut fixture, &params, &query, &part_of, |_, _, _| {});
                assert!(walk.reads.iter().all(|page| !without.holds(*page)), "none is read");
                let here = |node: u32| !without.holds(fixture.layout.page_of(NodeId(node)));
                assert!(walk.hits.iter().all(|hit| here(hit.node.0)), "none is answered");
                let truth = fixture.truth(&query, 10, |node| here(node as u32));
                found += walk.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
                full += truth.len();
            }
            assert!(100 * found >= 95 * full, "{found} of {full}, head {head}, gone {gone:?}");
        }
    }
}

#[test]
fn a_ranking_passes_over_what_is_gone_and_ranks_the_rest() {
    let mut fixture = Fixture::new(2000);
    let part_of = cut(fixture.pages.len(), 5, false);
    let passes: Passes = |node, nth| node.is_multiple_of(nth.into());
    for gone in [vec![0], vec![4], vec![1, 2], vec![0, 2, 4], vec![0, 1, 2, 3, 4]] {
        let without = pages_of(&part_of, &gone);
        let params = SearchParams { without: without.clone(), ..params(Policy::relay(1, 1)) };
        let here = |f: &Fixture, node: u32| !without.holds(f.layout.page_of(NodeId(node)));
        for query in fixture.queries(5) {
            let among = Some((20, passes, AllowPlan::Scan));
            let mut ranked = 0;
            let found = walk_among(&mut fixture, &params, &query, &part_of, among, |s, _, _| {
                ranked += s.stats().codes_ranked;
            });
            let left = (0..2000).filter(|n| passes(*n, 20) && here(&fixture, *n)).count();
            assert_eq!((ranked + found.stats.codes_ranked) as usize, left, "{gone:?}");
            let pass = |node: usize| passes(node as u32, 20) && here(&fixture, node as u32);
            let truth = fixture.truth(&query, 10, pass);
            let rows: Vec<_> = found.hits.iter().map(|hit| hit.row.0).collect();
            assert!(rows.iter().all(|row| truth.contains(row)) && rows.len() == truth.len());
        }
    }
}

#[test]
fn where_all_is_gone_there_is_no_answer_and_no_move() {
    let mut fixture = Fixture::new(600);
    let part_of = cut(fixture.pages.len(), 3, false);
    let without = pages_of(&part_of, &[0, 1, 2]);
    for policy in
        [Policy::relay(2, 8), Policy::baton(8), Policy { head: false, ..Policy::relay(2, 8) }]
    {
        let params = SearchParams { without: without.clone(), ..params(policy) };
        let query = &fixture.queries(1)[0];
        let found = walk(&mut fixture, &params, query, &part_of, |_, _, _| {});
        assert_eq!((found.hits.len(), found.reads.len(), found.stats.moves), (0, 0, 0));
    }
}

#[test]
fn a_search_without_a_head_finds_an_entry_that_is_left() {
    let mut fixture = Fixture::new(2000);
    let part_of = cut(fixture.pages.len(), 4, false);
    let gone = part_of[fixture.layout.page_of(fixture.view().entry).0 as usize];
    let without = pages_of(&part_of, &[gone]);
    let policy = Policy { head: false, ..Policy::relay(2, 8) };
    let params = SearchParams { without, ..params(policy) };
    for query in fixture.queries(10) {
        let found = walk(&mut fixture, &params, &query, &part_of, |_, _, _| {});
        assert_eq!(found.hits.len(), 10);
    }
}

#[test]
fn a_state_carries_what_is_gone_and_ranges_that_are_none_are_refused() {
    let fixture = Fixture::new(600);
    let view = fixture.view();
    let without = Owned::new([1..3, 7..9]);
    let params = SearchParams { without: without.clone(), ..params(Policy::relay(1, 1)) };
    let mut state = SearchState::new(&view);
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    while let Step::Explored = state.step(&view).unwrap() {}
    let mut good = Vec::new();
    state.export(&view, &mut good);
    let mut moved = SearchState::new(&view);
    moved.import(&view, &good, None).unwrap();
    assert_eq!(moved.params().without, without);
    let at = good.len() - 2 * Owned::RANGE_BYTES;
    let beyond = view.layout.max_pages() + 1;
    let none = [[1_u32, 1, 7, 9], [1, 7, 7, 9], [7, 9, 1, 3], [3, 1, 7, 9], [1, 3, 7, beyond]];
    for bad in none {
        let mut bytes = good[..at].to_vec();
        bytes.extend(bad.iter().flat_map(|page| page.to_le_bytes()));
        let refused = moved.import(&view, &bytes, None);
        assert_eq!(refused, Err(PortableError::Malformed("no ranges of pages")), "{bad:?}");
    }
}

#[test]
fn a_filter_knows_nothing_of_what_is_gone() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 4, false);
    let without = pages_of(&part_of, &[1]);
    let passes: Passes = |node, nth| node.is_multiple_of(nth.into());
    let params = SearchParams { list: 60, without: without.clone(), ..params(Policy::relay(2, 8)) };
    let (mut right, mut all) = (0, 0);
    for query in fixture.queries(20) {
        let among = Some((3, passes, AllowPlan::Walk));
        let found = walk_among(&mut fixture, &params, &query, &part_of, among, |_, _, _| {});
        let here = |node: u32| !without.holds(fixture.layout.page_of(NodeId(node)));
        assert!(found.hits.iter().all(|hit| passes(hit.node.0, 3) && here(hit.node.0)));
        let truth = fixture.truth(&query, 10, |node| passes(node as u32, 3) && here(node as u32));
        right += found.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
        all += truth.len();
    }
    assert!(100 * right >= 95 * all, "{right} of {all}");
}
