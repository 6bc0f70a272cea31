//! Schemas of every kind, and random rows that fit them.

use pipeann_db::schema::{Batch, Field, FieldSpec, PrimaryKey, Schema};
use pipeann_db::value::{
    Array, Arrays, Blobs, Column, ColumnValues, DataType, DenseVectors, ScalarType, Value,
    VectorKind,
};
use pipeann_engine::types::{SplitMix64, from_f32};

/// Numbers that depend on their seed only.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Keys are few, so that they meet.
const KEYS: u64 = 30;

/// All schemas, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Schema)> {
    let scalar = |name: &str, kind| FieldSpec::new(name, DataType::Scalar(kind));
    let vector = |name: &str, kind, dim| FieldSpec::new(name, DataType::Vector(kind)).dim(dim);
    let id = || scalar("id", ScalarType::Int64);
    let v = || vector("v", VectorKind::Float, 5);
    let built = |fields: Vec<FieldSpec>, dynamic| {
        let builder = fields.into_iter().fold(Schema::builder(), |all, field| all.field(field));
        builder.dynamic(dynamic).build().unwrap()
    };
    let texts = scalar("text", ScalarType::VarChar).max_bytes(40);
    vec![
        ("int64 key", built(vec![id().primary_key(), v()], false)),
        (
            "varchar key, dynamic field",
            built(
                vec![
                    scalar("name", ScalarType::VarChar).max_bytes(20).primary_key(),
                    v(),
                    scalar("flag", ScalarType::Bool).nullable(),
                ],
                true,
            ),
        ),
        (
            "automatic key, nullable fields, defaults",
            built(
                vec![
                    id().auto_id(),
                    v(),
                    texts.clone().nullable(),
                    scalar("small", ScalarType::Int8).default_value(Value::Int8(7)),
                    FieldSpec::new("json", DataType::Json).nullable(),
                ],
                false,
            ),
        ),
        (
            "partition key, several vectors",
            built(
                vec![
                    id().primary_key(),
                    texts.partition_key(),
                    vector("v", VectorKind::UInt8, 9),
                    vector("w", VectorKind::Float, 3),
                    vector("bits", VectorKind::Binary, 16),
                    FieldSpec::new("words", DataType::Vector(VectorKind::Sparse)),
                    FieldSpec::new("list", DataType::Array(ScalarType::Int32)).max_capacity(4),
                    scalar("when", ScalarType::Timestamptz),
                    scalar("number", ScalarType::Double),
                ],
                false,
            ),
        ),
        (
            "vectors of narrow types",
            built(
                vec![
                    id().primary_key(),
                    vector("half", VectorKind::Float16, 6),
                    vector("brain", VectorKind::BFloat16, 7),
                    vector("small", VectorKind::Int8, 9),
                    vector("bits", VectorKind::Binary, 64),
                ],
                false,
            ),
        ),
    ]
}

/// A key that may be there already.
pub(crate) fn key(schema: &Schema, numbers: &mut Numbers) -> PrimaryKey {
    let number = numbers.below(KEYS);
    match schema.primary_key().spec.data_type {
        DataType::Scalar(ScalarType::Int64) => PrimaryKey::Int64(number as i64 - 5),
        // Keys that are prefixes of each other, with a zero byte and without.
        _ => PrimaryKey::VarChar(format!("{}{}", number / 3, ["", "\0", "a"][number as usize % 3])),
    }
}

/// The values of a row by field; the key is given.
pub(crate) fn row(schema: &Schema, key: &PrimaryKey, numbers: &mut Numbers) -> Vec<Value> {
    schema.fields().iter().map(|field| value(field, key, numbers)).collect()
}

fn value(field: &Field, key: &PrimaryKey, numbers: &mut Numbers) -> Value {
    let spec = &field.spec;
    if spec.primary_key {
        return match key {
            PrimaryKey::Int64(key) => Value::Int64(*key),
            PrimaryKey::VarChar(key) => Value::VarChar(key.clone()),
        };
    }
    if spec.nullable && numbers.one_in(3) {
        return Value::Null;
    }
    let n = numbers.next();
    match spec.data_type {
        DataType::Scalar(ScalarType::Bool) => Value::Bool(n.is_multiple_of(2)),
        DataType::Scalar(ScalarType::Int8) => Value::Int8(n as i8),
        DataType::Scalar(ScalarType::Int64) => Value::Int64(n as i64),
        DataType::Scalar(ScalarType::Double) => Value::Double(n as f64 / 3.0),
        DataType::Scalar(ScalarType::Timestamptz) => Value::Timestamptz(n as i64),
        DataType::Scalar(ScalarType::VarChar) => Value::VarChar(format!("text {}", n % 50)),
        DataType::Json => Value::Json(format!("{{\"n\":{}}}", n % 1000)),
        DataType::Array(ScalarType::Int32) => {
            let some = (0..n % 4).map(|i| Value::Int32((n >> i) as i32)).collect::<Vec<_>>();
            let array = Array::collect(ScalarType::Int32, some.iter().map(Value::as_ref));
            Value::Array(array.unwrap())
        }
        DataType::Vector(kind) => Value::Vector(vector(kind, spec.dim.unwrap_or(0), numbers)),
        other => unreachable!("no schema here has a field of {other:?}"),
    }
}

