//! Schemas as clients are told them.

use pipeann_db::catalog::NOTED;
use pipeann_db::schema::{Field, Schema};
use pipeann_db::value::Value;

use super::parameters::{pair, pairs};
use super::schema_in::{CLUSTERING_KEY, DIM, MAX_CAPACITY, MAX_LENGTH};
use super::types::to_wire;
use crate::proto::schema::value_field::Data;
use crate::proto::schema::{CollectionSchema, FieldSchema, ValueField};

/// The schema of a collection. The dynamic field is told by a flag, and is not among the fields.
pub(crate) fn schema(name: &str, schema: &Schema) -> CollectionSchema {
    let declared = schema.fields().iter().filter(|field| !field.spec.is_dynamic());
    CollectionSchema {
        name: name.to_owned(),
        description: schema.description().to_owned(),
        fields: declared.map(field).collect(),
        enable_dynamic_field: schema.dynamic_position().is_some(),
        ..CollectionSchema::default()
    }
}

fn field(field: &Field) -> FieldSchema {
    let spec = &field.spec;
    let (data_type, element_type) = to_wire(spec.data_type);
    let limits = [(DIM, spec.dim), (MAX_LENGTH, spec.max_bytes), (MAX_CAPACITY, spec.max_capacity)];
    let limits =
        limits.into_iter().filter_map(|(name, limit)| Some(pair(name, limit?.to_string())));
    let mut kept = pairs(&spec.properties);
    kept.retain(|pair| !pair.key.starts_with(NOTED));
    FieldSchema {
        field_id: i64::from(field.id.0),
        name: spec.name.clone(),
        is_primary_key: spec.primary_key,
        description: spec.description.clone(),
        data_type: data_type.into(),
        type_params: limits.chain(kept).collect(),
        auto_id: spec.auto_id,
        element_type: element_type.into(),
        default_value: spec.default.as_ref().map(default_value),
        is_dynamic: false,
        is_partition_key: spec.partition_key,
        is_clustering_key: spec.properties.contains_key(CLUSTERING_KEY),
        nullable: spec.nullable,
    }
}

fn default_value(value: &Value) -> ValueField {
    let data = match value {
        Value::Bool(value) => Data::BoolData(*value),
        Value::Int8(value) => Data::IntData((*value).into()),
        Value::Int16(value) => Data::IntData((*value).into()),
        Value::Int32(value) => Data::IntData(*value),
        Value::Int64(value) => Data::LongData(*value),
        Value::Float(value) => Data::FloatData(*value),
        Value::Double(value) => Data::DoubleData(*value),
        Value::Timestamptz(value) => Data::TimestamptzData(*value),
        Value::VarChar(text) => Data::StringData(text.clone()),
        Value::Json(text) => Data::BytesData(text.clone().into_bytes()),
        Value::Null | Value::Array(_) | Value::Vector(_) => return ValueField::default(),
    };
    ValueField { data: Some(data) }
}
