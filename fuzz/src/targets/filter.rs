//! Filters: read, printed and read again, bound to a schema with a field of every kind.

use std::sync::LazyLock;

use pipeann_db::expr::{Constant, FilterFault, Templates, compile, explicit};
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, ScalarType, VectorKind};

use crate::ReachedSections;
use crate::counting::bounded_by;

/// Bytes that each character may cost: one may be an operator or a value, with a node of its own in
/// the tree and in what is bound to the schema.
const PER_CHARACTER: usize = 256;

/// What a filter says, and how that is told from its text.
const PARTS: &[(&str, &str)] = &[
    ("comparison", ">"),
    ("arithmetic", "%"),
    ("logic", "not "),
    ("list", " in ["),
    ("pattern", " like "),
    ("null", " is null"),
    ("array", "array_contains"),
    ("length", "array_length"),
    ("element", "A["),
    ("json", "j["),
    ("json function", "json_contains"),
    ("exists", "exists "),
    ("template", "{list}"),
    ("instant", "ISO "),
    ("dynamic field", "$meta["),
];
pub(super) const SECTIONS: &[&str] = &[
    "comparison",
    "arithmetic",
    "logic",
    "list",
    "pattern",
    "null",
    "array",
    "length",
    "element",
    "json",
    "json function",
    "exists",
    "template",
    "instant",
    "dynamic field",
    "refused",
];

static SCHEMAS: LazyLock<[Schema; 2]> = LazyLock::new(|| [false, true].map(schema));
static TEMPLATES: LazyLock<Templates> = LazyLock::new(|| {
    let list = Constant::List(vec![Constant::Int(1), Constant::Text("a".to_owned())]);
    [("n", Constant::Int(7)), ("f", Constant::Float(0.5)), ("list", list)]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
});

/// Fields named by one letter.
fn schema(dynamic: bool) -> Schema {
    let scalars = ["b", "t", "h", "m", "a", "f", "d", "z", "s"];
    let mut builder = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .field(FieldSpec::new("j", DataType::Json).nullable());
    for (name, scalar) in scalars.into_iter().zip(ScalarType::ALL) {
        let bounded = |spec: FieldSpec| match scalar {
            ScalarType::VarChar => spec.max_bytes(100),
            _ => spec,
        };
        builder = builder.field(bounded(FieldSpec::new(name, DataType::Scalar(scalar)).nullable()));
        // No array holds instants.
        if scalar != ScalarType::Timestamptz {
            let array = FieldSpec::new(name.to_uppercase(), DataType::Array(scalar));
            builder = builder.field(bounded(array.max_capacity(8).nullable()));
        }
    }
    builder.dynamic(dynamic).build().expect("the schema keeps the rules")
}

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(brackets) = bounded_by(PER_CHARACTER, text.len(), || explicit(text)) else { return };
    match explicit(&brackets) {
        Ok(again) => assert_eq!(again, brackets),
        // With brackets around everything it is nested deeper.
        Err(error) => {
            assert!(matches!(error.fault(), FilterFault::TooDeep { .. }), "{error}");
            return;
        }
    }
    for schema in &*SCHEMAS {
        let found = bounded_by(PER_CHARACTER, text.len(), || compile(text, schema, &TEMPLATES));
        match (found, compile(&brackets, schema, &TEMPLATES)) {
            (Ok(bound), Ok(again)) => {
                assert_eq!(bound, again, "{brackets}");
                PARTS.iter().for_each(|(name, part)| reached.mark(name, text.contains(part)));
            }
            (Err(error), Err(again)) => {
                assert_eq!(error.fault(), again.fault(), "{brackets}");
                assert!(text.is_char_boundary(error.span().start as usize));
                drop(error.to_string());
                reached.mark("refused", true);
            }
            (found, again) => panic!("{text} gave {found:?}, {brackets} gave {again:?}"),
        }
    }
}
