//! Filters: read, printed and read again, bound to a schema with a field of every kind.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pipeann_db::expr::{Constant, FilterFault, Templates, compile, explicit};
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, ScalarType, VectorKind};

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
        builder =
            builder.field(bounded(FieldSpec::new(name, DataType::Scalar(scalar)).nullable()));
        // No array holds instants.
        if scalar != ScalarType::Timestamptz {
            let array = FieldSpec::new(name.to_uppercase(), DataType::Array(scalar));
            builder = builder.field(bounded(array.max_capacity(8).nullable()));
        }
    }
    builder.dynamic(dynamic).build().expect("the schema keeps the rules")
}

fuzz_target!(|text: &str| {
    let Ok(brackets) = explicit(text) else { return };
    match explicit(&brackets) {
        Ok(again) => assert_eq!(again, brackets),
        // With brackets around everything it is nested deeper.
        Err(error) => {
            assert!(matches!(error.fault(), FilterFault::TooDeep { .. }), "{error}");
            return;
        }
    }
    for schema in &*SCHEMAS {
        match (compile(text, schema, &TEMPLATES), compile(&brackets, schema, &TEMPLATES)) {
            (Ok(bound), Ok(again)) => assert_eq!(bound, again, "{brackets}"),
            (Err(error), Err(again)) => {
                assert_eq!(error.fault(), again.fault(), "{brackets}");
                assert!(text.is_char_boundary(error.span().start as usize));
                drop(error.to_string());
            }
            (found, again) => panic!("{text} gave {found:?}, {brackets} gave {again:?}"),
        }
    }
});
