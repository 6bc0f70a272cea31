//! Columns become values of their fields, or are refused by name.

use pipeann_db::value::DataType;

use super::*;
use crate::proto::schema::{ArrayArray, IntArray, PackedFloats, StringArray};

fn schema() -> Schema {
    let scalar = |name: &str, scalar| FieldSpec::new(name, DataType::Scalar(scalar));
    let mut tags = FieldSpec::new("tags", DataType::Array(ScalarType::Int16)).nullable();
    tags.max_capacity = Some(4);
    Schema::builder()
        .field(scalar("id", ScalarType::Int64).primary_key())
        .field(scalar("n", ScalarType::Int8).nullable())
        .field(tags)
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float)).dim(2))
        .dynamic(true)
        .build()
        .unwrap()
}

fn scalars(name: &str, data: Data, valid: &[bool]) -> FieldData {
    FieldData {
        field_name: name.into(),
        field: Some(Field::Scalars(ScalarField { data: Some(data) })),
        valid_data: valid.to_vec(),
        ..FieldData::default()
    }
}

fn vectors(dim: i64, bytes: usize) -> FieldData {
    let data = Some(Vectors::FloatVector(PackedFloats { data: vec![0; bytes] }));
    FieldData {
        field_name: "v".into(),
        field: Some(Field::Vectors(VectorField { dim, data })),
        ..FieldData::default()
    }
}

#[test]
fn values_of_rows_that_have_some_are_put_in_their_places() {
    let numbers = |data: &[i32]| Data::IntData(IntArray { data: data.to_vec() });
    let compact = scalars("n", numbers(&[7, 9]), &[false, true, false, true]);
    let full = scalars("n", numbers(&[0, 7, 0, 9]), &[false, true, false, true]);
    for given in [compact, full] {
        let batch = batch(&schema(), vec![given], 4).unwrap();
        let found: Vec<_> = (0..4).map(|row| batch.columns[0].get(row)).collect();
        let (seven, nine) = (ValueRef::Int32(7), ValueRef::Int32(9));
        assert_eq!(found, [ValueRef::Null, seven, ValueRef::Null, nine]);
    }
    let row = ScalarField { data: Some(numbers(&[1, 2])) };
    let arrays = Data::ArrayData(ArrayArray { data: vec![row], element_type: 3 });
    let batch = batch(&schema(), vec![scalars("tags", arrays, &[false, true])], 2).unwrap();
    let ValueRef::Array(tags) = batch.columns[0].get(1) else { panic!("an array") };
    assert_eq!((batch.columns[0].get(0), tags.len()), (ValueRef::Null, 2));
}

#[test]
fn the_dynamic_field_has_its_name_or_none() {
    for name in ["$meta", ""] {
        let text = Data::JsonData(crate::proto::schema::JsonArray { data: vec![b"{}".to_vec()] });
        let field = FieldData { is_dynamic: true, ..scalars(name, text, &[]) };
        assert_eq!(batch(&schema(), vec![field], 1).unwrap().columns[0].field, "$meta");
    }
}

#[test]
fn columns_that_do_not_fit_are_refused_by_field() {
    let refused = |field, rows| batch(&schema(), vec![field], rows).unwrap_err().reason;
    assert!(refused(vectors(3, 12), 1).contains("the dim (3) of field data(v) is not equal"));
    assert!(refused(vectors(2, 12), 1).contains("field v"));
    assert!(refused(vectors(-1, 8), 1).contains("the dim (0)"));
    let texts = |n: usize| Data::StringData(StringArray { data: vec!["x".into(); n] });
    assert!(refused(scalars("other", texts(1), &[]), 1).contains("field other not exist"));
    assert!(refused(scalars("$meta", texts(1), &[]), 1).contains("not exist"));
    assert!(refused(scalars("n", texts(1), &[true]), 2).contains("valid_data of field(n)"));
    let length = refused(vectors(2, 16), u32::MAX);
    assert_eq!(
        length,
        "the num_rows (2) of field (v) is not equal to passed num_rows (4294967295)"
    );
}

#[test]
fn fields_of_halves_take_floats() {
    let schema = Schema::builder()
        .field(FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key())
        .field(FieldSpec::new("v", DataType::Vector(VectorKind::Float16)).dim(2))
        .build()
        .unwrap();
    let columns = batch(&schema, vec![vectors(2, 16)], 2).unwrap().columns;
    let ColumnValues::Dense(halves) = &columns[0].values else { panic!("{columns:?}") };
    assert_eq!((halves.kind(), halves.bytes().len()), (VectorKind::Float16, 8));
    let refused = batch(&schema, vec![vectors(2, 12)], 2).unwrap_err().reason;
    assert!(refused.contains("field v"), "{refused}");
}
