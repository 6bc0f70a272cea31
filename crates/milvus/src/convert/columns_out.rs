//! Rows as clients are answered: a column for each field.
//!
//! Of a nullable field there is a value for each row, and marks say which ones count. A dynamic key of the
//! name of a field that was added later is not told: the field is what has that name since then.

use pipeann_db::collection::FoundRow;
use pipeann_db::schema::{Field, PrimaryKey, Schema};
use pipeann_db::value::{
    ArrayRef, DataType, ScalarType, Value, ValueRef, VectorKind, without_json_keys,
};

use super::instants;
use super::types::{dim, to_wire};
use crate::proto::schema::field_data::Field as Content;
use crate::proto::schema::i_ds::IdField;
use crate::proto::schema::scalar_field::Data;
use crate::proto::schema::vector_field::Data as Vectors;
use crate::proto::schema::{
    ArrayArray, BoolArray, DoubleArray, FieldData, FloatArray, IDs, IntArray, JsonArray, LongArray,
    PackedFloats, ScalarField, SparseFloatArray, StringArray, VectorField,
};

/// The columns of rows in which these fields were read, in this order.
pub(crate) fn columns(schema: &Schema, fields: &[&str], rows: &mut [FoundRow]) -> Vec<FieldData> {
    let fields = fields.iter().enumerate();
    let column = |(at, name): (usize, &&str)| {
        let field = schema.field(name).expect("the rows were read by this schema");
        let values = rows.iter_mut().map(|row| std::mem::replace(&mut row.values[at], Value::Null));
        let shadowing = if field.spec.is_dynamic() { added(schema) } else { &[] };
        match shadowing {
            [] => self::column(field, values),
            _ => self::column(field, values.map(|value| without_shadowed(value, shadowing))),
        }
    };
    fields.map(column).collect()
}

/// Fields that are there since after the dynamic one, which alone can have the name of a dynamic key.
fn added(schema: &Schema) -> &[Field] {
    schema.dynamic_position().map_or(&[], |at| &schema.fields()[at + 1..])
}

/// A value of the dynamic field without the keys that are names of these fields.
fn without_shadowed(value: Value, fields: &[Field]) -> Value {
    match value {
        Value::Json(text) => {
            let is_field = |key: &str| fields.iter().any(|field| field.spec.name == key);
            Value::Json(without_json_keys(&text, is_field).unwrap_or(text))
        }
        other => other,
    }
}

/// One column.
pub(crate) fn column(field: &Field, values: impl Iterator<Item = Value>) -> FieldData {
    let spec = &field.spec;
    let values: Vec<Value> = values.collect();
    let valid = |value: &Value| *value != Value::Null;
    let valid_data = if spec.nullable { values.iter().map(valid).collect() } else { Vec::new() };
    let content = match spec.data_type {
        DataType::Vector(kind) => Content::Vectors(vectors(kind, dim(spec), values)),
        DataType::Array(element) => {
            let data = values.iter().map(|value| elements(element, value)).collect();
            let element_type = to_wire(spec.data_type).1.into();
            Content::Scalars(ScalarField {
                data: Some(Data::ArrayData(ArrayArray { data, element_type })),
            })
        }
        DataType::Json => {
            let text = |value| match value {
                Value::Json(text) => text.into_bytes(),
                _ => Vec::new(),
            };
            let data = values.into_iter().map(text).collect();
            Content::Scalars(ScalarField { data: Some(Data::JsonData(JsonArray { data })) })
        }
        DataType::Scalar(scalar) => Content::Scalars(scalars(scalar, values)),
    };
    FieldData {
        r#type: to_wire(spec.data_type).0.into(),
        field_name: spec.name.clone(),
        field_id: field.id.0.into(),
        is_dynamic: spec.is_dynamic(),
        valid_data,
        field: Some(content),
    }
}

fn scalars(scalar: ScalarType, values: Vec<Value>) -> ScalarField {
    let values = values.into_iter();
    if scalar == ScalarType::VarChar {
        // Texts are moved, not copied.
        let text = |value| match value {
            Value::VarChar(text) => text,
            _ => String::new(),
        };
        let data = values.map(text).collect();
        return ScalarField { data: Some(Data::StringData(StringArray { data })) };
    }
    let values: Vec<Value> = values.collect();
    of_refs(scalar, values.iter().map(Value::as_ref))
}

