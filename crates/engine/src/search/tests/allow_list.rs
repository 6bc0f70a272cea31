//! Searches among some nodes: by each plan, from one plan to the other, moved and continued.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::fixture::Fixture;
use super::machine::run;
use crate::filter::AllowSet;
use crate::search::allowed::{AllowPlan, SCAN_CHUNK};
use crate::search::{Hit, PageSource, Policy, SearchParams, SearchState, Step};
use crate::types::{NodeId, PageId, RowId};

const ROWS: usize = 3000;
/// Row ids of the fixture begin here.
const FIRST: u64 = 1000;

fn every(nth: usize) -> Arc<AllowSet> {
    Arc::new(AllowSet::new((0..ROWS).filter(|i| i % nth == 0).map(|i| NodeId(i as u32))))
}

/// The nodes farthest from a query, so many of a hundred.
fn far_from(fixture: &Fixture, query: &[u8], percent: usize) -> HashSet<u64> {
    let all = fixture.truth(query, ROWS, |_| true);
    all[ROWS - ROWS * percent / 100..].iter().copied().collect()
}

fn listed(rows: &HashSet<u64>) -> Arc<AllowSet> {
    let nodes = rows.iter().map(|row| NodeId((row - FIRST) as u32));
    Arc::new(AllowSet::below(ROWS as u32, rows.len() as u64, nodes))
}

fn tested(rows: &HashSet<u64>) -> Arc<AllowSet> {
    let (rows, count) = (rows.clone(), rows.len() as u64);
    Arc::new(AllowSet::tested(count, move |RowId(row)| rows.contains(&row)))
}

fn rows_of(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.row.0).collect()
}

#[test]
fn a_walk_far_from_all_allowed_nodes_becomes_a_scan() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let params = SearchParams { k: 5, list: 60, ..Default::default() };
    let mut found = 0;
    for query in fixture.queries(20) {
        let far = far_from(&fixture, &query, 30);
        state.begin_filtered(&view, &query, &params, listed(&far), AllowPlan::Walk).unwrap();
        run(&fixture, &mut state);
        assert_eq!(state.stats().codes_ranked, far.len() as u64, "each of them once");
        let truth = fixture.truth(&query, 5, |i| far.contains(&(i as u64 + FIRST)));
        let hits = rows_of(&state.hits()[..5]);
        found += hits.iter().filter(|row| truth.contains(row)).count();
    }
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn rows_that_are_tested_are_found_as_those_of_a_list() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let params = SearchParams { k: 5, list: 60, ..Default::default() };
    let half: HashSet<u64> = (0..ROWS as u64).filter(|i| i % 2 == 0).map(|i| i + FIRST).collect();
    let mut found = 0;
    for query in fixture.queries(20) {
        let allow = Some(tested(&half));
        state.begin(&view, &query, &params, allow).unwrap();
        run(&fixture, &mut state);
        assert_eq!((state.stats().in_vain, state.stats().codes_ranked), (0, 0));
        let hits = rows_of(&state.hits()[..5]);
        assert!(hits.iter().all(|row| half.contains(row)), "{hits:?}");
        let truth = fixture.truth(&query, 5, |i| i % 2 == 0);
        found += hits.iter().filter(|row| truth.contains(row)).count();
    }
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn a_test_that_nothing_near_passes_is_told() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let params = SearchParams { k: 5, list: 60, ..Default::default() };
    for query in fixture.queries(5) {
        let far = far_from(&fixture, &query, 40);
        state.begin(&view, &query, &params, Some(tested(&far))).unwrap();
        run(&fixture, &mut state);
        assert_eq!(state.stats().in_vain, 1);
    }
}

/// Runs a query; where `moves`, at each wait another state goes on from the exported one.
fn moved(
    fixture: &Fixture,
    query: &[u8],
    params: &SearchParams,
    (allow, plan): (&Arc<AllowSet>, AllowPlan),
    moves: bool,
) -> Vec<Hit> {
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin_filtered(&view, query, params, Arc::clone(allow), plan).unwrap();
    let mut waiting: VecDeque<PageId> = VecDeque::new();
    let mut since_read = 0;
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => since_read += 1,
            Step::Wait => {
                if moves && since_read > 0 && !state.is_rebuilding() {
                    let mut bytes = Vec::new();
                    state.export(&view, &mut bytes);
                    state = SearchState::new(&view);
                    assert!(state.import(&view, &bytes, None).is_err(), "the set is missing");
                    state.import(&view, &bytes, Some(Arc::clone(allow))).unwrap();
                    waiting.clear();
                    since_read = 0;
                    continue;
                }
                let page = waiting.pop_front().unwrap();
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            Step::Done => return state.hits()[..params.k.min(state.hits().len())].to_vec(),
        }
    }
}

#[test]
fn a_search_among_some_gives_the_identical_answer_when_moved() {
    let fixture = Fixture::new(ROWS);
    for policy in [Policy::pipe(), Policy::page(4)] {
        let params = SearchParams { k: 10, list: 50, policy, ..Default::default() };
        for query in fixture.queries(4) {
            let far = listed(&far_from(&fixture, &query, 30));
            for (allow, plan) in
                [(every(3), AllowPlan::Walk), (every(3), AllowPlan::Scan), (far, AllowPlan::Walk)]
            {
                let stays = moved(&fixture, &query, &params, (&allow, plan), false);
                let moves = moved(&fixture, &query, &params, (&allow, plan), true);
                assert_eq!(moves, stays, "{plan:?}");
            }
        }
    }
}

#[test]
fn a_search_among_some_goes_on_to_further_rows() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let params = SearchParams { k: 10, list: 200, ..Default::default() };
    let query = &fixture.queries(3)[1];
    for plan in [AllowPlan::Walk, AllowPlan::Scan] {
        state.begin_filtered(&view, query, &params, every(5), plan).unwrap();
        run(&fixture, &mut state);
        let mut hits = Vec::new();
        state.take_hits(10, &mut hits);
        for _ in 0..14 {
            state.extend(&view, 10);
            run(&fixture, &mut state);
            state.take_hits(10, &mut hits);
        }
        let rows: HashSet<u64> = rows_of(&hits).into_iter().collect();
        assert_eq!((rows.len(), hits.len()), (150, 150), "no row twice, {plan:?}");
        assert!(rows.iter().all(|row| (row - FIRST).is_multiple_of(5)));
        let truth: HashSet<u64> = fixture.truth(query, 150, |i| i % 5 == 0).into_iter().collect();
        let found = rows.intersection(&truth).count();
        assert!(found >= 140, "{found} of 150, {plan:?}");
    }
}

#[test]
fn a_scan_whose_last_chunk_is_full_can_be_moved_behind_it() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let slots = view.node_slots;
    let last = (slots - SCAN_CHUNK as u32..slots).map(NodeId);
    let allow = Arc::new(AllowSet::new(last));
    let params = SearchParams { k: 5, list: 60, ..Default::default() };
    let query = &fixture.queries(1)[0];
    let (mut state, mut other) = (SearchState::new(&view), SearchState::new(&view));
    let plan = AllowPlan::Scan;
    state.begin_filtered(&view, query, &params, Arc::clone(&allow), plan).unwrap();
    let mut bytes = Vec::new();
    while state.stats().codes_ranked == 0 {
        state.step(&view).unwrap();
        bytes.clear();
        state.export(&view, &mut bytes);
        other.import(&view, &bytes, Some(Arc::clone(&allow))).unwrap();
    }
}
