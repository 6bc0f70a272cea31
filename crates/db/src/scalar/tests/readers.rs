//! Views and signature tests while rows come, flushes run and signatures are dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::super::{Condition, KeyPredicate, Sketch};
use super::*;

#[test]
fn readers_find_every_row_that_was_there_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let indexes = open(dir.path()).unwrap();
    let (there, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let tagged =
        KeyPredicate::new(&columns()[TAGS], &Condition::Contains(Value::Int32(1))).unwrap();
    let cheap =
        Condition::Within(std::ops::Bound::Unbounded, std::ops::Bound::Excluded(Value::Float(3.0)));
    let cheap = KeyPredicate::new(&columns()[PRICE], &cheap).unwrap();
    let both = Sketch::And(vec![Sketch::Is(tagged.clone()), Sketch::Is(cheap)]);
    let matches = |row: &Row| {
        let tagged = match &row[TAGS] {
            Value::Array(tags) => tags.as_ref().iter().any(|tag| tag.integer() == Some(1)),
            _ => false,
        };
        let cheap = matches!(row[PRICE], Value::Float(price) if price < 3.0);
        (tagged, tagged && cheap)
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let next = there.load(Ordering::Acquire);
                    let view = indexes.view();
                    let (test, live) = (view.signature_test(&both), all(next));
                    let found = view.postings(&tagged, &live).unwrap();
                    for number in (0..next).step_by(97) {
                        let (tagged, both) = matches(&row(number));
                        assert!(!both || test.maybe(RowId(number)), "row {number} of {next}");
                        assert_eq!(found.rows.contains(number), tagged, "row {number} of {next}");
                    }
                }
            });
        }
        for step in 0..60 {
            let next = there.load(Ordering::Relaxed);
            let count = 1 + step * 37 % 900;
            indexes.apply(Seq(step + 1), &batch(next..next + count)).unwrap();
            there.store(next + count, Ordering::Release);
            match step % 9 {
                2 | 5 => drop(flush(&indexes, &all(next + count), next + count)),
                6 => indexes.release(),
                8 => indexes.load().unwrap(),
                _ => {}
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(indexes.view().rows() > 10_000);
}
