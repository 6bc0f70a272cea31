//! Every example of the document is what the document says.

use super::rows::schema;
use crate::expr::{Constant, Templates, compile, explicit};

const DOCUMENT: &str = include_str!("../../../../../docs/filter-language.md");

/// The lines of all blocks of this kind.
fn examples(kind: &str) -> Vec<&'static str> {
    let fence = format!("```{kind}");
    let mut inside = false;
    let lines = DOCUMENT.lines().filter(|line| {
        let was = inside;
        inside = if was { *line != "```" } else { *line == fence };
        was && inside
    });
    lines.collect()
}

#[test]
fn every_example_is_a_filter() {
    let list = Constant::List(vec![Constant::Int(1)]);
    let templates = Templates::from([
        ("ids".to_owned(), list),
        ("pattern".to_owned(), Constant::Text("a%".to_owned())),
    ]);
    let examples = examples("filter");
    assert!(examples.len() > 50, "{} examples are found", examples.len());
    for example in examples {
        let bound = compile(example, &schema(true), &templates).unwrap_or_else(|e| panic!("{e}"));
        let brackets = explicit(example).unwrap();
        assert_eq!(compile(&brackets, &schema(true), &templates), Ok(bound), "{brackets}");
    }
}

#[test]
fn every_refused_example_is_none() {
    let examples = examples("refused");
    assert!(examples.len() > 10, "{} examples are found", examples.len());
    for example in examples {
        let found = compile(example, &schema(true), &Templates::new());
        assert!(found.is_err(), "{example}");
    }
}

#[test]
fn the_error_is_shown_as_it_is() {
    let start = DOCUMENT.find("cannot parse expression: a > 5").unwrap();
    let shown = DOCUMENT[start..].split("\n```").next().unwrap();
    let error = compile("a > 5 and name like 7", &schema(true), &Templates::new()).unwrap_err();
    assert_eq!(error.to_string(), shown);
}
