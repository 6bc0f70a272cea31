//! How expressions are read.

use proptest::prelude::*;

use crate::expr::error::Span;
use crate::expr::explicit;
use crate::expr::parser::parse;
use crate::expr::tree::{
    Arithmetic, Comparison, Expr, Junction, Literal, Name, OperandKind, PathStep, RangeEnd,
};

fn read(expression: &str) -> String {
    explicit(expression).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn operators_bind_as_the_table_says() {
    for (expression, brackets) in [
        ("a == 1 or b == 2 and flag", "((a == 1) or ((b == 2) and flag))"),
        ("a == 1 || b == 2 && flag", "((a == 1) or ((b == 2) and flag))"),
        ("a = 1 AND b <> 2", "((a == 1) and (b != 2))"),
        ("not a == 1", "((not a) == 1)"),
        ("!flag and flag", "((not flag) and flag)"),
        ("not s like 'x%'", "(not (s like \"x%\"))"),
        ("not exists j[\"k\"]", "(not (exists j[\"k\"]))"),
        ("not s is null", "(not (s is null))"),
        ("a + b * 2 ** 3 > 4 % 3 - 1", "((a + (b * (2 ** 3))) > ((4 % 3) - 1))"),
        ("2 ** 3 ** 2 == 64", "(((2 ** 3) ** 2) == 64)"),
        ("1 - 2 - 3 < a", "(((1 - 2) - 3) < a)"),
        ("-a + 1 == - -5", "(((-a) + 1) == 5)"),
        ("a - -9223372036854775808 > 0", "((a - (-9223372036854775808)) > 0)"),
        ("a in [1, 2,]", "(a in [1, 2])"),
        ("a not in []", "(not (a in []))"),
        ("a NOT IN {list}", "(not (a in {list}))"),
        ("a + 1 in [2]", "((a + 1) in [2])"),
        ("1 < a <= 5", "(1 < a <= 5)"),
        ("5 >= a > 1", "(1 < a <= 5)"),
        ("a between 1 and 5 and flag", "((a between 1 and 5) and flag)"),
        ("a not between 1 and 1 + 1", "(not (a between 1 and (1 + 1)))"),
        ("s is not null", "(not (s is null))"),
        ("s IS  NOT\nNULL", "(not (s is null))"),
        ("exists meta[\"x\"][0]", "(exists meta[\"x\"][0])"),
        ("JSON_CONTAINS(j['a'], 1)", "json_contains(j[\"a\"], 1)"),
        (
            "ts + INTERVAL 'P1D' > ISO '2025-01-01'",
            "((ts + INTERVAL \"P1D\") > ISO \"2025-01-01\")",
        ),
        ("iso == 1 and interval == 2", "((iso == 1) and (interval == 2))"),
        ("a == True and b == FALSE", "((a == true) and (b == false))"),
        ("(a == 1 and b == 2) and flag", "((a == 1) and (b == 2) and flag)"),
        ("0x10 == a", "(16 == a)"),
        (r"s like r'a\%'", r#"(s like "a\\%")"#),
        (r"s like 'a\\%'", r#"(s like "a\\%")"#),
        ("$meta['k'] == 1.0", "($meta[\"k\"] == 1.0)"),
        ("Like == 1", "(Like == 1)"),
    ] {
        assert_eq!(read(expression), brackets, "{expression}");
        assert_eq!(read(brackets), brackets, "{expression}");
    }
    assert_eq!(read(" \n\t"), "");
}

#[test]
fn parts_know_where_they_stand() {
    let tree = parse("  a == (1 + 2)").unwrap().unwrap();
    assert_eq!(tree.span, Span { start: 2, end: 14 });
    let OperandKind::Compare(_, both) = tree.kind else { panic!("a comparison") };
    assert_eq!(both.1.span, Span { start: 7, end: 14 });
}

fn node(kind: OperandKind) -> Expr {
    Expr { kind, span: Span::default(), height: 0 }
}

fn leaf() -> impl Strategy<Value = Expr> {
    let step = prop_oneof![
        any::<String>().prop_map(PathStep::Key),
        any::<u32>().prop_map(PathStep::Index),
    ];
    let float = any::<f64>().prop_filter("a literal is finite", |f| f.is_finite());
    let boxed = |text: String| text.into_boxed_str();
    prop_oneof![
        any::<bool>().prop_map(Literal::Bool).prop_map(OperandKind::Literal),
        any::<i64>().prop_map(Literal::Integer).prop_map(OperandKind::Literal),
        float.prop_map(Literal::Float).prop_map(OperandKind::Literal),
        any::<String>().prop_map(move |t| OperandKind::Literal(Literal::Text(boxed(t)))),
        any::<String>().prop_map(move |t| OperandKind::Literal(Literal::Instant(boxed(t)))),
        "[a-z_][a-z0-9_]{0,5}x".prop_map(move |t| OperandKind::Template(boxed(t))),
        ("[$a-z_][a-z0-9_]{0,5}x", prop::collection::vec(step, 0..3))
            .prop_map(|(name, path)| OperandKind::Name(Box::new(Name { name, path }))),
    ]
    .prop_map(node)
}

/// Trees as the parser makes them: no `and` inside an `and`, no negated literal.
fn tree() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        let one = inner.clone().prop_map(Box::new);
        let two = (inner.clone(), inner.clone()).prop_map(Box::new);
        let some = prop::collection::vec(inner.clone(), 0..4);
        let comparison = prop::sample::select(vec![
            Comparison::Eq,
            Comparison::Ne,
            Comparison::Lt,
            Comparison::Ge,
        ]);
        let arithmetic =
            prop::sample::select(vec![Arithmetic::Add, Arithmetic::Mod, Arithmetic::Pow]);
        let junction = prop::sample::select(vec![Junction::And, Junction::Or]);
        let kind = prop_oneof![
            some.clone().prop_map(OperandKind::List),
            one.clone().prop_map(OperandKind::Not),
            one.clone().prop_map(OperandKind::IsNull),
            one.clone().prop_map(OperandKind::Exists),
            one.prop_filter("a sign belongs to its number", |e| !matches!(
                e.kind,
                OperandKind::Literal(_)
            ))
            .prop_map(OperandKind::Minus),
            (comparison, two.clone()).prop_map(|(c, both)| OperandKind::Compare(c, both)),
            (arithmetic, two.clone()).prop_map(|(a, both)| OperandKind::Arithmetic(a, both)),
            two.clone().prop_map(OperandKind::In),
            two.prop_map(OperandKind::Like),
            ("[a-z_]{1,6}x", some.clone()).prop_map(|(n, args)| OperandKind::Call(n.into(), args)),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(value, low, high)| {
                let end = |value| RangeEnd { value, included: true };
                OperandKind::Range(Box::new((value, end(low), end(high))))
            }),
            (junction, prop::collection::vec(inner, 2..4)).prop_map(|(junction, terms)| {
                let terms = terms.into_iter().flat_map(|term| match term.kind {
                    OperandKind::Junction(found, below) if found == junction => below,
                    _ => vec![term],
                });
                OperandKind::Junction(junction, terms.collect())
            }),
        ];
        kind.prop_map(node)
    })
}

proptest! {
    #[test]
    fn a_printed_tree_is_read_as_the_same(tree in tree()) {
        let printed = tree.to_string();
        let read = parse(&printed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read.as_ref(), Some(&tree), "{}", printed);
    }
}
