//! What matches: every construct, and what becomes of values that are not there.

use super::rows::{TestRow, bound, ints, json, text, texts};
use crate::expr::{Constant, Leaf, Predicate, Templates};
use crate::value::Value;

fn row() -> TestRow {
    TestRow::new(&[
        ("id", Value::Int64(1)),
        ("a", Value::Int64(7)),
        ("b", Value::Int64(-3)),
        ("tiny", Value::Int8(5)),
        ("f", Value::Float(0.1)),
        ("d", Value::Double(2.5)),
        ("flag", Value::Bool(true)),
        ("s", text("blue cheese")),
        ("ts", Value::Timestamptz(86_400_000_000)),
        ("ints", ints(&[4, 5, 6])),
        ("texts", texts(&["x", "y"])),
        (
            "j",
            json(
                r#"{"n": 5, "x": 1.5, "t": "hi", "o": {"k": null}, "l": [1, "a", [2, 3], null], "z": true, "big": 18446744073709551615, "e": {}}"#,
            ),
        ),
        ("$meta", json(r#"{"color": "red", "size": 12, "tags": ["a", "b"]}"#)),
    ])
}

#[track_caller]
fn check(row: &TestRow, expected: Option<bool>, expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(row.truth(expression), expected, "{expression}");
        let negated = format!("not ({expression})");
        assert_eq!(row.truth(&negated), expected.map(|truth| !truth), "{negated}");
    }
}

#[test]
fn comparisons_of_fields() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "a == 7",
            "a = 7",
            "7 == a",
            "a != 8",
            "a <> 8",
            "a < 8",
            "a <= 7",
            "a > 6",
            "6 < a",
            "a >= 7",
            "6 < a < 8",
            "8 > a >= 7",
            "7 <= a <= 7",
            "a between 7 and 7",
            "a between 6 and 7.5",
            "a not between 8 and 9",
            "0 <= b + 3 and b + 3 <= 0",
            "a == 7.0",
            "a != 7.5",
            "a > 6.999",
            "tiny == 5",
            "tiny < 127",
            "d == 2.5",
            "d > 2",
            "d < 3",
            "flag",
            "flag == true",
            "flag != false",
            "true",
            "1 == 1",
            "1 < 1.5",
            "s == 'blue cheese'",
            "s > 'blue'",
            "s >= \"blue cheese\"",
            "'a' < s < 'c'",
            "a > b",
            "b < a",
            "a != b",
            "d < a",
            "f < d",
            "tiny > b",
            "s == s",
            "flag == flag",
            "a in [1, 7]",
            "a in [7.0]",
            "a not in [1, 2]",
            "a not in []",
            "s in ['blue cheese']",
            "7 in [1, 7]",
            "d in [2, 2.5]",
            "flag in [true]",
        ],
    );
    check(
        &row,
        Some(false),
        &[
            "a == 8",
            "a < 7",
            "7 < a < 9",
            "a between 8 and 6",
            "a == 7.5",
            "a in []",
            "s in ['blue']",
            "s == 'Blue cheese'",
            "a == b",
            "flag == false",
            "false",
            "2 in [1]",
            "a > 1e300",
        ],
    );
}

#[test]
fn single_precision_is_compared_as_it_is_stored() {
    let row = row();
    check(
        &row,
        Some(true),
        &["f == 0.1", "f in [0.1]", "f <= 0.1", "f >= 0.1", "f between 0.1 and 0.1", "f < 1e300"],
    );
    check(&row, Some(false), &["f != 0.1", "f < 0.1", "f > 0.1", "f > 1e300"]);
    // A value of double precision is another number.
    check(&row, Some(false), &["f == d - 2.4"]);
}

