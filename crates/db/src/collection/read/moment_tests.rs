//! What happens between what a reader looks at first and its moment.

use std::cell::RefCell;
use std::sync::Arc;

use crate::collection::SearchRequest;
use crate::collection::fixture::{Fixture, batch, options, query, vector};
use crate::schema::PrimaryKey;

thread_local! {
    static BETWEEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Does what the test on this thread has put there, once.
pub(super) fn between() {
    if let Some(work) = BETWEEN.take() {
        work();
    }
}

#[test]
fn a_row_that_is_replaced_while_its_graph_is_exchanged_is_found() {
    let fixture = Fixture::new(options());
    fixture.build(0..400);
    let before = fixture.graph();
    let c = Arc::clone(&fixture.collection);
    BETWEEN.set(Some(Box::new(move || {
        c.build_index("graph").unwrap();
        c.wait_for_index("graph").unwrap();
        c.upsert(batch(7..8), None).unwrap();
    })));
    let near = vector(7);
    let search = SearchRequest::new("v", query(&near), 3);
    let hits = fixture.collection.search(&search).unwrap().hits.remove(0);
    assert!(!Arc::ptr_eq(&before, &fixture.graph()), "the search began with another graph");
    let same = hits.iter().filter(|hit| hit.distance == 0.0);
    let found: Vec<_> = same.map(|hit| &hit.row.key).collect();
    assert_eq!(found, [&PrimaryKey::Int64(7)]);
}
