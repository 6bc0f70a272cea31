//! The indexes against rows in a list, under random inserts, deletes, flushes, merges and
//! reopening.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::super::{Condition, KeyPredicate, Sketch, Verdict};
use super::*;
use crate::value::ValueRef;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    /// Every so many rows from one on go.
    Delete(u64, u64),
    Flush,
    Compact,
    Reopen,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop_oneof![1_u64..40, 1000_u64..5000].prop_map(Step::Insert),
        3 => (0_u64..50, 1_u64..9).prop_map(|(from, step)| Step::Delete(from, step)),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
        1 => Just(Step::Release),
    ];
    proptest::collection::vec(step, 1..14)
}

fn conditions() -> Vec<(usize, Condition)> {
    use Bound::{Excluded, Included, Unbounded};
    use Value::{Bool, Double, Float, Int32, Int64, VarChar};
    let text = |text: &str| VarChar(text.to_owned());
    let long = "long".repeat(16);
    vec![
        (ID, Condition::Equal(Int64(-500))),
        (ID, Condition::Equal(Int32(77))),
        (ID, Condition::OneOf((0..600).map(|i| Int64(i * 7)).collect())),
        (ID, Condition::Within(Included(Int64(-480)), Excluded(Int64(900)))),
        (ID, Condition::Within(Excluded(Int64(5000)), Unbounded)),
        (ID, Condition::Within(Included(Int64(9)), Excluded(Int64(9)))),
        (PRICE, Condition::Within(Unbounded, Included(Float(0.0)))),
        (PRICE, Condition::Within(Excluded(Double(-0.3)), Excluded(Float(77.25)))),
        (PRICE, Condition::Equal(Double(-0.0))),
        (PRICE, Condition::IsNull),
        (NAME, Condition::Equal(text("common"))),
        (NAME, Condition::Equal(text("absent"))),
        (NAME, Condition::Equal(text(&format!("{long}1")))),
        (NAME, Condition::Within(Unbounded, Excluded(text(&format!("{long}1"))))),
        (NAME, Condition::Within(Excluded(text(&long)), Included(text("name-5")))),
        (NAME, Condition::StartsWith("name-1".into())),
        (NAME, Condition::StartsWith(format!("{long}2"))),
        (NAME, Condition::StartsWith(String::new())),
        (NAME, Condition::IsNull),
        (TAGS, Condition::Contains(Int32(1))),
        (TAGS, Condition::Contains(Int32(500))),
        (TAGS, Condition::Contains(Int32(5000))),
        (TAGS, Condition::ContainsAll(vec![Int32(1), Int32(2)])),
        (TAGS, Condition::ContainsAll(vec![Int32(0), Int64(300)])),
        (TAGS, Condition::ContainsAll(vec![Int32(2), Int32(1), Int32(2)])),
        (TAGS, Condition::ContainsAll((0..12).map(Int32).collect())),
        (TAGS, Condition::ContainsAll(vec![])),
        (TAGS, Condition::ContainsAny(vec![Int32(7), Int32(2), Int32(4444)])),
        (TAGS, Condition::ContainsAny((300..320).rev().chain([305]).map(Int32).collect())),
        (TAGS, Condition::ContainsAny(vec![])),
        (TAGS, Condition::IsNull),
        (FLAG, Condition::Equal(Bool(true))),
        (FLAG, Condition::IsNull),
    ]
}

/// What the condition says of a value, without any key: `None` where it is unknown.
pub(super) fn says(condition: &Condition, value: &Value) -> Option<bool> {
    use std::cmp::Ordering;
    fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        let number = |v: ValueRef<'_>| match v {
            ValueRef::Float(v) => Some(f64::from(v)),
            ValueRef::Double(v) => Some(v),
            _ => None,
        };
        match (a, b) {
            (ValueRef::VarChar(a), ValueRef::VarChar(b)) => a.cmp(b),
            (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
            _ => match (a.integer(), b.integer()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => number(a).partial_cmp(&number(b)).unwrap(),
            },
        }
    }
    let is = |wanted: &Value| compare(value.as_ref(), wanted.as_ref()).is_eq();
    let has = |wanted: &Value| match value {
        Value::Array(array) => array.as_ref().iter().any(|v| compare(v, wanted.as_ref()).is_eq()),
        other => panic!("{other:?} is no array"),
    };
    if let Condition::IsNull = condition {
        return Some(*value == Value::Null);
    }
    if *value == Value::Null {
        return None;
    }
    Some(match condition {
        Condition::IsNull => unreachable!("see above"),
        Condition::Equal(wanted) => is(wanted),
        Condition::OneOf(wanted) => wanted.iter().any(is),
        Condition::Within(from, to) => {
            let order = |bound: &Value| compare(value.as_ref(), bound.as_ref());
            (match from {
                Bound::Unbounded => true,
                Bound::Included(from) => order(from).is_ge(),
                Bound::Excluded(from) => order(from).is_gt(),
            }) && match to {
                Bound::Unbounded => true,
                Bound::Included(to) => order(to).is_le(),
                Bound::Excluded(to) => order(to).is_lt(),
            }
        }
        Condition::StartsWith(prefix) => match value {
            Value::VarChar(text) => text.starts_with(prefix),
            other => panic!("{other:?} is no text"),
        },
        Condition::Contains(wanted) => has(wanted),
        Condition::ContainsAll(wanted) => wanted.iter().all(has),
        Condition::ContainsAny(wanted) => wanted.iter().any(has),
    })
}

