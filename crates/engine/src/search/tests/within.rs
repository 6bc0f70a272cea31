//! Range search: what lies within is found, what does not is neither answered nor paid for.

use std::collections::HashSet;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::fixture::Fixture;
use super::machine::run;
use crate::distance::QueryDistance;
use crate::filter::AllowSet;
use crate::search::allowed::AllowPlan;
use crate::search::{
    DistanceRange, Hit, PageSource, Policy, SearchParams, SearchState, SearchStats,
};
use crate::types::{Metric, NodeId, VectorType};

const ROWS: usize = 3000;
/// Row ids of the fixture begin here.
const FIRST: u64 = 1000;

fn params(within: DistanceRange) -> SearchParams {
    SearchParams { k: 1000, list: 1024, within, ..Default::default() }
}

/// Few records to a page, so that reads can be told from rows.
fn long_vectors() -> Fixture {
    Fixture::wide(ROWS, VectorType::U8, Metric::L2, 32)
}

/// Distances of all rows to a query, the nearest first.
fn distances(fixture: &Fixture, query: &[u8]) -> Vec<(f32, u64)> {
    let distance = QueryDistance::new(fixture.metric, fixture.layout.vector_type(), query);
    let of = |row| (distance.distance(fixture.set().row(row)), row as u64 + FIRST);
    let mut all: Vec<_> = (0..fixture.rows).map(of).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

fn searched(fixture: &Fixture, query: &[u8], params: &SearchParams) -> (Vec<Hit>, SearchStats) {
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin(&view, query, params, None).unwrap();
    run(fixture, &mut state);
    (state.hits().to_vec(), state.stats())
}

/// How many of the rows within were found, and how many there are. Fails on any other.
fn found(hits: &[Hit], all: &[(f32, u64)], within: DistanceRange) -> (usize, usize) {
    assert!(hits.is_sorted_by_key(|hit| hit.distance), "hits are sorted");
    let wanted: HashSet<u64> =
        all.iter().filter(|(d, _)| within.contains(*d)).map(|(_, row)| *row).collect();
    let rows: HashSet<u64> = hits.iter().map(|hit| hit.row.0).collect();
    assert_eq!(rows.len(), hits.len(), "each row once");
    assert!(rows.is_subset(&wanted), "all within {within:?}");
    (rows.len(), wanted.len())
}

#[test]
fn nearly_all_that_lies_within_is_found_by_every_policy_type_and_metric() {
    for (ty, metric) in [
        (VectorType::U8, Metric::L2),
        (VectorType::F32, Metric::Cosine),
        (VectorType::F32, Metric::InnerProduct),
        (VectorType::Binary, Metric::Jaccard),
    ] {
        let fixture = Fixture::of(ROWS, ty, metric);
        let in_memory = Fixture { in_memory: true, ..Fixture::of(ROWS, ty, metric) };
        let disk = [Policy::auto(), Policy::beam(4), Policy::page(4)];
        let disk = disk.into_iter().map(|policy| (&fixture, policy));
        for (fixture, policy) in disk.chain([(&in_memory, Policy::auto())]) {
            for rank in [0, 5, 40, 200] {
                let (mut seen, mut all_within, mut nearest) = (0, 0, 0);
                for query in fixture.queries(10) {
                    let all = distances(fixture, &query);
                    let within = DistanceRange { from: Unbounded, to: Included(all[rank].0) };
                    let params = SearchParams { policy: policy.clone(), ..params(within) };
                    let (hits, stats) = searched(fixture, &query, &params);
                    assert_eq!(stats.cut_short, 0);
                    let (some, whole) = found(&hits, &all, within);
                    (seen, all_within) = (seen + some, all_within + whole);
                    // The same rows looked for by their number.
                    let (k, list) = (rank + 1, 64.max(4 * rank));
                    let by_number =
                        SearchParams { k, list, policy: policy.clone(), ..params.clone() };
                    let by_number = SearchParams { within: DistanceRange::default(), ..by_number };
                    let (hits, _) = searched(fixture, &query, &by_number);
                    let is_within = |hit: &&Hit| within.contains(hit.distance);
                    nearest += hits.iter().take(k).filter(is_within).count();
                }
                let share = seen as f64 / all_within as f64;
                let least = if metric == Metric::InnerProduct { 0.0 } else { 0.95 };
                assert!(share >= least, "{share} of {rank}, {ty} {metric}, {policy:?}");
                let fewer = (seen as f64) < 0.97 * nearest as f64;
                assert!(!fewer, "{seen}, {nearest} by number: {rank}, {metric}, {policy:?}");
            }
        }
    }
}

#[test]
fn a_range_that_holds_nothing_costs_less_than_the_ten_nearest() {
    let fixture = long_vectors();
    let (mut empty, mut nearest) = (0, 0);
    for query in fixture.queries(40) {
        let within =
            DistanceRange { from: Unbounded, to: Excluded(distances(&fixture, &query)[0].0) };
        let (hits, stats) = searched(&fixture, &query, &params(within));
        assert!(hits.is_empty());
        empty += stats.reads;
        nearest += searched(&fixture, &query, &SearchParams::default()).1.reads;
    }
    assert!(empty < nearest, "{empty} reads against {nearest}");
}

#[test]
fn reads_follow_what_lies_within_and_not_the_limit() {
    let fixture = long_vectors();
    let (mut few, mut many, mut by_limit) = (0, 0, 0);
    for query in fixture.queries(20) {
        let all = distances(&fixture, &query);
        let reads = |params: &SearchParams| searched(&fixture, &query, params).1.reads;
        let of = |rank: usize| params(DistanceRange { from: Unbounded, to: Included(all[rank].0) });
        (few, many) = (few + reads(&of(5)), many + reads(&of(300)));
        by_limit += reads(&params(DistanceRange::default()));
    }
    assert!(4 * few < by_limit && few < many && many < by_limit, "{few} {many} {by_limit}");
}

#[test]
fn the_limit_takes_the_nearest_of_those_within() {
    let fixture = Fixture::new(ROWS);
    let mut right = 0;
    for query in fixture.queries(20) {
        let all = distances(&fixture, &query);
        let within = DistanceRange { from: Excluded(all[20].0), to: Included(all[400].0) };
        let params = SearchParams { k: 10, list: 256, ..params(within) };
        let (hits, stats) = searched(&fixture, &query, &params);
        assert_eq!(stats.cut_short, 0);
        let wanted = all.iter().filter(|(d, _)| within.contains(*d)).take(10);
        let wanted: HashSet<u64> = wanted.map(|(_, row)| *row).collect();
        found(&hits, &all, within);
        right += hits.iter().take(10).filter(|hit| wanted.contains(&hit.row.0)).count();
    }
    assert!(right >= 190, "{right} of 200");
}

#[test]
fn a_list_too_short_for_the_range_is_told() {
    let fixture = long_vectors();
    let query = &fixture.queries(1)[0];
    let all = distances(&fixture, query);
    // 500 rows are nearer, and the list holds 192.
    for to in [Unbounded, Included(all[700].0)] {
        let within = DistanceRange { from: Included(all[500].0), to };
        let short = SearchParams { k: 10, list: 64, ..params(within) };
        let (_, stats) = searched(&fixture, query, &short);
        assert_eq!(stats.cut_short, 1, "{to:?}");
        let (hits, stats) = searched(&fixture, query, &SearchParams { list: 1024, ..short });
        assert_eq!((hits.len() >= 10, stats.cut_short), (true, 0), "{to:?}");
    }
    let nothing = DistanceRange { from: Unbounded, to: Excluded(all[0].0) };
    let (_, stats) =
        searched(&fixture, query, &SearchParams { k: 10, list: 64, ..params(nothing) });
    assert_eq!(stats.cut_short, 0, "nothing is within, however long the list");
}

#[test]
fn allowed_rows_within_are_found_by_either_plan() {
    let fixture = Fixture::new(ROWS);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let nodes = (0..ROWS).filter(|i| i % 4 == 0).map(|i| NodeId(i as u32));
    let allow = Arc::new(AllowSet::new(nodes));
    for plan in [AllowPlan::Scan, AllowPlan::Walk] {
        let (mut seen, mut all_within) = (0, 0);
        for query in fixture.queries(20) {
            let mut all = distances(&fixture, &query);
            let within = DistanceRange { from: Unbounded, to: Included(all[100].0) };
            all.retain(|(_, row)| (row - FIRST).is_multiple_of(4));
            let allow = Arc::clone(&allow);
            state.begin_filtered(&view, &query, &params(within), allow, plan).unwrap();
            run(&fixture, &mut state);
            let (some, whole) = found(state.hits(), &all, within);
            (seen, all_within) = (seen + some, all_within + whole);
        }
        assert!(seen * 100 >= all_within * 95, "{seen} of {all_within}, {plan:?}");
    }
}

#[test]
fn no_distance_is_nan() {
    for within in [
        DistanceRange { from: Included(f32::NAN), to: Unbounded },
        DistanceRange { from: Unbounded, to: Excluded(f32::NAN) },
    ] {
        let error = params(within).validate().unwrap_err();
        assert!(error.to_string().contains("NaN"), "{error}");
    }
}
