//! What an opening finds after flushes that were interrupted, and across changes of the schema.

use super::super::{Condition, KeyPredicate, Sketch};
use super::*;

#[test]
fn a_run_that_no_list_names_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let indexes = open(dir.path()).unwrap();
    indexes.apply(Seq(1), &batch(0..10)).unwrap();
    flush(&indexes, &all(10), 10);
    drop(indexes);
    std::fs::write(dir.path().join("run-000009"), b"torn").unwrap();
    std::fs::write(dir.path().join("SCALARS.new"), b"torn").unwrap();
    let indexes = open(dir.path()).unwrap();
    assert_eq!(names(dir.path()), ["SCALARS", "SCALARS.new", "run-000001"]);
    assert_eq!((indexes.applied(), indexes.view().rows()), (Seq(1), 10));
}

#[test]
fn indexes_of_another_collection_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let other = ScalarOptions { collection: *b"another identity", ..options() };
    let error = ScalarIndexes::open(dir.path(), columns(), other).err().unwrap();
    assert!(matches!(error, ScalarError::Foreign { .. }) && error.is_damage(), "{error}");
}

#[test]
fn what_was_being_made_anew_when_the_process_ended_is_made_anew_again() {
    let dir = tempfile::tempdir().unwrap();
    let indexes = open(dir.path()).unwrap();
    indexes.add_stored(&batch(0..10)).unwrap();
    flush(&indexes, &all(10), 10);
    assert!(open(dir.path()).err().unwrap().is_damage(), "half of the rows are there");
    indexes.add_stored(&batch(10..20)).unwrap();
    indexes.made(Seq(7));
    flush(&indexes, &all(20), 20);
    drop(indexes);
    let indexes = open(dir.path()).unwrap();
    assert_eq!((indexes.applied(), indexes.view().rows()), (Seq(7), 20));
}

#[test]
fn rows_that_are_older_than_a_field_have_its_default() {
    let dir = tempfile::tempdir().unwrap();
    let old: Arc<[_]> = columns()[..2].into();
    let indexes = ScalarIndexes::open(dir.path(), Arc::clone(&old), options()).unwrap();
    indexes.load().unwrap();
    let mut batch = ScalarBatch::new(Arc::clone(&old));
    for number in 0..5000 {
        batch.push(RowId(number), row(number)[..2].iter().map(Value::as_ref));
    }
    indexes.apply(Seq(1), &batch).unwrap();
    flush(&indexes, &all(5000), 5000);
    let mut added = columns()[NAME].clone();
    added.absent = Value::VarChar("unnamed".into());
    let new: Arc<[_]> = [&old[..], &[added.clone()]].concat().into();
    let mut batch = ScalarBatch::new(new);
    for number in 5000..9000 {
        batch.push(RowId(number), row(number)[..3].iter().map(Value::as_ref));
    }
    indexes.apply(Seq(2), &batch).unwrap();
    let live = all(9000);
    let unnamed = Condition::Equal(Value::VarChar("unnamed".into()));
    let unnamed = KeyPredicate::new(&added, &unnamed).unwrap();
    let look = || {
        let view = indexes.view();
        let found = view.postings(&unnamed, &live).unwrap();
        assert_eq!((found.rows, found.exact), (all(5000), true));
        assert_eq!(view.estimate(&unnamed, &live).unwrap().guess, 5000);
        let test = view.signature_test(&Sketch::Is(unnamed.clone()));
        assert!(test.maybe(RowId(4999)) && !test.maybe(RowId(5000)));
    };
    look();
    indexes.compact(Judged { live: &live, next_row: RowId(9000) }).unwrap();
    assert_eq!(indexes.view().runs(), 1);
    look();
}

#[test]
fn ids_beyond_32_bits_stand_in_runs_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let indexes = open(dir.path()).unwrap();
    let edge = 1_u64 << 32;
    indexes.apply(Seq(1), &batch(edge - 3000..edge + 3000)).unwrap();
    let live: RoaringTreemap = (edge - 3000..edge + 3000).filter(|row| row % 3 > 0).collect();
    indexes.flush(Judged { live: &live, next_row: RowId(edge + 3000) }).unwrap();
    assert_eq!((indexes.view().runs(), indexes.view().rows()), (2, live.len()));
    let known = Condition::Equal(Value::Int64(i64::try_from(edge).unwrap() - 498));
    let known = KeyPredicate::new(&columns()[ID], &known).unwrap();
    let found = indexes.view().postings(&known, &live).unwrap();
    assert_eq!(found.rows, [edge + 2].into_iter().filter(|row| live.contains(*row)).collect());
    let test = indexes.view().signature_test(&Sketch::Is(known));
    assert!(test.maybe(RowId(edge + 2)) && !test.maybe(RowId(edge - 2999)));
}
