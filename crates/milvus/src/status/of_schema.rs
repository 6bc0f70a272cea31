//! Why a schema is refused, in the words that clients search for and the names of parameters that they
//! know.

use pipeann_db::schema::limits::{MAX_FIELDS, MAX_VECTOR_FIELDS};
use pipeann_db::schema::{FieldRule, SchemaError};
use pipeann_db::value::{DataType, ScalarType, VectorKind};

use super::CallFailure;

/// The refusal of a schema for the collection of this name.
pub(crate) fn refused(error: &SchemaError, collection: &str) -> CallFailure {
    let reason = match error {
        SchemaError::Field { field, rule } => of_field(field, rule, collection),
        SchemaError::NoPrimaryKey => Some("primary key is not specified".to_owned()),
        SchemaError::NoVector => Some("schema does not contain vector field".to_owned()),
        SchemaError::TooManyFields { .. } => {
            Some(format!("maximum field's number should be limited to {MAX_FIELDS}"))
        }
        SchemaError::TooManyVectors { .. } => {
            Some(format!("maximum vector field's number should be limited to {MAX_VECTOR_FIELDS}"))
        }
        _ => None,
    };
    CallFailure::parameter(match reason {
        Some(reason) => format!("{reason}: invalid parameter"),
        None => error.to_string(),
    })
}

fn of_field(field: &str, rule: &FieldRule, collection: &str) -> Option<String> {
    Some(match rule {
        FieldRule::Duplicate => format!("duplicated field name {field}"),
        FieldRule::Needs { parameter, .. } => needs(field, parameter, collection),
        FieldRule::Range { parameter: "dim", found, least, most, .. } if found < least => {
            format!("invalid dimension: {found}. should be in range {least} ~ {most}")
        }
        FieldRule::Range { parameter: "dim", found, least, most, data_type } => {
            let kind = match data_type {
                DataType::Vector(VectorKind::Binary) => "binary",
                _ => "float",
            };
            format!(
                "invalid dimension: {found} of field {field}. {kind} vector dimension should be in range {least} ~ {most}"
            )
        }
        FieldRule::Range { parameter: "max_bytes", found, most, .. } => format!(
            "the maximum length specified for the field({field}) should be in (0, {most}], but got {found} instead"
        ),
        FieldRule::Range { parameter: "max_capacity", most, .. } => {
            format!("the maximum capacity specified for a Array should be in (0, {most}]")
        }
        FieldRule::BinaryDim { dim } => format!(
            "invalid dimension: {dim} of field {field}. binary vector dimension should be multiple of 8. "
        ),
        FieldRule::Inapplicable { parameter: "max_bytes", .. } => {
            format!("can not modify the maxlength for non-string types, field {field}")
        }
        FieldRule::KeyNullable { role: "primary key" } => "primary field not support null".into(),
        FieldRule::KeyNullable { .. } => "partition key field not support nullable".into(),
        FieldRule::PrimaryKeyDefault => "primary field not support default_value".into(),
        FieldRule::NoDefault { data_type } => {
            format!("type not support default_value, type:{}, name:{field}", type_name(*data_type))
        }
        FieldRule::AddedRequired => {
            format!("added field must be nullable, please check it, field name = {field}")
        }
        FieldRule::Added { what: "primary key" } => {
            format!("not support to add pk field, field name = {field}")
        }
        // With the two blanks that it has everywhere.
        FieldRule::Added { what: "partition key" } => {
            format!("not support to add partition key field, field name  = {field}")
        }
        _ => return None,
    })
}

/// A type as Milvus writes it.
pub(crate) fn type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Scalar(scalar) => match scalar {
            ScalarType::Bool => "Bool",
            ScalarType::Int8 => "Int8",
            ScalarType::Int16 => "Int16",
            ScalarType::Int32 => "Int32",
            ScalarType::Int64 => "Int64",
            ScalarType::Float => "Float",
            ScalarType::Double => "Double",
            ScalarType::VarChar => "VarChar",
            ScalarType::Timestamptz => "Timestamptz",
        },
        DataType::Json => "JSON",
        DataType::Array(_) => "Array",
        DataType::Vector(kind) => match kind {
            VectorKind::Float => "FloatVector",
            VectorKind::Float16 => "Float16Vector",
            VectorKind::BFloat16 => "BFloat16Vector",
            VectorKind::Int8 => "Int8Vector",
            VectorKind::Binary => "BinaryVector",
            VectorKind::Sparse => "SparseFloatVector",
            VectorKind::UInt8 => "UInt8Vector",
        },
    }
}