#[test]
fn integers_and_fractions_are_compared_without_loss() {
    let large = 9_007_199_254_740_993;
    let row =
        TestRow::new(&[("a", Value::Int64(large)), ("d", Value::Double(9_007_199_254_740_992.0))]);
    check(&row, Some(true), &["a > 9007199254740992.0", "a > d", "a != d", "d < 9007199254740993"]);
    check(
        &row,
        Some(false),
        &["a == 9007199254740992.0", "a in [9007199254740992.0]", "d in [9007199254740993]"],
    );
}

#[test]
fn arithmetic() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "a + 1 == 8",
            "1 + a == 8",
            "a - b == 10",
            "a * 2 == 14",
            "a / 2 == 3",
            "b / 2 == -1",
            "a % 4 == 3",
            "b % 2 == -1",
            "-a == -7",
            "- a < 0",
            "+a == 7",
            "2 ** 3 + a == 15",
            "2 ** -1 == 0.5",
            "d * 2 == 5",
            "a / 2.0 == 3.5",
            "a + d == 9.5",
            "array_length(ints) == 3",
            "array_length(ints) + 1 > 3",
            "j['n'] + 1 == 6",
            "j['x'] * 2 == 3.0",
            "size % 5 == 2",
            "1 + 2 == 3",
            "(-1) ** 100001 == -1",
            "7 / 2 == 3",
            "-7 / 2 == -3",
            "a + b > tiny - 2",
        ],
    );
    // A result that there is not is unknown.
    check(
        &row,
        None,
        &[
            "a / (b + 3) == 1",
            "a % (b + 3) == 1",
            "d / (d - 2.5) > 0",
            "j['t'] + 1 == 2",
            "j['x'] % 2 == 1",
            "j['missing'] + 1 == 2",
            "j['z'] * 2 == 2",
        ],
    );
    let largest = TestRow::new(&[("a", Value::Int64(i64::MAX)), ("b", Value::Int64(i64::MIN))]);
    check(&largest, None, &["a + 1 > 0", "a * 2 > 0", "b - 1 < 0", "-b > 0", "b / -1 > 0"]);
    check(&largest, Some(true), &["a - 1 < 9223372036854775807", "b % -1 == 0", "a + b == -1"]);
}

#[test]
fn texts_are_matched_by_pattern() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "s like 'blue%'",
            "s like '%cheese'",
            "s like '%e c%'",
            "s like 'bl__ %'",
            "s like 'blue cheese'",
            "s like '%'",
            "j['t'] like 'h_'",
            "color like 're%'",
            "texts[0] like 'x'",
            "'abc' like 'a%'",
            "starts_with(s, 'blue')",
            "not empty(s)",
        ],
    );
    check(
        &row,
        Some(false),
        &["s like 'blue'", "s like 'Blue%'", "j['n'] like '5'", "starts_with(s, 'b%')", "empty(s)"],
    );
    let percent = TestRow::new(&[("s", text("100% a\\b"))]);
    check(
        &percent,
        Some(true),
        &[r"s like '100\%%'", r"s like '100\\%%'", r"s like '%a\\\\b'", r"starts_with(s, '100%')"],
    );
    check(&percent, Some(false), &[r"s like '1000\\%'", r"s like '%a\\%b'"]);
}

