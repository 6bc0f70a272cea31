//! Random batches, nullable or not, good and bad: what the check accepts is encoded and read
//! back as a naive reading of the request says; what it refuses breaks a rule by that reading.

use proptest::prelude::*;

use super::{INT64, batch, schema};
use crate::schema::{BatchError, FieldSpec, VectorPlacement, WriteKind};
use crate::value::{Column, ColumnValues, DataType, ScalarType, Texts, Value};

const ROWS: usize = 3;

#[derive(Clone, Debug)]
struct Case {
    spec: FieldSpec,
    /// `None` where the field is not given at all.
    cells: Option<Vec<Option<Value>>>,
}

fn case(name: &'static str, ty: ScalarType, cell: BoxedStrategy<Value>) -> BoxedStrategy<Case> {
    let cells =
        prop::option::weighted(0.9, prop::collection::vec(prop::option::weighted(0.9, cell), ROWS));
    let default = match ty {
        ScalarType::VarChar => Value::VarChar("d".into()),
        _ => Value::Int16(5),
    };
    (any::<bool>(), any::<bool>(), cells)
        .prop_map(move |(nullable, with_default, cells)| {
            let spec = FieldSpec::new(name, DataType::Scalar(ty));
            let spec = if ty == ScalarType::VarChar { spec.max_bytes(2) } else { spec };
            let spec = if nullable { spec.nullable() } else { spec };
            let spec = if with_default { spec.default_value(default.clone()) } else { spec };
            Case { spec, cells }
        })
        .boxed()
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let int = prop_oneof![20 => -40i64..40, 1 => any::<i64>()].prop_map(Value::Int64).boxed();
    let text = prop_oneof![20 => "[ab]{0,2}", 1 => "[aä]{2,3}"].prop_map(Value::VarChar).boxed();
    (case("int", ScalarType::Int16, int), case("text", ScalarType::VarChar, text))
        .prop_map(|(a, b)| vec![a, b])
}

/// What a cell should read as; `None` where it breaks a rule.
fn expected(spec: &FieldSpec, cell: Option<&Value>) -> Option<Value> {
    match cell {
        None if spec.default.is_some() => spec.default.clone(),
        None => spec.nullable.then_some(Value::Null),
        Some(Value::Int64(v)) => i16::try_from(*v).ok().map(Value::Int16),
        Some(Value::VarChar(t)) => (t.len() <= 2).then(|| Value::VarChar(t.clone())),
        Some(other) => unreachable!("{other:?} is not generated"),
    }
}

fn column(case: &Case) -> Option<Column> {
    let cells = case.cells.as_ref()?;
    let valid = cells.iter().map(Option::is_some).collect();
    let values = if case.spec.max_bytes.is_some() {
        let text = |cell: &Option<Value>| match cell {
            Some(Value::VarChar(text)) => text.clone(),
            _ => "a placeholder that is too long".into(),
        };
        ColumnValues::VarChar(cells.iter().map(text).collect::<Texts>())
    } else {
        let int = |cell: &Option<Value>| match cell {
            Some(Value::Int64(int)) => *int,
            _ => i64::MAX,
        };
        ColumnValues::Int64(cells.iter().map(int).collect())
    };
    Some(Column::new(case.spec.name.clone(), values).with_validity(valid))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn accepted_rows_read_back_and_refused_ones_break_a_rule(cases in cases()) {
        let schema = schema(cases.iter().map(|case| case.spec.clone()));
        let given = batch(ROWS, cases.iter().filter_map(column));
        let wanted: Vec<Vec<Option<Value>>> = cases
            .iter()
            .map(|case| {
                (0..ROWS)
                    .map(|row| {
                        let cell = case.cells.as_ref().and_then(|cells| cells[row].as_ref());
                        expected(&case.spec, cell)
                    })
                    .collect()
            })
            .collect();
        match schema.check_batch(given, WriteKind::Insert, || unreachable!("keys are given")) {
            Ok(checked) => {
                let format = schema.row_format(VectorPlacement::InRow);
                for row in 0..ROWS {
                    let mut bytes = Vec::new();
                    checked.encode_row(&format, row, &mut bytes).unwrap();
                    let read = format.layout().open(&bytes).unwrap();
                    read.verify().unwrap();
                    for (i, of_field) in wanted.iter().enumerate() {
                        let found = Some(read.get(2 + i).unwrap().to_value());
                        prop_assert_eq!(&found, &of_field[row]);
                    }
                }
            }
            Err(BatchError::Value { field, row, .. } | BatchError::Null { field, row }) => {
                let at = cases.iter().position(|case| case.spec.name == field).unwrap();
                prop_assert_eq!(&wanted[at][row], &None);
            }
            Err(BatchError::MissingField { field }) => {
                let at = cases.iter().position(|case| case.spec.name == field).unwrap();
                prop_assert!(cases[at].cells.is_none());
                prop_assert_eq!(&wanted[at][0], &None);
            }
            Err(other) => prop_assert!(false, "{} was not expected", other),
        }
    }

    #[test]
    fn the_same_ids_give_the_same_batch(start in any::<i32>(), rows in 1usize..5) {
        let schema = crate::schema::Schema::builder()
            .field(FieldSpec::new("key", INT64).auto_id())
            .field(super::vector())
            .build()
            .unwrap();
        let keys = || {
            let mut next = i64::from(start)..;
            let batch = crate::schema::Batch { rows, columns: vec![super::vectors(rows)] };
            let checked = schema
                .check_batch(batch, WriteKind::Insert, || next.next().unwrap())
                .unwrap();
            (0..rows).map(|row| checked.key(row).to_key()).collect::<Vec<_>>()
        };
        prop_assert_eq!(keys(), keys());
    }
}