/// Scalars of one type; a zero where there is none.
fn of_refs<'v>(scalar: ScalarType, values: impl Iterator<Item = ValueRef<'v>>) -> ScalarField {
    let data = match scalar {
        ScalarType::Bool => {
            let data = values.map(|value| matches!(value, ValueRef::Bool(true))).collect();
            Data::BoolData(BoolArray { data })
        }
        ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 => {
            let narrow = |value: ValueRef<'_>| value.integer().unwrap_or(0);
            let narrow = values.map(|value| i32::try_from(narrow(value)).unwrap_or(0));
            Data::IntData(IntArray { data: narrow.collect() })
        }
        ScalarType::Int64 => {
            let data = values.map(|value| value.integer().unwrap_or(0)).collect();
            Data::LongData(LongArray { data })
        }
        ScalarType::Float => {
            let float = |value| if let ValueRef::Float(value) = value { value } else { 0.0 };
            Data::FloatData(FloatArray { data: values.map(float).collect() })
        }
        ScalarType::Double => {
            let double = |value| if let ValueRef::Double(value) = value { value } else { 0.0 };
            Data::DoubleData(DoubleArray { data: values.map(double).collect() })
        }
        ScalarType::Timestamptz => {
            let text = |value| match value {
                ValueRef::Timestamptz(instant) => instants::print(instant),
                _ => String::new(),
            };
            Data::StringData(StringArray { data: values.map(text).collect() })
        }
        ScalarType::VarChar => {
            let text = |value| if let ValueRef::VarChar(text) = value { text } else { "" };
            let data = values.map(|value| text(value).to_owned()).collect();
            Data::StringData(StringArray { data })
        }
    };
    ScalarField { data: Some(data) }
}

/// The elements of one array.
fn elements(element: ScalarType, value: &Value) -> ScalarField {
    match value.as_ref() {
        ValueRef::Array(array) => of_refs(element, each(array)),
        _ => of_refs(element, std::iter::empty()),
    }
}

