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

/// One field.
pub(crate) fn field(wire: FieldSchema) -> Result<FieldSpec, CallFailure> {
    let name = wire.name;
    names::field(&name)?;
    let data_type = from_wire(wire.data_type, wire.element_type)?;
    let mut kept = properties(wire.type_params);
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
        let text = ValueField { data: Some(Data::StringData("x".into())) };
        assert!(
            refused(&|wire| wire.fields[2].default_value = Some(text.clone()))
                .contains("is not equal to the type(DataType_VarChar) of default_value")
        );
    }
}