#[test]
fn json_is_typed_by_its_values() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "j['n'] == 5",
            "j['n'] == 5.0",
            "j['x'] > 1",
            "j['t'] == 'hi'",
            "j['z'] == true",
            "j['n'] in [1, 5, 'x']",
            "j['t'] in ['hi', 3]",
            "j['l'][0] == 1",
            "j['l'][2][1] == 3",
            "j['l'][2] == [2, 3]",
            "j['l'][2] in [[2, 3], 4]",
            "4 < j['n'] < 6",
            "color == 'red'",
            "$meta['size'] == 12",
            "size >= 12",
            "tags[0] == 'a'",
            "j['big'] == 18446744073709551615.0 or j['big'] > 1",
            // Another type is different, and in no order.
            "j['t'] != 5",
            "j['n'] != '5'",
            "j['n'] not in ['5']",
            "not (j['t'] > 5)",
            "not (j['t'] <= 5)",
            "j['o'] != 1",
            "j['l'] != [1]",
        ],
    );
    check(
        &row,
        Some(false),
        &["j['t'] == 5", "j['n'] == '5'", "j['z'] == 1", "j['n'] > 'a'", "j == 1"],
    );
    // Neither a missing value nor null is known to be anything.
    check(
        &row,
        None,
        &[
            "j['missing'] == 1",
            "j['missing'] != 1",
            "j['o']['k'] == 1",
            "j['o']['k'] in [1]",
            "j['l'][9] == 1",
            "j['l'][3] != 1",
            "j['n']['deeper'] == 1",
            "j['l']['0'] == 1",
            "j['missing'] like '%'",
            "missing == 1",
            "missing not in [1]",
            "4 < j['missing'] < 6",
            "json_contains(j['missing'], 1)",
            "array_length(j['missing']) == 0",
        ],
    );
}

#[test]
fn existence_is_always_known() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "exists j['n']",
            "exists j['o']",
            "exists j['e']",
            "exists color",
            "exists $meta['color']",
            "exists j",
            "j['missing'] is null",
            "j['o']['k'] is null",
            "not exists j['o']['k']",
            "not exists missing",
            "missing is null",
            "a is not null",
            "ints[3] is null",
            "ints[2] is not null",
        ],
    );
    let empty = TestRow::new(&[]);
    check(
        &empty,
        Some(true),
        &[
            "a is null",
            "s is null",
            "ints is null",
            "ints[0] is null",
            "j is null",
            "not exists j['n']",
            "flag is null",
        ],
    );
}

#[test]
fn arrays_and_their_elements() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "array_contains(ints, 5)",
            "array_contains_all(ints, [4, 6])",
            "array_contains_any(ints, [1, 6])",
            "array_contains(texts, 'x')",
            "ints[0] == 4",
            "ints[2] in [6]",
            "ints == [4, 5, 6]",
            "ints != [4, 5]",
            "array_length(texts) == 2",
            "array_length(j['l']) == 4",
            "json_contains(j['l'], 'a')",
            "json_contains(j['l'], [2, 3])",
            "json_contains_all(j['l'], [1, 'a'])",
            "json_contains_any(j['l'], ['b', 1.0])",
            "JSON_CONTAINS(tags, 'b')",
            "array_contains(tags, 'a')",
            "array_contains_all(ints, [])",
            "json_contains(ints, 4)",
            "array_contains(ints, 4.0)",
        ],
    );
    check(
        &row,
        Some(false),
        &[
            "array_contains(ints, 7)",
            "array_contains_all(ints, [4, 7])",
            "array_contains_any(ints, [])",
            "ints == [4, 5]",
            "json_contains(j['n'], 5)",
            "json_contains_all(j['o'], [])",
            "array_contains_any(tags, ['c'])",
            "json_contains(j['l'], 2)",
        ],
    );
    check(&row, None, &["ints[3] == 4", "array_length(j['n']) == 1"]);
}

#[test]
fn instants() {
    let row = row();
    check(
        &row,
        Some(true),
        &[
            "ts == ISO '1970-01-02T00:00:00Z'",
            "ts > iso '1970-01-01'",
            "ISO '1970-01-01' < ts",
            "ts + INTERVAL 'P1D' == ISO '1970-01-03T00:00:00Z'",
            "INTERVAL 'P1D' + ts > ts",
            "ts - INTERVAL 'PT24H' == ISO '1970-01-01T00:00:00Z'",
            "ts in [ISO '1970-01-02T00:00:00Z']",
            "ISO '1970-01-01' <= ts < ISO '1970-01-03'",
            "ISO '2024-01-31' + INTERVAL 'P1M' == ISO '2024-02-29'",
        ],
    );
    check(&row, None, &["ts + INTERVAL 'P9999Y' > ts"]);
}

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
