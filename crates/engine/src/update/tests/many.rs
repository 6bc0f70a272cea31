//! Rows that are linked several at once.

use super::{Rows, assert_sound, built, live, params, read_only, recall, rows_of};
use crate::index::QueryError;
use crate::search::PageSource;
use crate::types::RowId;
use crate::update::session::{Collector, Session};
use crate::update::{LinkPace, LiveIndex, UpdateError};

const DIM: usize = 32;

fn insert_together(index: &LiveIndex, rows: &Rows, range: std::ops::Range<usize>) {
    let some: Vec<_> = range.map(|row| (RowId(row as u64), rows.row(row))).collect();
    let mut linked = 0;
    index
        .insert_many(&some, LinkPace::Full, &mut |nth, outcome| {
            assert_eq!(outcome.unwrap().row, some[nth].0);
            linked += 1;
        })
        .unwrap();
    assert_eq!(linked, some.len());
}

#[test]
fn rows_inserted_together_are_found_as_well_as_built_ones() {
    let rows = Rows::clustered(20_000, DIM, 1);
    let queries = Rows::clustered(100, DIM, 2);
    let truth: Vec<Vec<u64>> =
        (0..queries.len()).map(|q| rows.truth(queries.row(q), 10, 0..rows.len())).collect();
    let fresh = built(&rows, rows.len());
    let fresh = read_only(&fresh.path);
    let place = built(&rows, rows.len() / 2);
    let index = live(&place.path);
    for from in (rows.len() / 2..rows.len()).step_by(100) {
        insert_together(&index, &rows, from..from + 100);
    }
    for list in [20, 40] {
        let of_fresh =
            recall(&queries, &truth, |q| fresh.search(q, &params(list), None).unwrap().hits);
        let of_live =
            recall(&queries, &truth, |q| index.search(q, &params(list), None).unwrap().hits);
        assert!(of_live >= of_fresh - 0.01, "{of_live}, fresh {of_fresh}, list {list}");
    }
    index.checkpoint(1).unwrap();
    drop(index);
    assert_sound(&place.path);
}

#[test]
fn each_row_of_a_call_has_its_own_outcome() {
    let rows = Rows::clustered(500, DIM, 3);
    let place = built(&rows, 400);
    let index = live(&place.path);
    let call = [
        (RowId(400), rows.row(400)),
        (RowId(7), rows.row(401)),
        (RowId(402), &rows.row(402)[1..]),
        (RowId(403), rows.row(403)),
        (RowId(403), rows.row(404)),
        (RowId(u64::MAX), rows.row(405)),
        (RowId(406), rows.row(406)),
    ];
    let mut outcomes: Vec<Option<Result<(), UpdateError>>> = call.iter().map(|_| None).collect();
    index
        .insert_many(&call, LinkPace::Gentle, &mut |nth, outcome| {
            assert!(outcomes[nth].is_none(), "row {nth} is told of once");
            outcomes[nth] = Some(outcome.map(drop));
        })
        .unwrap();
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap()).collect();
    assert!(matches!(outcomes[0], Ok(())));
    assert!(matches!(outcomes[1], Err(UpdateError::RowExists(RowId(7)))));
    let wrong = UpdateError::Vector(QueryError::Dimension { expected: DIM, found: DIM - 1 });
    assert_eq!(format!("{:?}", outcomes[2]), format!("{:?}", Err::<(), _>(wrong)));
    // Of two with one id, one is linked; which of them is not said.
    let linked = outcomes[3..5].iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(linked, 1, "{outcomes:?}");
    assert!(matches!(outcomes[5], Err(UpdateError::Row { .. })));
    assert!(matches!(outcomes[6], Ok(())));
    assert_eq!(index.rows(), 403);
}

#[test]
fn rows_of_one_call_that_are_nearest_to_each_other_are_found() {
    let rows = Rows::clustered(2_000, DIM, 5);
    let place = built(&rows, 2_000);
    let index = live(&place.path);
    // Far from all others, and so near each other that nothing else is an answer.
    let copies: Vec<Vec<u8>> =
        (0..40u8).map(|i| [[255 - i % 4; DIM / 2], [0; DIM / 2]].concat()).collect();
    let call: Vec<_> =
        copies.iter().enumerate().map(|(i, v)| (RowId(5_000 + i as u64), &**v)).collect();
    index.insert_many(&call, LinkPace::Full, &mut |_, outcome| drop(outcome.unwrap())).unwrap();
    let wide = crate::search::SearchParams { k: 40, ..params(100) };
    let found = rows_of(&index.search(&copies[0], &wide, None).unwrap().hits);
    let copies_found = found.iter().filter(|&&row| row >= 5_000).count();
    assert_eq!(copies_found, 40, "{found:?}");
}

#[test]
fn linking_at_a_gentle_pace_is_not_seen_by_searches() {
    let rows = Rows::clustered(200, DIM, 6);
    let place = built(&rows, 200);
    let generation = live(&place.path).current();
    let session = Session::new(&generation);
    let searches_while_linking = |pace| {
        let _under_way = Collector::new(&session, pace, Vec::new()).begun();
        generation.index.view().searches
    };
    assert_eq!(searches_while_linking(LinkPace::Gentle), 0);
    assert_eq!(searches_while_linking(LinkPace::Full), 1);
}
