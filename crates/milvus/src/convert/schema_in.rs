//! Schemas as clients declare them.

use pipeann_db::schema::limits::{MAX_DIM, MIN_DIM};
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, ScalarType, Value};

use super::parameters::properties;
use super::types::from_wire;
use super::{instants, names};
use crate::proto::schema::value_field::Data;
use crate::proto::schema::{CollectionSchema, FieldSchema, ValueField};
use crate::status::{CallFailure, refused, type_name};

/// Parameters of a field that the schema itself has a place for.
pub(crate) const DIM: &str = "dim";
pub(crate) const MAX_LENGTH: &str = "max_length";
pub(crate) const MAX_CAPACITY: &str = "max_capacity";
/// Would have words of a text looked up by `TEXT_MATCH`.
const MATCH: &str = "enable_match";
/// The property by which a field is known as the clustering key. It is told, and nothing is sorted by it.
pub(crate) const CLUSTERING_KEY: &str = "pipeann.clustering_key";

/// The schema of a new collection.
pub(crate) fn schema(wire: CollectionSchema) -> Result<Schema, CallFailure> {
    if let Some(function) = wire.functions.first() {
        return Err(CallFailure::unsupported(format!(
            "the function `{}` in a schema",
            function.name
        )));
    }
    if let Some(field) = wire.struct_array_fields.first() {
        return Err(CallFailure::unsupported(format!("the array of structures `{}`", field.name)));
    }
    check_clustering_key(&wire.fields)?;
    let (auto_id, collection) = (wire.auto_id, wire.name);
    let mut builder = Schema::builder().description(wire.description);
    for mut field in wire.fields {
        if field.is_dynamic {
            // The database declares it itself.
            continue;
        }
        field.auto_id |= auto_id && field.is_primary_key;
        builder = builder.field(self::field(field)?);
    }
    let built = builder.dynamic(wire.enable_dynamic_field).build();
    built.map_err(|error| refused(&error, &collection))
}

/// A collection may have one clustering key, which is no vector.
fn check_clustering_key(fields: &[FieldSchema]) -> Result<(), CallFailure> {
    let mut keys = fields.iter().filter(|field| field.is_clustering_key);
    let Some(key) = keys.next() else { return Ok(()) };
    if let Some(other) = keys.next() {
        return Err(CallFailure::parameter(format!(
            "there are more than one clustering key, field name = {}, {}",
            key.name, other.name
        )));
    }
    match from_wire(key.data_type, key.element_type)? {
        DataType::Vector(_) => {
            Err(CallFailure::parameter(format!("vector clustering key not allowed: {}", key.name)))
        }
        _ => Ok(()),
    }
}

/// One field.
pub(crate) fn field(wire: FieldSchema) -> Result<FieldSpec, CallFailure> {
    let name = wire.name;
    names::field(&name)?;
    let data_type = from_wire(wire.data_type, wire.element_type)?;
    let mut kept = properties(wire.type_params);
    if kept.get(MATCH).is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Err(CallFailure::unsupported(format!(
            "text match ({MATCH}) of the field `{name}`"
        )));
    }
    if wire.is_clustering_key {
        kept.insert(CLUSTERING_KEY.to_owned(), "true".to_owned());
    }
    let mut number = |parameter: &str| {
        let parse = |text: String| {
            text.trim().parse::<u32>().map_err(|_| {
                let below = parameter == DIM && text.trim().parse::<i64>().is_ok_and(|dim| dim < 0);
                CallFailure::parameter(match below {
                    true => format!(
                        "invalid dimension: {text}. should be in range {MIN_DIM} ~ {MAX_DIM}: invalid parameter"
                    ),
                    false => format!("invalid {parameter}: {text} of field {name}"),
                })
            })
        };
        kept.remove(parameter).map(parse).transpose()
    };
    let (dim, max_bytes) = (number(DIM)?, number(MAX_LENGTH)?);
    let max_capacity = number(MAX_CAPACITY)?;
    let default = wire.default_value.map(|value| default_value(&name, data_type, value));
    let is_text = matches!(
        data_type,
        DataType::Scalar(ScalarType::VarChar) | DataType::Array(ScalarType::VarChar)
    );
    Ok(FieldSpec {
        data_type,
        description: wire.description,
        primary_key: wire.is_primary_key,
        auto_id: wire.auto_id,
        partition_key: wire.is_partition_key,
        nullable: wire.nullable,
        default: default.transpose()?.flatten(),
        // Some clients send a length with every field.
        max_bytes: max_bytes.filter(|_| is_text),
        max_capacity,
        dim,
        properties: kept,
        name,
    })
}

