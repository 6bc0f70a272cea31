//! Random expressions over random rows, against a model that was written apart: it evaluates the
//! description of an expression, from which the text is made, over plain options.

use proptest::prelude::*;

use super::rows::{TestRow, json, text};
use crate::value::Value;

/// A row of the model.
#[derive(Clone, Debug)]
struct Row {
    a: Option<i64>,
    b: Option<i64>,
    d: Option<f64>,
    s: Option<String>,
    flag: Option<bool>,
    /// The dynamic key `k`: an integer, a text, or nothing.
    k: Option<Result<i64, String>>,
}

#[derive(Clone, Debug)]
enum Value3 {
    A,
    B,
    D,
    Int(i64),
    Sum(Box<Value3>, Box<Value3>),
    Product(Box<Value3>, Box<Value3>),
    Quotient(Box<Value3>, i64),
}

#[derive(Clone, Debug)]
enum Test {
    Flag,
    Compare(Value3, &'static str, Value3),
    Key(&'static str, i64),
    KeyText(String),
    AmongA(Vec<i64>),
    Between(i64, i64),
    Text(&'static str, String),
    Prefix(String),
    NullA,
    KeyExists,
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

/// Small numbers as doubles are exact, so the model needs no other kind of number. `None` where
/// the value is not there; whether it is an integer decides how it is divided.
fn number(value: &Value3, row: &Row) -> Option<(f64, bool)> {
    let whole = |n: i64| (n as f64, true);
    match value {
        Value3::A => row.a.map(whole),
        Value3::B => row.b.map(whole),
        Value3::D => row.d.map(|d| (d, false)),
        Value3::Int(n) => Some(whole(*n)),
        Value3::Sum(x, y) => {
            let ((x, wx), (y, wy)) = number(x, row).zip(number(y, row))?;
            Some((x + y, wx && wy))
        }
        Value3::Product(x, y) => {
            let ((x, wx), (y, wy)) = number(x, row).zip(number(y, row))?;
            Some((x * y, wx && wy))
        }
        Value3::Quotient(x, by) => {
            let (x, whole) = number(x, row)?;
            let exact = x / *by as f64;
            Some((if whole { exact.trunc() } else { exact }, whole))
        }
    }
}

fn compared<T: PartialOrd>(x: T, sign: &str, y: T) -> bool {
    match sign {
        "==" => x == y,
        "!=" => x != y,
        "<" => x < y,
        "<=" => x <= y,
        ">" => x > y,
        ">=" => x >= y,
        other => unreachable!("{other}"),
    }
}

fn expected(test: &Test, row: &Row) -> Option<bool> {
    match test {
        Test::Flag => row.flag,
        Test::Compare(x, sign, y) => {
            let ((x, _), (y, _)) = number(x, row).zip(number(y, row))?;
            Some(compared(x, sign, y))
        }
        Test::Key(sign, n) => match row.k.as_ref()? {
            Ok(k) => Some(compared(*k, sign, *n)),
            // Another type cannot be compared.
            Err(_) => None,
        },
        Test::KeyText(wanted) => Some(row.k.as_ref()?.as_ref().err()? == wanted),
        Test::AmongA(list) => Some(list.contains(&row.a?)),
        Test::Between(low, high) => Some((*low..=*high).contains(&row.a?)),
        Test::Text(sign, wanted) => Some(compared(row.s.as_ref()?, sign, wanted)),
        Test::Prefix(prefix) => Some(row.s.as_ref()?.starts_with(prefix)),
        Test::NullA => Some(row.a.is_none()),
        Test::KeyExists => Some(row.k.is_some()),
        Test::Not(inner) => expected(inner, row).map(|truth| !truth),
        Test::And(all) => {
            let truths: Vec<_> = all.iter().map(|test| expected(test, row)).collect();
            if truths.contains(&Some(false)) {
                return Some(false);
            }
            truths.iter().all(Option::is_some).then_some(true)
        }
        Test::Or(all) => {
            let truths: Vec<_> = all.iter().map(|test| expected(test, row)).collect();
            if truths.contains(&Some(true)) {
                return Some(true);
            }
            truths.iter().all(Option::is_some).then_some(false)
        }
    }
}

fn value_text(value: &Value3) -> String {
    match value {
        Value3::A => "a".into(),
        Value3::B => "b".into(),
        Value3::D => "d".into(),
        Value3::Int(n) => n.to_string(),
        Value3::Sum(x, y) => format!("({} + {})", value_text(x), value_text(y)),
        Value3::Product(x, y) => format!("({} * {})", value_text(x), value_text(y)),
        Value3::Quotient(x, by) => format!("({} / {by})", value_text(x)),
    }
}

fn test_text(test: &Test) -> String {
    let joined = |all: &[Test], word: &str| {
        all.iter().map(|test| format!("({})", test_text(test))).collect::<Vec<_>>().join(word)
    };
    match test {
        Test::Flag => "flag".into(),
        Test::Compare(x, sign, y) => format!("{} {sign} {}", value_text(x), value_text(y)),
        Test::Key(sign, n) => format!("k {sign} {n}"),
        Test::KeyText(wanted) => format!("$meta['k'] == '{wanted}'"),
        Test::AmongA(list) => format!("a in {list:?}"),
        Test::Between(low, high) => format!("a between {low} and {high}"),
        Test::Text(sign, wanted) => format!("s {sign} \"{wanted}\""),
        Test::Prefix(prefix) => format!("s like '{prefix}%'"),
        Test::NullA => "a is null".into(),
        Test::KeyExists => "exists k".into(),
        Test::Not(inner) => format!("not ({})", test_text(inner)),
        Test::And(all) => joined(all, " and "),
        Test::Or(all) => joined(all, " || "),
    }
}

fn signs() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="])
}

fn values() -> impl Strategy<Value = Value3> {
    let leaf = prop_oneof![
        Just(Value3::A),
        Just(Value3::B),
        Just(Value3::D),
        (-4i64..5).prop_map(Value3::Int),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let two = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        let by = prop::sample::select(vec![-4i64, -2, 1, 2, 4]);
        prop_oneof![
            two.clone().prop_map(|(x, y)| Value3::Sum(x, y)),
            two.prop_map(|(x, y)| Value3::Product(x, y)),
            (inner.prop_map(Box::new), by).prop_map(|(x, by)| Value3::Quotient(x, by)),
        ]
    })
}

fn tests() -> impl Strategy<Value = Test> {
    let small = -4i64..5;
    let leaf = prop_oneof![
        Just(Test::Flag),
        Just(Test::NullA),
        Just(Test::KeyExists),
        (values(), signs(), values()).prop_map(|(x, sign, y)| Test::Compare(x, sign, y)),
        (signs(), small.clone()).prop_map(|(sign, n)| Test::Key(sign, n)),
        "[ab]{0,2}".prop_map(Test::KeyText),
        prop::collection::vec(small.clone(), 0..4).prop_map(Test::AmongA),
        (small.clone(), small).prop_map(|(low, high)| Test::Between(low, high)),
        (signs(), "[ab]{0,2}").prop_map(|(sign, wanted)| Test::Text(sign, wanted)),
        "[ab]{0,2}".prop_map(Test::Prefix),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(|test| Test::Not(Box::new(test))),
            some.clone().prop_map(Test::And),
            some.prop_map(Test::Or),
        ]
    })
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let small = || prop::option::of(-4i64..5);
    let half = prop::option::of((-8i64..9).prop_map(|n| n as f64 / 2.0));
    let words = || "[ab]{0,2}";
    let key = prop::option::of(prop_oneof![(-4i64..5).prop_map(Ok), words().prop_map(Err)]);
    let row = (small(), small(), half, prop::option::of(words()), any::<Option<bool>>(), key);
    let row = row.prop_map(|(a, b, d, s, flag, k)| Row { a, b, d, s, flag, k });
    prop::collection::vec(row, 1..8)
}