/// A random vector that is easy to compare: components are small whole numbers.
pub(crate) fn vector(kind: VectorKind, dim: u32, numbers: &mut Numbers) -> Vec<u8> {
    match kind {
        VectorKind::Float => {
            (0..dim).flat_map(|_| (numbers.below(20) as f32 - 10.0).to_le_bytes()).collect()
        }
        VectorKind::UInt8 => (0..dim).map(|_| numbers.below(256) as u8).collect(),
        VectorKind::Binary => (0..dim / 8).map(|_| numbers.next() as u8).collect(),
        VectorKind::Sparse => (0..=numbers.below(4) as u32)
            .flat_map(|i| [(i * 7).to_le_bytes(), 1.5_f32.to_le_bytes()].concat())
            .collect(),
        VectorKind::Int8 | VectorKind::Float16 | VectorKind::BFloat16 => {
            let components: Vec<f32> = (0..dim).map(|_| numbers.below(20) as f32 - 10.0).collect();
            let vector_type = kind.engine_type().expect("the vectors are dense");
            let mut bytes = Vec::new();
            from_f32(&components, vector_type, &mut bytes);
            bytes
        }
    }
}

/// The rows as a batch; without keys where they are to be assigned.
pub(crate) fn batch(schema: &Schema, rows: &[Vec<Value>], with_keys: bool) -> Batch {
    let fields = schema.fields().iter().enumerate();
    let given = fields.filter(|(_, field)| with_keys || !field.spec.primary_key);
    let columns = given.map(|(at, field)| {
        let values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
        let valid: Vec<bool> = values.iter().map(|value| **value != Value::Null).collect();
        let column = Column::new(&field.spec.name, column(&field.spec, &values));
        if valid.iter().all(|valid| *valid) { column } else { column.with_validity(valid) }
    });
    Batch { rows: rows.len(), columns: columns.collect() }
}

/// The values of one field; a null leaves any placeholder.
fn column(spec: &FieldSpec, values: &[&Value]) -> ColumnValues {
    macro_rules! numbers {
        ($kind:ident) => {
            ColumnValues::$kind(
                values
                    .iter()
                    .map(|value| if let Value::$kind(v) = value { *v } else { Default::default() })
                    .collect(),
            )
        };
    }
    let text = |value: &&Value| match *value {
        Value::VarChar(text) | Value::Json(text) => text.clone(),
        _ => String::new(),
    };
    let bytes = |value: &&Value| match *value {
        Value::Vector(bytes) => bytes.clone(),
        other => unreachable!("vectors are never null here, nor {other:?}"),
    };
    match spec.data_type {
        DataType::Scalar(ScalarType::Bool) => numbers!(Bool),
        DataType::Scalar(ScalarType::Int8) => numbers!(Int8),
        DataType::Scalar(ScalarType::Int64) => numbers!(Int64),
        DataType::Scalar(ScalarType::Double) => numbers!(Double),
        DataType::Scalar(ScalarType::Timestamptz) => numbers!(Timestamptz),
        DataType::Scalar(ScalarType::VarChar) => {
            ColumnValues::VarChar(values.iter().map(text).collect())
        }
        DataType::Json => ColumnValues::Json(values.iter().map(text).collect()),
        DataType::Array(element) => {
            let mut arrays = Arrays::new(element);
            for value in values {
                let Value::Array(array) = value else { unreachable!("arrays are never null here") };
                arrays.push(array);
            }
            ColumnValues::Array(arrays)
        }
        DataType::Vector(VectorKind::Sparse) => {
            let mut blobs = Blobs::default();
            values.iter().for_each(|value| blobs.push(&bytes(value)));
            ColumnValues::Sparse(blobs)
        }
        DataType::Vector(kind) => {
            let dim = spec.dim.expect("a dense vector has a dimension") as usize;
            let all = values.iter().flat_map(bytes).collect();
            ColumnValues::Dense(DenseVectors::new(kind, dim, all).unwrap())
        }
        other => unreachable!("no schema here has a field of {other:?}"),
    }
}
