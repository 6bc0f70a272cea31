//! The rules of one field, and of one value of it.

use pipeann_engine::types::Unfit;

use super::error::{FieldRule, SchemaError, ValueFault};
use super::field::FieldSpec;
use super::limits::{
    AUTO_ID_TEXT_BYTES, MAX_ARRAY_CAPACITY, MAX_DIM, MAX_JSON_BYTES, MAX_VARCHAR_BYTES, MIN_DIM,
};
use super::name::check_name;
use crate::value::{
    DataType, ScalarType, Value, ValueRef, VectorKind, check_json, check_sparse, unfit,
};

/// Names that Milvus gives to fields of its own, which clients therefore cannot use.
const RESERVED_NAMES: [&str; 2] = ["RowID", "Timestamp"];

/// Checks a field that a user declares.
pub(super) fn check_field(spec: &FieldSpec) -> Result<(), SchemaError> {
    check_name("field", &spec.name)?;
    check_rules(spec).map_err(|rule| SchemaError::Field { field: spec.name.clone(), rule })
}

fn check_rules(spec: &FieldSpec) -> Result<(), FieldRule> {
    if RESERVED_NAMES.contains(&spec.name.as_str()) {
        return Err(FieldRule::ReservedName);
    }
    check_parameters(spec)?;
    check_roles(spec)?;
    let data_type = spec.data_type;
    if spec.nullable && data_type.vector_kind().is_some() {
        return Err(FieldRule::NullableVector);
    }
    if let DataType::Array(element @ ScalarType::Timestamptz) = data_type {
        return Err(FieldRule::ElementType { element });
    }
    let Some(default) = &spec.default else { return Ok(()) };
    let DataType::Scalar(scalar) = data_type else {
        return Err(FieldRule::NoDefault { data_type });
    };
    if default.as_ref().scalar_type() != Some(scalar) {
        return Err(FieldRule::DefaultType { data_type });
    }
    check_value(spec, default.as_ref()).map_err(FieldRule::Default)
}

fn check_parameters(spec: &FieldSpec) -> Result<(), FieldRule> {
    let data_type = spec.data_type;
    let has_dim = data_type.vector_kind().is_some_and(|kind| kind != VectorKind::Sparse);
    let is_array = matches!(data_type, DataType::Array(_));
    for (parameter, value, applies, least, most) in [
        ("max_bytes", spec.max_bytes, spec.holds_texts(), 1, MAX_VARCHAR_BYTES),
        ("max_capacity", spec.max_capacity, is_array, 1, MAX_ARRAY_CAPACITY),
        ("dim", spec.dim, has_dim, MIN_DIM, MAX_DIM),
    ] {
        match value {
            None if applies => return Err(FieldRule::Needs { parameter, data_type }),
            Some(_) if !applies => return Err(FieldRule::Inapplicable { parameter, data_type }),
            Some(found) if !(least..=most).contains(&found) => {
                return Err(FieldRule::Range { data_type, parameter, found, least, most });
            }
            _ => {}
        }
    }
    match spec.dim {
        Some(dim)
            if data_type.vector_kind() == Some(VectorKind::Binary) && !dim.is_multiple_of(8) =>
        {
            Err(FieldRule::BinaryDim { dim })
        }
        _ => Ok(()),
    }
}

fn check_roles(spec: &FieldSpec) -> Result<(), FieldRule> {
    if spec.auto_id && !spec.primary_key {
        return Err(FieldRule::AutoIdWithoutKey);
    }
    if spec.primary_key && spec.partition_key {
        return Err(FieldRule::BothKeys);
    }
    let role = match (spec.primary_key, spec.partition_key) {
        (true, _) => "primary key",
        (_, true) => "partition key",
        _ => return Ok(()),
    };
    match spec.data_type {
        DataType::Scalar(ScalarType::Int64 | ScalarType::VarChar) => {}
        found => return Err(FieldRule::KeyType { role, found }),
    }
    if spec.nullable {
        return Err(FieldRule::KeyNullable { role });
    }
    if spec.primary_key && spec.default.is_some() {
        return Err(FieldRule::PrimaryKeyDefault);
    }
    if spec.auto_id && spec.max_bytes.is_some_and(|bytes| bytes < AUTO_ID_TEXT_BYTES) {
        return Err(FieldRule::AutoIdBytes);
    }
    Ok(())
}

/// The rules of a field that is added to a collection with rows.
pub(super) fn check_added(spec: &FieldSpec) -> Result<(), SchemaError> {
    let broken = |rule| Err(SchemaError::Field { field: spec.name.clone(), rule });
    let what = match spec {
        FieldSpec { primary_key: true, .. } => "primary key",
        FieldSpec { partition_key: true, .. } => "partition key",
        spec if spec.data_type.vector_kind().is_some() => "vector field",
        spec if spec.is_required() => return broken(FieldRule::AddedRequired),
        _ => return check_field(spec),
    };
    broken(FieldRule::Added { what })
}

/// Checks a value of the field's type, which is not null.
pub(super) fn check_value(spec: &FieldSpec, value: ValueRef<'_>) -> Result<(), ValueFault> {
    match value {
        ValueRef::Float(v) if !v.is_finite() => Err(ValueFault::NotFinite),
        ValueRef::Double(v) if !v.is_finite() => Err(ValueFault::NotFinite),
        ValueRef::VarChar(text) => {
            let most = spec.max_bytes.expect("a field of texts bounds them");
            let bytes = text.len();
            if bytes > most as usize { Err(ValueFault::TooLong { bytes, most }) } else { Ok(()) }
        }
        ValueRef::Json(text) => {
            check_json_length(text)?;
            Ok(check_json(text)?)
        }
        ValueRef::Array(array) => {
            let most = spec.max_capacity.expect("an array field bounds its elements");
            let elements = array.len();
            if elements > most as usize {
                return Err(ValueFault::TooManyElements { elements, most });
            }
            for (at, element) in array.iter().enumerate() {
                check_value(spec, element)
                    .map_err(|fault| ValueFault::Element { at, fault: Box::new(fault) })?;
            }
            Ok(())
        }
        ValueRef::Vector(bytes) => match spec.data_type.vector_kind() {
            Some(VectorKind::Sparse) => Ok(check_sparse(bytes)?),
            Some(kind) => match unfit(kind, bytes) {
                None => Ok(()),
                Some(Unfit::NotFinite(_)) => Err(ValueFault::NotFinite),
                Some(Unfit::Norm(_)) => Err(ValueFault::Norm),
            },
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Bounds JSON before it is parsed.
pub(super) fn check_json_length(text: &str) -> Result<(), ValueFault> {
    let bytes = text.len();
    if bytes > MAX_JSON_BYTES { Err(ValueFault::JsonTooLong { bytes }) } else { Ok(()) }
}

/// What a row that is older than the field holds in it.
pub(super) fn absent(spec: &FieldSpec) -> Value {
    spec.fallback().to_value()
}
