//! The state machine by itself: recall of every policy, bounds, filters, continuation.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::fixture::Fixture;
use crate::filter::AllowSet;
use crate::search::allowed::AllowPlan;
use crate::search::{Issue, PageSource, Policy, SearchParams, SearchState, Step, Width};
use crate::types::{NodeId, PageId};

/// Runs a state to its end; reads finish in the order of their issue, one at a time.
pub(super) fn run(fixture: &Fixture, state: &mut SearchState) {
    let view = fixture.view();
    let mut waiting: VecDeque<PageId> = VecDeque::new();
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => {}
            Step::Wait => {
                let page = waiting.pop_front().expect("a state waits for reads under way only");
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            Step::Done => return,
        }
    }
}

/// Recall and reads, means over 50 queries.
fn recall_and_reads(fixture: &Fixture, params: &SearchParams) -> (f64, f64) {
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let queries = fixture.queries(50);
    let (mut found, mut reads) = (0, 0);
    for query in &queries {
        state.begin(&view, query, params, None).unwrap();
        run(fixture, &mut state);
        let truth: HashSet<u64> = fixture.truth(query, params.k, |_| true).into_iter().collect();
        found += state.hits().iter().take(params.k).filter(|h| truth.contains(&h.row.0)).count();
        reads += state.stats().reads;
        assert!(state.hits().is_sorted_by_key(|h| h.distance), "hits are sorted");
    }
    let queries = queries.len() as f64;
    (found as f64 / queries / params.k as f64, reads as f64 / queries)
}

#[test]
fn every_policy_finds_the_neighbours() {
    let fixture = Fixture::new(2000);
    let fill = Policy { issue: Issue::Fill, ..Policy::pipe() };
    let unpacked = Policy { packed: false, ..Policy::pipe() };
    let table = Width::Table(Arc::from([(0, 4), (10, 8), (20, 16)]));
    let static_width = Policy { width: table, ..Policy::pipe() };
    let narrow = Policy { width: Width::Fixed(1), ..Policy::pipe() };
    for policy in [
        Policy::pipe(),
        fill,
        unpacked,
        static_width,
        narrow,
        Policy::beam(1),
        Policy::beam(8),
        Policy::page(4),
    ] {
        let params = SearchParams { k: 10, list: 60, policy, ..Default::default() };
        let (recall, _) = recall_and_reads(&fixture, &params);
        assert!(recall >= 0.95, "recall {recall} with {:?}", params.policy);
    }
}

#[test]
fn packed_pages_cost_fewer_reads_than_single_records() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let mut reads = [0, 0];
    for query in fixture.queries(20) {
        for (i, packed) in [true, false].into_iter().enumerate() {
            let policy = Policy { packed, ..Policy::page(4) };
            let params = SearchParams { k: 10, list: 40, policy, ..Default::default() };
            state.begin(&view, &query, &params, None).unwrap();
            run(&fixture, &mut state);
            reads[i] += state.stats().reads;
        }
    }
    assert!(reads[0] < reads[1], "packed {} against {}", reads[0], reads[1]);
}

#[test]
fn stopping_early_saves_reads_and_hardly_any_recall() {
    let fixture = Fixture::new(4000);
    for list in [20, 30, 40] {
        let of = |early_stop| {
            let policy = Policy { early_stop, ..Policy::page(2) };
            recall_and_reads(&fixture, &SearchParams { k: 10, list, policy, ..Default::default() })
        };
        let ((recall, reads), (whole_recall, whole_reads)) = (of(true), of(false));
        assert!(recall >= whole_recall - 0.01, "recall {recall} against {whole_recall}, L={list}");
        assert!(reads < whole_reads, "{reads} reads against {whole_reads}, L={list}");
    }
}

#[test]
fn a_pipeline_is_never_wider_than_its_policy_allows() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    for (policy, most) in [(Policy::pipe(), 32), (Policy::beam(3), 3), (Policy::page(2), 2)] {
        let params = SearchParams { k: 10, list: 100, policy, ..Default::default() };
        state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
        let mut waiting = VecDeque::new();
        loop {
            match state.step(&view).unwrap() {
                Step::Read(page) => waiting.push_back(page),
                Step::Explored => {}
                Step::Wait => {
                    let page = waiting.pop_front().unwrap();
                    state.receive(&view, page, &fixture.pages[page.0 as usize]);
                }
                Step::Elsewhere(_) => unreachable!("every page is here"),
                Step::Done => break,
            }
            assert!(waiting.len() <= most, "{} reads in flight", waiting.len());
        }
        assert!(state.stats().width_max <= most as u64);
    }
}

