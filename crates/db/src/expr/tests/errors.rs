//! What is refused, with which words, and where.

use super::rows::schema;
use crate::expr::{Constant, MAX_WILD_CHARS, Templates, compile};

/// The message and the part of the expression that it points at.
fn refused(expression: &str) -> (String, String) {
    let templates = Templates::from([
        ("n".to_owned(), Constant::Int(1)),
        ("nan".to_owned(), Constant::Float(f64::NAN)),
        ("inf".to_owned(), Constant::Float(f64::INFINITY)),
    ]);
    let error = compile(expression, &schema(false), &templates).expect_err(expression);
    let span = error.span();
    let part = &expression[span.start as usize..span.end as usize];
    (error.fault().to_string(), part.to_owned())
}

#[test]
fn errors_say_what_and_where() {
    for (expression, message, part) in [
        ("a >", "unexpected end of the expression, expected a field, a value or (", ""),
        ("a == 1 b", "unexpected `b`, expected an operator or the end", "b"),
        ("(a == 1", "unexpected end of the expression, expected )", ""),
        ("a == 1)", "unexpected `)`, expected an operator or the end", ")"),
        ("a == and", "unexpected `and`", "and"),
        ("a in [1 2]", "unexpected integer 2, expected ]", "2"),
        ("a == {}", "unexpected `}`, expected the name of a template", "}"),
        ("a between 1 or 2", "unexpected `or`, expected and", "or"),
        ("a is 1", "unexpected integer 1, expected null", "1"),
        ("a not 1", "unexpected integer 1, expected in or between", "1"),
        ("1 < 2 < a", "between two bounds stands a field", "<"),
        ("j[1.5] == 1", "expected a key in quotes or a position from 0", "1.5"),
        ("a == 1 ; b", "unexpected character ';'", ";"),
        ("ä == 1", "unexpected character 'ä'", "ä"),
        ("s == 'abc", "the text has no closing '", "'"),
        (r"s == 'a\u12'", "\\u is followed by the four digits", r"\"),
        ("a == 12ab", "bad number", "12ab"),
        ("a == 99999999999999999999", "the integer does not fit 64 bits", "99999999999999999999"),
        ("a == 9223372036854775808", "the integer does not fit 64 bits", "9223372036854775808"),
        ("d == 1e999", "the number does not fit a double", "1e999"),
        ("nope == 1", "field nope not exist", "nope"),
        ("a == 1 and nope", "field nope not exist", "nope"),
        ("a", "predicate is not a boolean expression: Int64", "a"),
        ("1 + 2", "predicate is not a boolean expression: Int64", "1 + 2"),
        ("j['x']", "predicate is not a boolean expression: JSON", "j['x']"),
        ("not a > 1", "not op can only be applied on boolean expression, not on Int64", "a"),
        ("a == 1 and s", "predicate is not a boolean expression: VarChar", "s"),
        ("s > 5", "comparisons between VarChar and Int64 are not supported", "s > 5"),
        ("a == 'x'", "comparisons between Int64 and VarChar are not supported", "a == 'x'"),
        ("1 == 'x'", "comparisons between Int64 and VarChar are not supported", "1 == 'x'"),
        ("a == s", "comparisons between Int64 and VarChar are not supported", "a == s"),
        ("j == a", "comparisons between JSON and Int64 are not supported", "j == a"),
        (
            "(a > 1) == true",
            "comparisons between a condition and Bool are not supported",
            "(a > 1) == true",
        ),
        (
            "flag > true",
            "> is only supported on numbers, texts and instants, not on Bool",
            "flag > true",
        ),
        ("j['x'] < [1]", "< is only supported on numbers", "j['x'] < [1]"),
        ("a in [1, 'x']", "comparisons between Int64 and VarChar are not supported", "'x'"),
        ("a in 5", "in is only supported on a list on the right-hand side, not on Int64", "5"),
        ("a in [b]", "a list is only supported on constants, not on Int64", "b"),
        ("a + 1 in [1]", "in is only supported on fields and JSON paths", "a + 1"),
        ("a like 'x'", "like is only supported on VarChar and JSON fields, not on Int64", "a"),
        ("s like 5", "like is only supported on a text on the right-hand side, not on Int64", "5"),
        ("a / 0 == 1", "division by zero", "0"),
        ("a % 0 == 1", "division by zero", "0"),
        ("a / (1 - 1) > 0", "division by zero", "(1 - 1)"),
        ("a == 9223372036854775807 + 1", "integer overflow", "9223372036854775807 + 1"),
        ("a == 2 ** 64", "integer overflow", "2 ** 64"),
        ("d == 1e308 * 10", "does not fit a double", "1e308 * 10"),
        ("d == {inf} * 0", "the result is no number", "{inf} * 0"),
        ("d % 2 == 1", "modulo can only apply on integer types, not on Double", "d"),
        ("s + 1 == 2", "+ can only be applied on numbers, not on VarChar", "s"),
        ("a + 'x' == 2", "+ can only be applied on numbers, not on VarChar", "'x'"),
        ("a ** 2 == 4", "** on anything but constants is not supported", "a ** 2"),
        ("a & 1 == 1", "BitAnd is not supported", "&"),
        ("a | 1 == 1", "BitOr is not supported", "|"),
        ("a ^ 1 == 1", "BitXor is not supported", "^"),
        ("~a == 1", "BitNot is not supported", "~"),
        ("a << 1 == 2", "shift is not supported", "<<"),
        ("s =~ 'x'", "regular expression match is not supported", "=~"),
        ("exists a", "exists is only supported on JSON fields, not on Int64", "a"),
        ("1 is null", "is null is only supported on fields, not on Int64", "1"),
        (
            "a[0] == 1",
            "a path into a is only supported on JSON and array fields, not on Int64",
            "a[0]",
        ),
        (
            "ints['k'] == 1",
            "a path into ints is only supported on one position from 0",
            "ints['k']",
        ),
        ("v == 1", "a filter is only supported on scalar, array and JSON fields", "v"),
        (
            "array_length(s) == 1",
            "array_length is only supported on array and JSON fields, not on VarChar",
            "s",
        ),
        (
            "array_contains(ints)",
            "array_contains takes two arguments, found 1",
            "array_contains(ints)",
        ),
        (
            "array_contains(ints, 'x')",
            "comparisons between Int64 and VarChar are not supported",
            "'x'",
        ),
        (
            "array_contains_all(ints, 1)",
            "array_contains_all is only supported on a list as its second argument",
            "1",
        ),
        (
            "array_contains(ints, a)",
            "array_contains is only supported on constants, not on Int64",
            "a",
        ),
        ("random_sample(a)", "random_sample is only supported on constants, not on Int64", "a"),
        (
            "starts_with(s, 5)",
            "starts_with is only supported on a text as its second argument, not on Int64",
            "5",
        ),
        ("nonsense(a)", "function nonsense not found", "nonsense(a)"),
        ("text_match(s, 'x')", "text_match is not supported", "text_match(s, 'x')"),
        (
            "random_sample(0.5) and a == 1",
            "random_sample: it has to be the last term",
            "random_sample(0.5)",
        ),
        (
            "a == 1 or random_sample(0.5)",
            "random_sample: it has to be the last term",
            "random_sample(0.5)",
        ),
        (
            "random_sample(1.0)",
            "random_sample: the sample factor should be between 0 and 1",
            "random_sample(1.0)",
        ),
        (
            "a == {missing}",
            "the value of expression template variable name {missing} is not found",
            "{missing}",
        ),
        (
            "d == {nan}",
            "the value of expression template variable name {nan} cannot be used: it is NaN",
            "{nan}",
        ),
        ("s == {n}", "comparisons between VarChar and Int64 are not supported", "s == {n}"),
        ("ts > 5", "comparisons between Timestamptz and Int64 are not supported", "ts > 5"),
        ("ts > ISO 'yesterday'", "bad instant", "ISO 'yesterday'"),
        (
            "ts > ISO '2025-07-01T00:00:00[Europe/Berlin]'",
            "bad instant: a zone comes behind its offset",
            "ISO '2025-07-01T00:00:00[Europe/Berlin]'",
        ),
        ("ts + INTERVAL '1 day' > ISO '2025-01-01'", "bad interval", "INTERVAL '1 day'"),
        ("a + INTERVAL 'P1D' > 1", "+ INTERVAL is only supported on instants, not on Int64", "a"),
        (
            "j['t'] > ISO '2025-01-01'",
            "comparisons between JSON and Timestamptz are not supported",
            "j['t'] > ISO '2025-01-01'",
        ),
        (
            "ts == INTERVAL 'P1D'",
            "comparisons between Timestamptz and an interval are not supported",
            "ts == INTERVAL 'P1D'",
        ),
    ] {
        let (found, at) = refused(expression);
        assert!(found.contains(message), "{expression}: {found}");
        assert_eq!(at, part, "{expression}: {found}");
    }
}

#[test]
fn a_pattern_that_is_too_long_is_what_is_marked() {
    let pattern = format!("'{}'", "_".repeat(MAX_WILD_CHARS + 1));
    let (message, part) = refused(&format!("s like {pattern}"));
    assert!(message.contains("a like pattern may have"), "{message}");
    assert_eq!(part, pattern);
}

#[test]
fn long_words_are_shown_in_part() {
    let long = "a".repeat(1 << 20);
    let templates = Templates::from([(long.clone(), Constant::Float(f64::NAN))]);
    for (expression, message) in [
        (format!("{long} == 1"), "field aaa"),
        (format!("{long}(a)"), "function aaa"),
        (format!("st_{long}(a)"), "st_aaa"),
        (format!("a == {{b{long}}}"), "variable name {baaa"),
        (format!("a == {{{long}}}"), "variable name {aaa"),
        (format!("a == 1 {long}"), "unexpected `aaa"),
        (format!("ts > ISO '{long}'"), "bad instant"),
        (format!("ts > ISO '2025-07-01T00:00:00[{long}]'"), "bad instant"),
        (format!("ts + INTERVAL 'P{long}' > ts"), "bad interval"),
    ] {
        let error = compile(&expression, &schema(false), &templates).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(message), "{}", shown.chars().take(2000).collect::<String>());
        assert!(shown.len() < 2000, "{message}: {} bytes", shown.len());
    }
}

#[test]
fn the_message_shows_the_line_and_the_character() {
    let error = compile("a == 1 and\n  ä\u{9}> 2", &schema(false), &Templates::new()).unwrap_err();
    assert_eq!(error.place(), (2, 3));
    let shown = "cannot parse expression: a == 1 and\n  ä\u{9}> 2, error: unexpected character 'ä' \
                 at line 2, column 3\n    ä > 2\n    ^";
    assert_eq!(error.to_string(), shown);
}

#[test]
fn a_long_expression_is_shown_in_part() {
    let expression = format!("{}a == 'x'", "a == 1 and ".repeat(1000));
    let error = compile(&expression, &schema(false), &Templates::new()).unwrap_err();
    let shown = error.to_string();
    assert!(shown.len() < 1000, "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let mark = lines[2].chars().position(|c| c == '^').unwrap();
    assert!(lines[1][mark..].starts_with("a == 'x'"), "{shown}");
}
