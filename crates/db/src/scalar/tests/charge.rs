//! What the accountant is asked for.

use pipeann_engine::memory::Pool;

use super::super::{Condition, KeyPredicate, Pressure, Sketch};
use super::*;

fn with_limit(dir: &Path, limit: Option<u64>) -> (Arc<Accountant>, ScalarIndexes) {
    let accountant = Accountant::new(limit);
    let options =
        ScalarOptions { buffer_bytes: 1 << 20, accountant: Arc::clone(&accountant), ..options() };
    let indexes = ScalarIndexes::open(dir, columns(), options).unwrap();
    indexes.load().unwrap();
    (accountant, indexes)
}

#[test]
fn a_row_takes_a_byte_for_each_scalar_and_sixteen_for_each_array() {
    let dir = tempfile::tempdir().unwrap();
    let (accountant, indexes) = with_limit(dir.path(), None);
    let rows = 30_000;
    let mut next = 0;
    while next < rows {
        indexes.apply(Seq(next + 1), &batch(next..next + 1000)).unwrap();
        next += 1000;
        flush(&indexes, &all(next), next);
    }
    let held = accountant.pool_bytes(Pool::Postings);
    assert_eq!(held, indexes.view().memory_bytes());
    let signatures = rows * (4 + 16);
    assert!((signatures..signatures + signatures / 2).contains(&held), "{held} for {rows} rows");
    indexes.release();
    let directories = accountant.pool_bytes(Pool::Postings);
    assert_eq!(directories, held - signatures);
    indexes.load().unwrap();
    assert_eq!(accountant.pool_bytes(Pool::Postings), held);
    drop(indexes);
    assert_eq!(accountant.held_bytes(), 0);
}

#[test]
fn without_room_for_signatures_every_row_may_match() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 256 << 10;
    let (accountant, indexes) = with_limit(dir.path(), Some(limit));
    indexes.apply(Seq(1), &batch(0..15_000)).unwrap();
    flush(&indexes, &all(15_000), 15_000);
    assert!(accountant.held_bytes() <= limit);
    let known = KeyPredicate::new(&columns()[ID], &Condition::Equal(Value::Int64(0))).unwrap();
    let view = indexes.view();
    let test = view.signature_test(&Sketch::Is(known.clone()));
    assert!(test.maybe(RowId(1)) && test.maybe(RowId(500)));
    let found = view.postings(&known, &all(15_000)).unwrap();
    assert_eq!((found.rows, found.exact), ([500].into_iter().collect(), true));
}

#[test]
fn a_full_buffer_is_refused_until_it_is_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, indexes) = with_limit(dir.path(), None);
    let (mut next, mut asked) = (0, false);
    let refused = loop {
        match indexes.apply(Seq(next + 1), &batch(next..next + 500)) {
            Ok(pressure) => asked |= pressure == Pressure::Flush,
            Err(error) => break error,
        }
        next += 500;
    };
    assert!(asked && matches!(refused, ScalarError::BufferFull { .. }), "{refused}");
    assert_eq!(indexes.view().rows(), next, "nothing of the batch was added");
    flush(&indexes, &all(next), next);
    indexes.apply(Seq(next + 1), &batch(next..next + 500)).unwrap();
}