/// Compares everything that the indexes say with the rows.
fn compare(indexes: &ScalarIndexes, rows: &BTreeMap<u64, Row>) {
    let live: RoaringTreemap = rows.keys().copied().collect();
    let view = indexes.view();
    let columns = columns();
    for (column, condition) in conditions() {
        let predicate = KeyPredicate::new(&columns[column], &condition).unwrap();
        let matching: RoaringTreemap = rows
            .iter()
            .filter(|(_, row)| says(&condition, &row[column]) == Some(true))
            .map(|(row, _)| *row)
            .collect();
        let found = view.postings(&predicate, &live).unwrap();
        if found.exact {
            assert_eq!(found.rows, matching, "{condition:?}");
        } else {
            assert!(matching.is_subset(&found.rows), "{condition:?}");
        }
        let estimate = view.estimate(&predicate, &live).unwrap();
        let count = matching.len();
        assert!(
            estimate.least <= count && count <= estimate.most,
            "{count} match {condition:?}: {estimate:?}"
        );
        assert!((estimate.least..=estimate.most).contains(&estimate.guess), "{estimate:?}");
    }
    for (sketch, says) in sketches() {
        let test = view.signature_test(&sketch);
        for (number, row) in rows {
            match (test.verdict(RowId(*number)), says(row)) {
                (Verdict::No, Some(true)) => panic!("row {number} matches {sketch:?}"),
                (Verdict::Yes, Some(false) | None) => panic!("row {number} is no {sketch:?}"),
                _ => {}
            }
        }
    }
}

type Says = Box<dyn Fn(&Row) -> Option<bool>>;

/// Every condition, its opposite, and combinations of neighbours.
fn sketches() -> Vec<(Sketch, Says)> {
    let columns = columns();
    let leaf = |column: usize, condition: Condition| -> (Sketch, Says) {
        let predicate = KeyPredicate::new(&columns[column], &condition).unwrap();
        (Sketch::Is(predicate), Box::new(move |row| says(&condition, &row[column])))
    };
    let mut out = Vec::new();
    let conditions = conditions();
    for (at, (column, condition)) in conditions.iter().enumerate() {
        out.push(leaf(*column, condition.clone()));
        let (sketch, says) = leaf(*column, condition.clone());
        out.push((Sketch::Not(Box::new(sketch)), Box::new(move |row| says(row).map(|is| !is))));
        let (other, next) = conditions[(at + 7) % conditions.len()].clone();
        let ((a, says_a), (b, says_b)) =
            (leaf(*column, condition.clone()), leaf(other, next.clone()));
        let both = Sketch::And(vec![a, b]);
        let and = move |row: &Row| match (says_a(row), says_b(row)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        out.push((Sketch::Not(Box::new(both)), Box::new(move |row| and(row).map(|is| !is))));
        let ((a, says_a), (b, says_b)) = (leaf(*column, condition.clone()), leaf(other, next));
        let or = move |row: &Row| match (says_a(row), says_b(row)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        out.push((Sketch::Or(vec![a, b]), Box::new(or)));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn the_indexes_say_what_the_rows_say(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut indexes = open(dir.path()).unwrap();
        let (mut rows, mut next, mut seq) = (BTreeMap::new(), 0_u64, 0);
        // What is lost with the process, in the order of the log.
        let mut logged = Vec::new();
        for step in steps.iter().chain([&Step::Flush, &Step::Reopen]) {
            let live: RoaringTreemap = rows.keys().copied().collect();
            let judged = Judged { live: &live, next_row: RowId(next) };
            match *step {
                Step::Insert(count) => {
                    seq += 1;
                    indexes.apply(Seq(seq), &batch(next..next + count)).unwrap();
                    logged.push((seq, next..next + count));
                    rows.extend((next..next + count).map(|number| (number, row(number))));
                    // Ids may be skipped.
                    next += count + count % 3;
                }
                Step::Delete(from, step) => rows.retain(|number, _| number % (step + 1) != from % (step + 1)),
                Step::Flush => prop_assert_eq!(indexes.flush(judged).unwrap(), Seq(seq)),
                Step::Compact => {
                    indexes.compact(judged).unwrap();
                    prop_assert!(indexes.view().runs() <= 1);
                    prop_assert_eq!(indexes.view().rows(), live.len());
                }
                Step::Reopen => {
                    let durable = indexes.durable();
                    drop(indexes);
                    indexes = open(dir.path()).unwrap();
                    prop_assert_eq!(indexes.applied(), durable);
                    for (seq, rows) in &logged {
                        indexes.apply(Seq(*seq), &batch(rows.clone())).unwrap();
                    }
                }
                Step::Release => indexes.release(),
            }
            compare(&indexes, &rows);
        }
    }
}

#[test]
fn what_an_index_cannot_answer_is_left_to_the_caller() {
    let columns = columns();
    let none = |column: usize, condition| KeyPredicate::new(&columns[column], &condition).is_none();
    assert!(none(ID, Condition::Equal(Value::Double(1.0))));
    assert!(none(ID, Condition::Contains(Value::Int64(1))));
    assert!(none(ID, Condition::StartsWith("1".into())));
    assert!(none(PRICE, Condition::Equal(Value::Int64(1))));
    assert!(none(PRICE, Condition::Equal(Value::Double(f64::NAN))));
    assert!(none(TAGS, Condition::Equal(Value::Int32(1))));
    assert!(none(NAME, Condition::Equal(Value::Null)));
}
