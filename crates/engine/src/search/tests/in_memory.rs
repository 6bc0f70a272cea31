//! Walking the graph by exact distances: what it finds, what it leaves to the general way.

use std::collections::HashSet;
use std::sync::Arc;

use super::fixture::Fixture;
use super::machine::run;
use crate::filter::AllowSet;
use crate::search::{Hit, PageSource, Policy, SearchParams, SearchState, SearchStats, Step};
use crate::types::{Metric, NodeId, VectorType};

fn params(list: usize, in_memory: bool) -> SearchParams {
    let policy = Policy { in_memory, ..Policy::auto() };
    SearchParams { k: 10, list, policy, ..Default::default() }
}

fn searched(fixture: &Fixture, query: &[u8], params: &SearchParams) -> (Vec<Hit>, SearchStats) {
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin(&view, query, params, None).unwrap();
    run(fixture, &mut state);
    (state.hits().iter().take(params.k).copied().collect(), state.stats())
}

/// Neighbours found of 50 queries, ten each.
fn found(fixture: &Fixture, params: &SearchParams) -> usize {
    let of = |query: &Vec<u8>| {
        let truth: HashSet<u64> = fixture.truth(query, params.k, |_| true).into_iter().collect();
        let (hits, _) = searched(fixture, query, params);
        assert!(hits.is_sorted_by_key(|h| h.distance), "hits are sorted");
        hits.iter().filter(|hit| truth.contains(&hit.row.0)).count()
    };
    fixture.queries(50).iter().map(of).sum()
}

#[test]
fn no_less_is_found_than_by_reading() {
    for (ty, metric) in [
        (VectorType::U8, Metric::L2),
        (VectorType::F32, Metric::Cosine),
        (VectorType::F32, Metric::InnerProduct),
        (VectorType::Binary, Metric::Jaccard),
    ] {
        let fixture = Fixture { in_memory: true, ..Fixture::of(2000, ty, metric) };
        for list in [10, 20, 40] {
            let (walked, read) =
                (found(&fixture, &params(list, true)), found(&fixture, &params(list, false)));
            assert!(walked + 5 >= read, "{walked} of 500 against {read}: {ty:?} {metric:?} {list}");
        }
        assert!(found(&fixture, &params(60, true)) >= 475, "{ty:?} {metric:?}");
    }
}

#[test]
fn of_long_vectors_fewer_are_compared_and_no_less_is_found() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let of = |copies| {
            let fixture = Fixture::wide(2000, VectorType::U8, metric, copies);
            Fixture { in_memory: true, ..fixture }
        };
        // The same distances, but for a factor: the longer vectors are looked up by codes first.
        let (narrow, wide) = (of(1), of(8));
        for list in [10, 40] {
            let params = params(list, true);
            let (all, screened) = (found(&narrow, &params), found(&wide, &params));
            assert!(screened + 5 >= all, "{screened} of 500 against {all}: {metric:?} {list}");
            let stats = |fixture: &Fixture| {
                let mut sum = SearchStats::default();
                fixture.queries(50).iter().for_each(|q| sum += searched(fixture, q, &params).1);
                sum
            };
            let (all, screened) = (stats(&narrow), stats(&wide));
            assert_eq!(all.code_distances, 0);
            assert!(screened.code_distances > screened.exact_distances, "{screened:?}");
            assert!(screened.exact_distances * 4 < all.exact_distances * 3, "{metric:?} {list}");
        }
    }
}

#[test]
fn neither_reads_nor_codes_are_needed() {
    let fixture = Fixture { in_memory: true, ..Fixture::new(1000) };
    for query in fixture.queries(5) {
        let (hits, stats) = searched(&fixture, &query, &params(20, true));
        assert_eq!((stats.reads, stats.code_distances), (0, 0));
        assert_eq!(stats.hops, stats.resident_pages);
        assert!(stats.exact_distances > stats.hops);
        let rows: HashSet<u64> = hits.iter().map(|h| h.row.0).collect();
        assert_eq!(rows.len(), 10, "each row once");
    }
}

#[test]
fn a_search_among_some_nodes_goes_the_general_way() {
    let fixture = Fixture { in_memory: true, ..Fixture::new(1000) };
    let view = fixture.view();
    let allow = Arc::new(AllowSet::new((0..1000).step_by(3).map(NodeId)));
    let mut state = SearchState::new(&view);
    for query in fixture.queries(10) {
        let mut answers = [true, false].map(|in_memory| {
            state.begin(&view, &query, &params(40, in_memory), Some(Arc::clone(&allow))).unwrap();
            run(&fixture, &mut state);
            assert!(state.hits().iter().all(|hit| hit.node.0 % 3 == 0));
            state.hits().to_vec()
        });
        answers.iter_mut().for_each(|hits| hits.truncate(10));
        assert_eq!(answers[0], answers[1]);
    }
}

#[test]
fn a_state_exported_at_any_step_finds_its_answer_where_pages_are_read() {
    let there = Fixture { in_memory: true, ..Fixture::new(1000) };
    let elsewhere = Fixture::new(1000);
    let (view, from) = (elsewhere.view(), there.view());
    let query = &there.queries(1)[0];
    let truth = there.truth(query, 10, |_| true);
    let mut state = SearchState::new(&from);
    state.begin(&from, query, &params(60, true), None).unwrap();
    let mut steps = 0;
    loop {
        let mut bytes = Vec::new();
        state.export(&view, &mut bytes);
        let mut resumed = SearchState::new(&view);
        resumed.import(&view, &bytes, None).unwrap();
        run(&elsewhere, &mut resumed);
        let found = resumed.hits().iter().take(10).filter(|h| truth.contains(&h.row.0)).count();
        assert!(found >= 9, "{found} of 10 after {steps} steps");
        steps += 1;
        if state.step(&from).unwrap() == Step::Done {
            break;
        }
    }
    assert!(steps > 10);
}

#[test]
fn a_search_goes_on_for_further_results() {
    let fixture = Fixture { in_memory: true, ..Fixture::new(1000) };
    let view = fixture.view();
    let query = &fixture.queries(1)[0];
    let mut state = SearchState::new(&view);
    state.begin(&view, query, &params(40, true), None).unwrap();
    run(&fixture, &mut state);
    let mut rows = Vec::new();
    for _ in 0..4 {
        state.take_hits(10, &mut rows);
        state.extend(&view, 10);
        run(&fixture, &mut state);
    }
    let distinct: HashSet<u64> = rows.iter().map(|hit| hit.row.0).collect();
    assert_eq!((rows.len(), distinct.len()), (40, 40), "each row once");
    let truth: HashSet<u64> = fixture.truth(query, 40, |_| true).into_iter().collect();
    assert!(distinct.intersection(&truth).count() >= 36);
}
