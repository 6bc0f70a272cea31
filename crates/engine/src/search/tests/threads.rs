//! The driver: batches, sharing, failures of single pages.

use std::collections::HashMap;

use super::fixture::Fixture;
use crate::search::{Driver, DriverOptions, Policy, SearchError, SearchParams};

type Rows = Result<Vec<u64>, SearchError>;

fn batch(
    fixture: &Fixture,
    params: &SearchParams,
    queries: &[Vec<u8>],
    in_flight: usize,
    depth: usize,
) -> HashMap<usize, Rows> {
    let options = DriverOptions { queries: in_flight, depth, sqpoll: false };
    let mut driver = Driver::new(&fixture.backend(), fixture, &options).unwrap();
    let mut answers = HashMap::new();
    let mut jobs = queries.iter().enumerate();
    driver
        .run(
            fixture,
            params,
            None,
            in_flight,
            &mut || jobs.next().map(|(i, q)| (i, q.as_slice())),
            &mut |job, result| {
                let rows =
                    result.map(|(hits, _)| hits.iter().take(params.k).map(|h| h.row.0).collect());
                assert!(answers.insert(job, rows).is_none(), "each job is answered once");
            },
        )
        .unwrap();
    answers
}

#[test]
fn best_first_answers_do_not_depend_on_what_else_is_in_flight() {
    let fixture = Fixture::new(2000);
    let queries = fixture.queries(60);
    let params = SearchParams { k: 10, list: 40, policy: Policy::page(4), ..Default::default() };
    let alone = batch(&fixture, &params, &queries, 1, 64);
    assert_eq!(alone.len(), 60);
    for (in_flight, depth) in [(8, 256), (64, 64), (8, 3)] {
        assert_eq!(batch(&fixture, &params, &queries, in_flight, depth), alone);
    }
}

#[test]
fn an_unreadable_page_fails_the_queries_that_need_it_and_no_other() {
    let fixture = Fixture::new(2000);
    let queries = fixture.queries(60);
    let params = SearchParams { k: 10, list: 40, policy: Policy::page(4), ..Default::default() };
    let good = batch(&fixture, &params, &queries, 8, 256);
    let page =
        fixture.layout.page_of(crate::types::NodeId((good[&7].as_ref().unwrap()[0] - 1000) as u32));
    fixture.unreadable.lock().unwrap().insert(page.0);
    let with_damage = batch(&fixture, &params, &queries, 8, 256);
    let failed: Vec<usize> = (0..60).filter(|i| with_damage[i].is_err()).collect();
    assert!(failed.contains(&7) && failed.len() < 60, "{failed:?}");
    let message = with_damage[&7].as_ref().unwrap_err().to_string();
    assert!(message.contains(&format!("page {}", page.0)), "{message}");
    for i in (0..60).filter(|i| with_damage[i].is_ok()) {
        assert_eq!(with_damage[&i], good[&i]);
    }
}