fn each(array: ArrayRef<'_>) -> impl Iterator<Item = ValueRef<'_>> {
    (0..array.len()).map(move |at| array.get(at))
}

fn vectors(kind: VectorKind, dim: usize, values: Vec<Value>) -> VectorField {
    let bytes = |value| match value {
        Value::Vector(bytes) => bytes,
        _ => Vec::new(),
    };
    let mut all = values.into_iter().map(bytes);
    let data = match kind {
        VectorKind::Sparse => {
            let contents: Vec<Vec<u8>> = all.collect();
            let dim = contents.iter().map(|row| sparse_dim(row)).max().unwrap_or(0);
            let sparse = SparseFloatArray { contents, dim };
            return VectorField { dim, data: Some(Vectors::SparseFloatVector(sparse)) };
        }
        _ => {
            let mut joined = all.next().unwrap_or_default();
            let row_bytes = joined.len();
            joined.reserve_exact(row_bytes * all.len());
            all.for_each(|row| joined.extend_from_slice(&row));
            joined
        }
    };
    let data = match kind {
        VectorKind::Float => Vectors::FloatVector(PackedFloats { data }),
        VectorKind::Float16 => Vectors::Float16Vector(data),
        VectorKind::BFloat16 => Vectors::Bfloat16Vector(data),
        VectorKind::Int8 => Vectors::Int8Vector(data),
        VectorKind::Binary | VectorKind::UInt8 | VectorKind::Sparse => Vectors::BinaryVector(data),
    };
    VectorField { dim: i64::try_from(dim).unwrap_or(i64::MAX), data: Some(data) }
}

/// One more than the largest index, which stands in the last pair.
fn sparse_dim(row: &[u8]) -> i64 {
    let pair = row.as_chunks::<8>().0.last();
    pair.map_or(0, |[a, b, c, d, ..]| i64::from(u32::from_le_bytes([*a, *b, *c, *d])) + 1)
}

/// Primary keys.
pub(crate) fn ids(schema: &Schema, keys: impl Iterator<Item = PrimaryKey>) -> IDs {
    use pipeann_db::schema::KeyType;
    let id_field = match schema.key_type() {
        KeyType::Int64 => {
            let number = |key| if let PrimaryKey::Int64(key) = key { Some(key) } else { None };
            IdField::IntId(LongArray { data: keys.filter_map(number).collect() })
        }
        KeyType::VarChar => {
            let text = |key| if let PrimaryKey::VarChar(key) = key { Some(key) } else { None };
            IdField::StrId(StringArray { data: keys.filter_map(text).collect() })
        }
    };
    IDs { id_field: Some(id_field) }
}

#[cfg(test)]
mod tests {
    use pipeann_db::schema::{FieldId, FieldSpec};
    use pipeann_db::value::Array;

    use super::*;

    fn field(data_type: DataType) -> Field {
        let spec = FieldSpec::new("f", data_type).nullable();
        Field { id: FieldId(101), spec }
    }

    #[test]
    fn a_missing_value_is_marked_and_has_a_place() {
        let column = column(
            &field(DataType::Scalar(ScalarType::Int16)),
            [Value::Int16(3), Value::Null].into_iter(),
        );
        assert_eq!(column.valid_data, [true, false]);
        let data = Some(Data::IntData(IntArray { data: vec![3, 0] }));
        assert_eq!(column.field, Some(Content::Scalars(ScalarField { data })));
        assert_eq!((column.field_id, column.is_dynamic), (101, false));
    }

    #[test]
    fn dynamic_keys_of_the_name_of_a_field_are_told_until_it_is_added() {
        let field = |name, data_type| FieldSpec::new(name, data_type);
        let before = Schema::builder()
            .field(field("id", DataType::Scalar(ScalarType::Int64)).primary_key())
            .field(field("v", DataType::Vector(VectorKind::Float)).dim(2))
            .dynamic(true)
            .build()
            .unwrap();
        assert!(added(&before).is_empty());
        let price = field("price", DataType::Scalar(ScalarType::Int64)).nullable();
        let after = before.with_field(price).unwrap();
        let told = |text: &str| without_shadowed(Value::Json(text.into()), added(&after));
        assert_eq!(told(r#"{"price":1,"id":2}"#), Value::Json(r#"{"id":2}"#.into()));
        assert_eq!(told(r#"{ "a": 1 }"#), Value::Json(r#"{ "a": 1 }"#.into()));
    }

    #[test]
    fn arrays_and_vectors_keep_their_rows() {
        let texts = ["a", "b"].map(ValueRef::VarChar);
        let array = Array::collect(ScalarType::VarChar, texts).unwrap();
        let rows = [Value::Array(array), Value::Null].into_iter();
        let found = column(&field(DataType::Array(ScalarType::VarChar)), rows);
        let Some(Content::Scalars(ScalarField { data: Some(Data::ArrayData(rows)) })) = found.field
        else {
            panic!("arrays")
        };
        let texts = |data: &[&str]| {
            let data = data.iter().map(|text| (*text).to_owned()).collect();
            ScalarField { data: Some(Data::StringData(StringArray { data })) }
        };
        assert_eq!(rows.data, [texts(&["a", "b"]), texts(&[])]);
        let two = [Value::Vector(vec![1; 8]), Value::Vector(vec![2; 8])];
        let vectors = vectors(VectorKind::Float, 2, two.to_vec());
        let joined = PackedFloats { data: [[1; 8], [2; 8]].concat() };
        assert_eq!(vectors, VectorField { dim: 2, data: Some(Vectors::FloatVector(joined)) });
    }

    #[test]
    fn a_sparse_vector_has_as_many_dimensions_as_its_last_index_asks_for() {
        let pair = |index: u32| [index.to_le_bytes(), 1f32.to_le_bytes()].concat();
        assert_eq!(sparse_dim(&[]), 0);
        assert_eq!(sparse_dim(&[pair(3), pair(u32::MAX - 1)].concat()), i64::from(u32::MAX));
    }
}