/// The default of a field, none where no value is set.
fn default_value(
    name: &str,
    data_type: DataType,
    value: ValueField,
) -> Result<Option<Value>, CallFailure> {
    let Some(data) = value.data else { return Ok(None) };
    let given = match &data {
        Data::BoolData(_) => "Bool",
        Data::IntData(_) => "Int",
        Data::LongData(_) => "Int64",
        Data::FloatData(_) => "Float",
        Data::DoubleData(_) => "Double",
        Data::StringData(_) => "VarChar",
        Data::TimestamptzData(_) => "Timestamptz",
        Data::BytesData(_) => "JSON",
    };
    let wrong = || {
        let expected = type_name(data_type);
        CallFailure::parameter(format!(
            "type ({expected}) of field ({name}) is not equal to the type(DataType_{given}) of default_value: invalid parameter"
        ))
    };
    let beyond = |number: i32, (least, most): (i32, i32)| {
        CallFailure::parameter(format!(
            "default value out of range: invalid parameter[{number} out of range {least} <= value <= {most}]"
        ))
    };
    let value = match (data_type, data) {
        (DataType::Scalar(ScalarType::Int8), Data::IntData(number)) => {
            let range = (i8::MIN.into(), i8::MAX.into());
            Value::Int8(number.try_into().map_err(|_| beyond(number, range))?)
        }
        (DataType::Scalar(ScalarType::Int16), Data::IntData(number)) => {
            let range = (i16::MIN.into(), i16::MAX.into());
            Value::Int16(number.try_into().map_err(|_| beyond(number, range))?)
        }
        (DataType::Scalar(ScalarType::Int32), Data::IntData(number)) => Value::Int32(number),
        (DataType::Scalar(ScalarType::Int64), Data::LongData(number)) => Value::Int64(number),
        (DataType::Scalar(ScalarType::Timestamptz), Data::LongData(number)) => {
            Value::Timestamptz(number)
        }
        (DataType::Scalar(ScalarType::Bool), Data::BoolData(value)) => Value::Bool(value),
        (DataType::Scalar(ScalarType::Float), Data::FloatData(value)) => Value::Float(value),
        (DataType::Scalar(ScalarType::Double), Data::DoubleData(value)) => Value::Double(value),
        (DataType::Scalar(ScalarType::VarChar), Data::StringData(text)) => Value::VarChar(text),
        (DataType::Scalar(ScalarType::Timestamptz), Data::TimestamptzData(value)) => {
            Value::Timestamptz(value)
        }
        (DataType::Scalar(ScalarType::Timestamptz), Data::StringData(text)) => {
            Value::Timestamptz(instants::parse(&text).ok_or_else(wrong)?)
        }
        (DataType::Json, Data::BytesData(text)) => {
            Value::Json(String::from_utf8(text).map_err(|_| wrong())?)
        }
        _ => return Err(wrong()),
    };
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::pair;
    use super::super::schema_out;
    use super::*;
    use crate::proto::schema::DataType as Wire;

    fn wire_field(name: &str, data_type: Wire) -> FieldSchema {
        FieldSchema { name: name.into(), data_type: data_type.into(), ..FieldSchema::default() }
    }

    fn declared() -> CollectionSchema {
        let key = FieldSchema { is_primary_key: true, ..wire_field("id", Wire::Int64) };
        let type_params = vec![pair("dim", "8"), pair("mmap.enabled", "true")];
        let vector = FieldSchema { type_params, ..wire_field("v", Wire::FloatVector) };
        let small = FieldSchema {
            nullable: true,
            is_clustering_key: true,
            default_value: Some(ValueField { data: Some(Data::IntData(7)) }),
            ..wire_field("small", Wire::Int8)
        };
        let tags = FieldSchema {
            element_type: Wire::VarChar.into(),
            type_params: vec![pair("max_length", "16"), pair("max_capacity", "4")],
            ..wire_field("tags", Wire::Array)
        };
        CollectionSchema {
            description: "d".into(),
            fields: vec![key, vector, small, tags],
            enable_dynamic_field: true,
            ..CollectionSchema::default()
        }
    }

    #[test]
    fn a_schema_comes_back_as_it_was_declared() {
        let schema = schema(declared()).unwrap();
        assert_eq!(schema.field("small").unwrap().spec.default, Some(Value::Int8(7)));
        let mut back = schema_out::schema("c", &schema);
        assert_eq!(back.name, "c");
        back.name.clear();
        for (at, field) in back.fields.iter_mut().enumerate() {
            assert_eq!(field.field_id, 100 + at as i64);
            field.field_id = 0;
        }
        assert_eq!(back, declared());
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let refused = |change: &dyn Fn(&mut CollectionSchema)| {
            let mut wire = declared();
            change(&mut wire);
            schema(wire).unwrap_err().reason
        };
        assert!(refused(&|wire| wire.functions.push(Default::default())).contains("function"));
        assert!(
            refused(&|wire| wire.struct_array_fields.push(Default::default()))
                .contains("structures")
        );
        assert!(
            refused(&|wire| wire.fields[2].data_type = Wire::Geometry.into()).contains("Geometry")
        );
        assert!(
            refused(&|wire| wire.fields[1].type_params[0].value = "many".into())
                .contains("invalid dim: many")
        );
        let matched = |value: &str| vec![pair("max_length", "8"), pair("enable_match", value)];
        let text = FieldSchema { type_params: matched("True"), ..wire_field("t", Wire::VarChar) };
        let words = "text match (enable_match) of the field `t` is not supported by this server";
        assert_eq!(refused(&|wire| wire.fields.push(text.clone())), words);
        let mut wire = declared();
        let type_params = [matched("false"), vec![pair("enable_analyzer", "true")]].concat();
        wire.fields.push(FieldSchema { type_params, ..text.clone() });
        assert!(schema(wire).is_ok(), "what only prepares for it is kept");
        let two = |wire: &mut CollectionSchema| wire.fields[0].is_clustering_key = true;
        assert!(refused(&two).ends_with("more than one clustering key, field name = id, small"));
        let vector = refused(&|wire| {
            wire.fields[1].is_clustering_key = true;
            wire.fields[2].is_clustering_key = false;
        });
        assert_eq!(vector, "vector clustering key not allowed: v");
        let text = ValueField { data: Some(Data::StringData("x".into())) };
        assert!(
            refused(&|wire| wire.fields[2].default_value = Some(text.clone()))
                .contains("is not equal to the type(DataType_VarChar) of default_value")
        );
    }
}