/// What a field lacks, by the name that clients give it.
fn needs(field: &str, parameter: &str, collection: &str) -> String {
    match parameter {
        "dim" => format!(
            "dimension is not defined in field type params of field {field}, check type param `dim` for vector field"
        ),
        "max_capacity" => format!(
            "type param(max_capacity) should be specified for array field {field} of collection {collection}"
        ),
        _ => format!(
            "type param(max_length) should be specified for the field({field}) of collection {collection}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use pipeann_db::schema::{FieldSpec, Schema};
    use pipeann_db::value::Value;

    use super::*;

    fn reason(fields: Vec<FieldSpec>) -> String {
        let builder = fields.into_iter().fold(Schema::builder(), |all, field| all.field(field));
        refused(&builder.build().unwrap_err(), "docs").reason
    }

    fn key() -> FieldSpec {
        FieldSpec::new("id", DataType::Scalar(ScalarType::Int64)).primary_key()
    }

    fn vector(kind: VectorKind, dim: u32) -> FieldSpec {
        FieldSpec::new("v", DataType::Vector(kind)).dim(dim)
    }

    #[test]
    fn keys_and_defaults_are_refused_in_known_words() {
        let nullable =
            |field: FieldSpec| reason(vec![field.nullable(), vector(VectorKind::Float, 4)]);
        assert_eq!(nullable(key()), "primary field not support null: invalid parameter");
        let text = FieldSpec::new("t", DataType::Scalar(ScalarType::VarChar)).max_bytes(9);
        let keyed = FieldSpec { partition_key: true, nullable: true, ..text };
        assert_eq!(
            reason(vec![key(), keyed, vector(VectorKind::Float, 4)]),
            "partition key field not support nullable: invalid parameter"
        );
        let default = Some(Value::Int64(1));
        let with = FieldSpec { default: default.clone(), ..key() };
        assert_eq!(
            reason(vec![with, vector(VectorKind::Float, 4)]),
            "primary field not support default_value: invalid parameter"
        );
        let with = FieldSpec { default, ..vector(VectorKind::Float, 4) };
        assert_eq!(
            reason(vec![key(), with]),
            "type not support default_value, type:FloatVector, name:v: invalid parameter"
        );
    }

    #[test]
    fn schemas_are_refused_in_known_words() {
        let float = |dim| vector(VectorKind::Float, dim);
        assert_eq!(reason(vec![key()]), "schema does not contain vector field: invalid parameter");
        assert!(reason(vec![float(8)]).starts_with("primary key is not specified"));
        assert_eq!(
            reason(vec![key(), float(1)]),
            "invalid dimension: 1. should be in range 2 ~ 32768: invalid parameter"
        );
        assert!(
            reason(vec![key(), float(32769)])
                .contains("32769 of field v. float vector dimension should be in range 2 ~ 32768")
        );
        assert!(reason(vec![key(), vector(VectorKind::Binary, 12)]).contains("multiple of 8"));
        assert!(reason(vec![key(), float(8), float(8)]).starts_with("duplicated field name v:"));
        let bare = FieldSpec::new("v", DataType::Vector(VectorKind::Float));
        assert!(reason(vec![key(), bare]).starts_with("dimension is not defined"));
        let many = (0..64).map(|at| FieldSpec::new(format!("f{at}"), key().data_type));
        let many: Vec<FieldSpec> = [key(), float(8)].into_iter().chain(many).collect();
        assert!(reason(many).contains("maximum field's number should be limited to 64"));
    }

    #[test]
    fn parameters_have_the_names_that_clients_know() {
        let text = FieldSpec::new("t", DataType::Scalar(ScalarType::VarChar));
        assert!(reason(vec![key(), text.clone()]).contains(
            "type param(max_length) should be specified for the field(t) of collection docs"
        ));
        assert!(
            reason(vec![key(), text.max_bytes(65_536)])
                .contains("field(t) should be in (0, 65535], but got 65536 instead")
        );
        let array = FieldSpec::new("a", DataType::Array(ScalarType::Int64));
        assert!(reason(vec![key(), array]).contains("type param(max_capacity) should be"));
    }
}