#[test]
fn dynamic_width_grows_in_the_converge_phase_only() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let query = &fixture.queries(1)[0];
    let policy = Policy { early_stop: false, ..Policy::pipe() };
    let params = |list| SearchParams { k: 1, list, policy: policy.clone(), ..Default::default() };
    state.begin(&view, query, &params(3), None).unwrap();
    run(&fixture, &mut state);
    assert_eq!(state.stats().width_max, 4, "a list of 3 never reaches position 5");
    state.begin(&view, query, &params(150), None).unwrap();
    run(&fixture, &mut state);
    assert!(state.stats().width_max > 8, "width only reached {}", state.stats().width_max);
}

#[test]
fn allowed_rows_only_are_answered_whatever_the_share() {
    let fixture = Fixture::new(3000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    for every in [2_usize, 10, 300] {
        let nodes = (0..fixture.rows).filter(|i| i % every == 0);
        let allow = Arc::new(AllowSet::new(nodes.map(|i| NodeId(i as u32))));
        for plan in [AllowPlan::Scan, AllowPlan::Walk] {
            let params = SearchParams { k: 5, list: 60, ..Default::default() };
            let mut found = 0;
            for query in fixture.queries(20) {
                state.begin_filtered(&view, &query, &params, Arc::clone(&allow), plan).unwrap();
                run(&fixture, &mut state);
                let truth = fixture.truth(&query, 5, |i| i % every == 0);
                let hits = &state.hits()[..5];
                assert!(hits.iter().all(|h| ((h.row.0 - 1000) as usize).is_multiple_of(every)));
                found += hits.iter().filter(|h| truth.contains(&h.row.0)).count();
            }
            assert!(found >= 92, "{found} of 100 with 1 in {every}, {plan:?}");
        }
    }
}

#[test]
fn an_empty_allow_set_answers_nothing() {
    let fixture = Fixture::new(200);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let allow = Some(Arc::new(AllowSet::default()));
    state.begin(&view, &fixture.queries(1)[0], &SearchParams::default(), allow).unwrap();
    run(&fixture, &mut state);
    assert!(state.hits().is_empty());
}

#[test]
fn a_search_continued_gives_further_hits_each_once() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    for reserve in [0, 400] {
        let query = &fixture.queries(3)[2];
        let params = SearchParams { k: 10, list: 100, reserve, ..Default::default() };
        state.begin(&view, query, &params, None).unwrap();
        run(&fixture, &mut state);
        let mut rows = Vec::new();
        state.take_hits(10, &mut rows);
        for _ in 0..9 {
            state.extend(&view, 10);
            run(&fixture, &mut state);
            state.take_hits(10, &mut rows);
        }
        let distinct: HashSet<u64> = rows.iter().map(|h| h.row.0).collect();
        assert_eq!((rows.len(), distinct.len()), (100, 100), "no row twice");
        let truth: HashSet<u64> = fixture.truth(query, 100, |_| true).into_iter().collect();
        let found = distinct.intersection(&truth).count();
        // At its end the search has the list that one search for 100 would have had at once.
        let at_once = SearchParams { k: 100, list: 190, ..Default::default() };
        state.begin(&view, query, &at_once, None).unwrap();
        run(&fixture, &mut state);
        let hits = state.hits().iter().take(100);
        let expected = hits.filter(|h| truth.contains(&h.row.0)).count();
        assert!(found + 4 >= expected, "{found}, at once {expected}, reserve {reserve}");
    }
}

#[test]
fn fewer_rows_than_asked_for_are_all_answered() {
    let fixture = Fixture::new(7);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let params = SearchParams { k: 10, list: 10, ..Default::default() };
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    run(&fixture, &mut state);
    assert_eq!(state.hits().len(), 7);
}
