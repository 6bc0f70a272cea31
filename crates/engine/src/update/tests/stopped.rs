//! Searches for which nobody waits any more.

use std::cell::Cell;

use super::{Rows, built, live, params};
use crate::index::QueryError;
use crate::search::{Policy, QueryJob, SearchError, SearchParams};

fn is_stopped<T>(outcome: &Result<T, QueryError>) -> bool {
    matches!(outcome, Err(QueryError::Search(SearchError::Stopped)))
}

#[test]
fn queries_that_nobody_waits_for_are_not_begun() {
    let rows = Rows::clustered(2_000, 16, 1);
    let place = built(&rows, rows.len());
    let (index, params) = (live(&place.path), params(20));
    let jobs: Vec<_> = (0..100)
        .map(|number| QueryJob { number, query: rows.row(number), params: &params })
        .collect();
    let asked = Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 20
    };
    let outcomes = index.search_together_until(&jobs, None, &stop).unwrap();
    let answered = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((1..=20).contains(&answered), "{answered}");
    assert!(outcomes.iter().all(|outcome| outcome.is_ok() || is_stopped(outcome)));
    assert!(outcomes[20..].iter().all(is_stopped));
    // Their driver serves others.
    let outcomes = index.search_together(&jobs, None).unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
}

#[test]
fn a_long_search_that_nobody_waits_for_ends_before_it_is_done() {
    let rows = Rows::clustered(6_000, 16, 1);
    let place = built(&rows, rows.len());
    let index = live(&place.path);
    let policy = Policy { early_stop: false, ..Policy::default() };
    let params = SearchParams { list: 6_000, policy, ..SearchParams::default() };
    let job = QueryJob { number: 0, query: rows.row(7), params: &params };
    let whole = index.search(rows.row(7), &params, None).unwrap();
    assert!(whole.stats.hops > 2_000, "{:?}", whole.stats);
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) > 0;
    let outcomes = index.search_together_until(&[job], None, &stop).unwrap();
    assert!(is_stopped(&outcomes[0]), "{:?}", outcomes[0]);
    assert_eq!(asked.get(), 3, "before it began, when it had begun, and for another one");
}
