//! Input that is made to break something.

use proptest::prelude::*;

use super::rows::{TestRow, schema};
use crate::expr::{
    Constant, FilterFault, MAX_DEPTH, MAX_EXPRESSION_BYTES, MAX_TERMS, Templates, compile, explicit,
};
use crate::value::Value;

fn fault(expression: &str) -> FilterFault {
    let error = compile(expression, &schema(true), &Templates::new()).unwrap_err();
    // Also the message is made without trouble.
    assert!(error.to_string().len() < 2000);
    error.fault().clone()
}

#[test]
fn nesting_ends_before_the_stack_does() {
    let levels = 10_000;
    let wrap = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    for expression in [
        wrap("(", "a == 1", ")"),
        wrap("(", "", ""),
        wrap("not ", "flag", ""),
        wrap("-", "a == 1", ""),
        wrap("+", "a == 1", ""),
        wrap("exists ", "a", ""),
        wrap("[", "1", "]"),
        wrap("f(", "1", ")"),
        wrap("a == ", "1", ""),
        wrap("a + ", "1 == 1", ""),
        wrap("2 ** ", "1 == 1", ""),
        wrap("s like ", "'x'", ""),
        wrap("a in ", "[1]", ""),
        wrap("(a == 1 or (a == 2 and ", "a == 3", "))"),
        format!("j{} == 1", "[0]".repeat(levels)),
    ] {
        let found = fault(&expression);
        assert_eq!(found, FilterFault::TooDeep { limit: MAX_DEPTH }, "{}", &expression[..20]);
    }
}

#[test]
fn long_chains_of_terms_are_not_deep() {
    let row = TestRow::new(&[("a", Value::Int64(9999))]);
    let any: Vec<String> = (0..10_000).map(|n| format!("a == {n}")).collect();
    assert_eq!(row.truth(&any.join(" or ")), Some(true));
    assert_eq!(row.truth(&any.join(" and ")), Some(false));
}

#[test]
fn the_number_of_terms_and_bytes_is_bounded() {
    let many = format!("a in [{}]", "1,".repeat(MAX_TERMS + 1));
    assert_eq!(fault(&many), FilterFault::TooManyTerms { limit: MAX_TERMS });
    let long = " ".repeat(MAX_EXPRESSION_BYTES + 1);
    let (bytes, limit) = (long.len(), MAX_EXPRESSION_BYTES);
    assert_eq!(fault(&long), FilterFault::TooLong { bytes, limit });
}

#[test]
fn what_templates_put_in_is_bounded_however_often_they_are_named() {
    let list = Constant::List((0..10_000).map(Constant::Int).collect());
    let text = Constant::Text("x".repeat(1 << 20));
    let templates = Templates::from([("list".to_owned(), list), ("text".to_owned(), text)]);
    let row = TestRow::new(&[("a", Value::Int64(9999))]);
    let named = |term: &str, times: usize| vec![term; times].join(" or ");
    assert_eq!(row.truth_with(&named("a in {list}", 100), &templates), Some(true));
    for expression in [named("a in {list}", 110), named("s == {text}", 17)] {
        let fault = compile(&expression, &schema(true), &templates).unwrap_err();
        let (values, bytes) = (MAX_TERMS, MAX_EXPRESSION_BYTES);
        assert_eq!(*fault.fault(), FilterFault::TooMuchPutIn { values, bytes });
    }
}

#[test]
fn a_list_of_a_million_keys_is_taken() {
    let keys: Vec<String> = (0..1_000_000).map(|key| key.to_string()).collect();
    let expression = format!("id in [{}]", keys.join(", "));
    let row = TestRow::new(&[("id", Value::Int64(999_999))]);
    assert_eq!(row.truth(&expression), Some(true));
    let row = TestRow::new(&[("id", Value::Int64(1_000_000))]);
    assert_eq!(row.truth(&expression), Some(false));
    let list = Constant::List((0..1_000_000).map(Constant::Int).collect());
    let templates = Templates::from([("keys".to_owned(), list)]);
    assert_eq!(row.truth_with("id not in {keys}", &templates), Some(true));
}

#[test]
fn lists_of_templates_are_looked_at_to_a_bounded_depth() {
    let deep = (0..1000).fold(Constant::Int(1), |inner, _| Constant::List(vec![inner]));
    let templates = Templates::from([("deep".to_owned(), deep)]);
    let error = compile("json_contains(j, {deep})", &schema(true), &templates).unwrap_err();
    assert!(matches!(error.fault(), FilterFault::TemplateValue { .. }), "{error}");
}

