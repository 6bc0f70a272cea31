//! Unknown values, templates, and what binding makes of an expression before there is a row.

use std::ops::Bound;

use super::rows::{TestRow, bound, check, row};
use crate::expr::{Constant, Leaf, Predicate, Templates};

#[test]
fn unknown_goes_through_the_operators_as_kleene_says() {
    let row = row();
    let unknown = "j['missing'] == 1";
    let of = |text: &str| row.truth(&text.replace('U', unknown));
    for (expression, expected) in [
        ("U and true", None),
        ("U and a == 7", None),
        ("a == 7 and U", None),
        ("U and a == 8", Some(false)),
        ("a == 8 and U", Some(false)),
        ("U or a == 7", Some(true)),
        ("U or a == 8", None),
        ("not (U)", None),
        ("not (U or U)", None),
        ("U and not (U)", None),
    ] {
        assert_eq!(of(expression), expected, "{expression}");
    }
    let empty = TestRow::new(&[]);
    check(
        &empty,
        None,
        &[
            "a == 1",
            "a != 1",
            "a in [1]",
            "a not in [1]",
            "a in []",
            "a between 1 and 2",
            "s like '%'",
            "flag",
            "not flag",
            "a < b",
            "a + 1 == 2",
            "ints == [1]",
            "array_contains(ints, 1)",
            "array_contains_any(ints, [])",
            "array_length(ints) == 0",
            "j['k'] == 1",
            "ts > ISO '2025-01-01'",
        ],
    );
}

#[test]
fn templates_stand_for_values() {
    let row = row();
    let templates = Templates::from([
        ("n".to_owned(), Constant::Int(7)),
        ("list".to_owned(), Constant::List(vec![Constant::Int(7), Constant::Int(9)])),
        ("pattern".to_owned(), Constant::Text("blue%".into())),
        ("when".to_owned(), Constant::Instant(0)),
        ("half".to_owned(), Constant::Float(0.5)),
    ]);
    for expression in [
        "a == {n}",
        "a in {list}",
        "a in [1, {n}]",
        "s like {pattern}",
        "ts > {when}",
        "a * {half} == 3.5",
        "{n} + 1 > a",
        "array_contains_any(ints, {list}) or true",
        "not array_contains_any(ints, {list})",
    ] {
        assert_eq!(row.truth_with(expression, &templates), Some(true), "{expression}");
    }
}

#[test]
fn constants_are_folded() {
    for (expression, predicate) in [
        ("1 + 1 == 2", Predicate::Const(true)),
        ("a == 1 and 1 == 2", Predicate::Const(false)),
        ("a == 1 or 'a' < 'b'", Predicate::Const(true)),
        ("not (a == 1 or true)", Predicate::Const(false)),
        ("", Predicate::Const(true)),
    ] {
        assert_eq!(bound(expression).predicate, predicate, "{expression}");
    }
    assert_eq!(bound("a == 2 + 3 and 1 == 1"), bound("a == 5"));
    assert_eq!(bound("not (not (a == 5))"), bound("a == 5"));
    assert_eq!(bound("5 > a and (b == 1 and d == 2)"), bound("a < 5 and b == 1 and d == 2"));
    for range in ["1 < a < 5", "a between 1 and 5"] {
        let leaf = bound(range).predicate;
        assert!(matches!(leaf, Predicate::Leaf(Leaf::Range(..))), "{leaf:?}");
    }
}

#[test]
fn a_sample_stands_beside_the_condition() {
    assert_eq!(bound("random_sample(0.25)").sample, Some(0.25));
    let both = bound("a == 1 and b == 2 and random_sample(0.5)");
    assert_eq!((both.sample, &both.predicate), (Some(0.5), &bound("a == 1 and b == 2").predicate));
    assert_eq!(bound("a == 1").sample, None);
}

#[test]
fn values_that_a_field_must_have_are_known() {
    let a = |expression: &str| bound(expression).predicate.values_of(2);
    let ints = |values: &[i64]| Some(values.iter().map(|v| Constant::Int(*v)).collect::<Vec<_>>());
    assert_eq!(a("a == 1"), ints(&[1]));
    assert_eq!(a("b == 1 and (a == 1 or a in [2, 3])"), ints(&[1, 2, 3]));
    assert_eq!(a("a in [1, 2, 3] and a == 2"), ints(&[2]));
    assert_eq!(a("a == 1.0"), ints(&[1]));
    assert_eq!(a("a == 1 or b == 1"), None);
    assert_eq!(a("not (a == 1)"), None);
    assert_eq!(a("a > 1"), None);
    assert_eq!(a("a == 1 and 1 == 2"), ints(&[]));
}

#[test]
fn below_which_value_of_a_field_no_row_matches_is_known() {
    let is = |expression: &str, expected: Bound<Constant>| {
        let found = bound(expression);
        let found = found.predicate.lower_bound_of(2);
        assert_eq!(found, expected.as_ref(), "{expression}");
    };
    let (from, above) =
        (|v| Bound::Included(Constant::Int(v)), |v| Bound::Excluded(Constant::Int(v)));
    is("a >= 1", from(1));
    is("1 < a", above(1));
    is("1 < a <= 5", above(1));
    is("b > 7 and a > 1 and a >= 3", from(3));
    is("a >= 3 and a > 3", above(3));
    is("a > 3 and a >= 3 and (b == 1 or a > 9)", above(3));
    for nothing in ["a < 5", "not (a >= 1)", "a > 1 or b > 1", "b > 1", "a != 1"] {
        is(nothing, Bound::Unbounded);
    }
}