fn stored(row: &Row) -> TestRow {
    let meta = match &row.k {
        None => "{}".to_owned(),
        Some(Ok(n)) => format!("{{\"k\": {n}}}"),
        Some(Err(text)) => format!("{{\"k\": \"{text}\"}}"),
    };
    let mut values = vec![("$meta", json(&meta))];
    values.extend(row.a.map(|n| ("a", Value::Int64(n))));
    values.extend(row.b.map(|n| ("b", Value::Int64(n))));
    values.extend(row.d.map(|n| ("d", Value::Double(n))));
    values.extend(row.s.as_ref().map(|s| ("s", text(s))));
    values.extend(row.flag.map(|flag| ("flag", Value::Bool(flag))));
    TestRow::new(&values)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// A term without a row cannot be divided by zero, and no chain of three comparisons arises:
    /// so every text compiles.
    #[test]
    fn expressions_agree_with_the_model(test in tests(), rows in rows()) {
        let expression = test_text(&test);
        for row in &rows {
            let found = stored(row).truth(&expression);
            prop_assert_eq!(found, expected(&test, row), "{} over {:?}", expression, row);
        }
    }

    #[test]
    fn equivalent_expressions_have_the_same_rows(
        x in tests(), y in tests(), rows in rows(), low in -4i64..5, high in -4i64..5,
    ) {
        let (x, y) = (test_text(&x), test_text(&y));
        let set: Vec<String> = (low..=high).map(|n| n.to_string()).collect();
        let pairs = [
            (format!("not (({x}) and ({y}))"), format!("not ({x}) or not ({y})")),
            (format!("not (({x}) or ({y}))"), format!("not ({x}) and not ({y})")),
            (format!("({x}) and ({y})"), format!("({y}) and ({x})")),
            (format!("({x}) or ({y})"), format!("({y}) or ({x})")),
            (format!("{low} <= a <= {high}"), format!("a in [{}]", set.join(","))),
            (format!("{low} <= a <= {high}"), format!("a >= {low} and {high} >= a")),
            (format!("k in [{low}, {high}]"), format!("k == {low} or k == {high}")),
            (format!("a not in [{low}]"), format!("a != {low}")),
        ];
        for row in rows.iter().map(stored) {
            for (one, other) in &pairs {
                prop_assert_eq!(row.truth(one), row.truth(other), "{} and {}", one, other);
            }
        }
    }
}
