//! What matches: comparisons, calculations, patterns, instants.

use super::rows::{TestRow, check, row, text};
use crate::expr::{Constant, Templates};
use crate::value::Value;

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
            "5 between b and a",
            "not (5 between a and b)",
            "5 not between a and b",
            "7 between a and a",
            "0 <= b + 3 and b + 3 <= 0",
            "a == 7.0",
            "a != 7.5",
            "a > 6.999",
            "tiny == 5",
            "tiny < 127",
            "tiny < 128",
            "tiny > -129",
            "tiny != 300",
            "tiny in [300, 5]",
            "tiny not in [300, 301]",
            "not (tiny == 261)",
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
    // So is what no double is, and not what is beyond them.
    check(
        &row,
        None,
        &["d * 1e300 * 1e300 - d * 1e300 * 1e300 != 0", "(d - d) * (d * 1e300 * 1e300) != 0"],
    );
    check(&row, Some(true), &["d * 1e300 * 1e300 > a", "d * 1e300 * 1e300 != 0"]);
    let infinite = Templates::from([("inf".to_owned(), Constant::Float(f64::INFINITY))]);
    assert_eq!(row.truth_with("(a - 7) * {inf} != 5", &infinite), None);
    let largest = TestRow::new(&[("a", Value::Int64(i64::MAX)), ("b", Value::Int64(i64::MIN))]);
    // No result is wrapped or lost on the way.
    check(
        &largest,
        Some(true),
        &["a + 1 > 0", "a * 2 > 1", "b - 1 < 0", "-b > 0", "b / -1 > 0", "(a + a) / 2 == a"],
    );
    check(&largest, None, &["a * a * a > 0"]);
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
        &["s like 'blue'", "s like 'Blue%'", "starts_with(s, 'b%')", "empty(s)"],
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