#[test]
fn lists_that_would_be_gone_through_one_by_one_are_few() {
    for (before, behind) in [("j in ", ""), ("json_contains_any(j, ", ")")] {
        let lists = |count| format!("{before}[{}]{behind}", vec!["[1]"; count].join(","));
        assert_eq!(fault(&lists(1025)), FilterFault::TooManyLists { limit: 1024 });
        let row = TestRow::new(&[("j", Value::Json("[[1]]".into()))]);
        assert!(row.truth(&lists(1024)).is_some());
    }
}

#[test]
fn long_arrays_are_compared_with_long_lists_in_bounded_time() {
    let items = (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let row = TestRow::new(&[("j", Value::Json(format!("[{items}]")))]);
    assert_eq!(row.truth(&format!("json_contains_all(j, [{items}, 5, 5.0])")), Some(true));
    assert_eq!(row.truth(&format!("json_contains_all(j, [{items}, 20000])")), Some(false));
    assert_eq!(row.truth(&format!("json_contains_any(j, [-1, {items}])")), Some(true));
}

#[test]
fn odd_text_is_read_or_refused() {
    let expected = "the name of a template";
    let end = FilterFault::Unexpected { found: "end of the expression".to_owned(), expected };
    for (expression, refused) in [
        ("\u{feff}a == 1", FilterFault::Character { found: '\u{feff}' }),
        ("a == 1\0", FilterFault::Character { found: '\0' }),
        ("\u{0}", FilterFault::Character { found: '\0' }),
        ("'", FilterFault::Unterminated { quote: '\'' }),
        ("\"\\", FilterFault::Unterminated { quote: '"' }),
        ("0x", FilterFault::Number { why: "these characters are no number" }),
        ("{", end),
        ("a\u{301} == 1", FilterFault::Character { found: '\u{301}' }),
    ] {
        assert_eq!(fault(expression), refused, "{expression:?}");
    }
    for (expression, brackets) in [
        ("a == '\u{10ffff}'", "(a == \"\u{10ffff}\")"),
        ("$ == 1", "($ == 1)"),
        ("\u{a0}a\u{2003}== 1\u{3000}", "(a == 1)"),
    ] {
        assert_eq!(explicit(expression).as_deref(), Ok(brackets), "{expression:?}");
        assert_eq!(explicit(brackets).as_deref(), Ok(brackets));
    }
}

/// Words of the language, and what can be mistaken for them.
const WORDS: &[&str] = &[
    "a",
    "b",
    "tiny",
    "d",
    "flag",
    "s",
    "ts",
    "ints",
    "texts",
    "j",
    "color",
    "$meta",
    "v",
    "nope",
    "1",
    "0",
    "-1",
    "2.5",
    "9223372036854775808",
    "'x'",
    "\"%a_\"",
    "true",
    "ISO '2025-01-01'",
    "INTERVAL 'P1D'",
    "{n}",
    "{list}",
    "[",
    "]",
    "[1]",
    "['k']",
    "[1, 2]",
    "(",
    ")",
    ",",
    "and",
    "or",
    "not",
    "&&",
    "||",
    "!",
    "==",
    "=",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "**",
    "in",
    "not in",
    "between",
    "like",
    "is null",
    "is not null",
    "exists",
    "array_contains(",
    "json_contains_any(",
    "array_length(",
    "random_sample(0.5)",
    "starts_with(",
    "&",
    "=~",
    "'",
    "\\",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_words_is_read_or_refused_with_a_place(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..12), dynamic in any::<bool>(),
    ) {
        let expression = words.join(" ");
        let list = Constant::List(vec![Constant::Int(1), Constant::Text("x".to_owned())]);
        let templates = Templates::from([
            ("n".to_owned(), Constant::Int(7)),
            ("list".to_owned(), list),
        ]);
        let keys = r#"{"color": {"$serde_json::private::RawValue": 1}, "k": "1"}"#;
        let row = TestRow::new(&[
            ("a", Value::Int64(1)),
            ("flag", Value::Bool(true)),
            ("j", Value::Json(keys.into())),
            ("$meta", Value::Json(keys.into())),
        ]);
        match (compile(&expression, &schema(dynamic), &templates), explicit(&expression)) {
            (Ok(bound), Ok(brackets)) => {
                prop_assert!(bound.predicate.evaluate(&row).is_ok());
                let again = compile(&brackets, &schema(dynamic), &templates);
                prop_assert_eq!(again, Ok(bound), "{}", brackets);
            }
            (Ok(_), Err(error)) => prop_assert!(false, "it was bound: {}", error),
            (Err(error), _) => {
                let span = error.span();
                let part = expression.get(span.start as usize..span.end as usize);
                prop_assert!(part.is_some(), "{} at {:?}", expression, span);
                prop_assert!(error.to_string().contains('^'));
            }
        }
    }
}
