//! Which fields are indexed, and how.

use crate::schema::{FieldId, FieldSpec};
use crate::value::{DataType, ScalarType, Value};

/// A field that is indexed.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarColumn {
    /// Its id.
    pub field: FieldId,
    /// Type of its values, or of the elements of its arrays.
    pub scalar: ScalarType,
    /// Whether its values are arrays.
    pub array: bool,
    /// What a row that is older than the field holds in it.
    pub absent: Value,
}

impl ScalarColumn {
    /// How a field is indexed; `None` for JSON, the dynamic field and vectors, which are not.
    #[must_use]
    pub fn of(field: FieldId, spec: &FieldSpec) -> Option<Self> {
        let (scalar, array) = match spec.data_type {
            DataType::Scalar(scalar) => (scalar, false),
            DataType::Array(scalar) => (scalar, true),
            DataType::Json | DataType::Vector(_) => return None,
        };
        Some(Self { field, scalar, array, absent: spec.fallback().to_value() })
    }
}

/// The number of a type on disk.
pub(super) fn scalar_code(scalar: ScalarType) -> u8 {
    match scalar {
        ScalarType::Bool => 1,
        ScalarType::Int8 => 2,
        ScalarType::Int16 => 3,
        ScalarType::Int32 => 4,
        ScalarType::Int64 => 5,
        ScalarType::Float => 6,
        ScalarType::Double => 7,
        ScalarType::Timestamptz => 8,
        ScalarType::VarChar => 9,
    }
}

/// The type with this number.
pub(super) fn scalar_of_code(code: u8) -> Option<ScalarType> {
    ScalarType::ALL.into_iter().find(|scalar| scalar_code(*scalar) == code)
}
