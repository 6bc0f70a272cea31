//! Types of fields, on the wire and in the database.

use pipeann_db::schema::FieldSpec;
use pipeann_db::value::{DataType, ScalarType, VectorKind};

use crate::proto::schema::DataType as Wire;
use crate::status::CallFailure;

const SCALARS: [(Wire, ScalarType); 9] = [
    (Wire::Bool, ScalarType::Bool),
    (Wire::Int8, ScalarType::Int8),
    (Wire::Int16, ScalarType::Int16),
    (Wire::Int32, ScalarType::Int32),
    (Wire::Int64, ScalarType::Int64),
    (Wire::Float, ScalarType::Float),
    (Wire::Double, ScalarType::Double),
    (Wire::Timestamptz, ScalarType::Timestamptz),
    (Wire::VarChar, ScalarType::VarChar),
];

const VECTORS: [(Wire, VectorKind); 6] = [
    (Wire::BinaryVector, VectorKind::Binary),
    (Wire::FloatVector, VectorKind::Float),
    (Wire::Float16Vector, VectorKind::Float16),
    (Wire::BFloat16Vector, VectorKind::BFloat16),
    (Wire::SparseFloatVector, VectorKind::Sparse),
    (Wire::Int8Vector, VectorKind::Int8),
];

fn scalar(number: i32) -> Option<ScalarType> {
    SCALARS.iter().find(|(wire, _)| *wire as i32 == number).map(|(_, scalar)| *scalar)
}

/// The name of a type of the wire, for messages.
fn name(number: i32) -> String {
    Wire::try_from(number).map_or_else(|_| number.to_string(), |wire| wire.as_str_name().to_owned())
}

/// The type of a field; arrays come with that of their elements.
pub(crate) fn from_wire(number: i32, element: i32) -> Result<DataType, CallFailure> {
    if let Some(scalar) = scalar(number) {
        return Ok(DataType::Scalar(scalar));
    }
    if let Some((_, kind)) = VECTORS.iter().find(|(wire, _)| *wire as i32 == number) {
        return Ok(DataType::Vector(*kind));
    }
    match Wire::try_from(number) {
        Ok(Wire::Json) => Ok(DataType::Json),
        Ok(Wire::Array) => scalar(element).map(DataType::Array).ok_or_else(|| {
            CallFailure::parameter(format!(
                "element type {} is not supported in arrays",
                name(element)
            ))
        }),
        _ => Err(CallFailure::parameter(format!(
            "field data type: {} is not supported",
            name(number)
        ))),
    }
}

fn of_scalar(scalar: ScalarType) -> Wire {
    let found = SCALARS.iter().find(|(_, known)| *known == scalar);
    found.map(|(wire, _)| *wire).expect("every scalar type is on the wire")
}

/// Type and element type of a field on the wire. Vectors of unsigned bytes, which only other doors
/// can make, are not on the wire.
pub(crate) fn to_wire(data_type: DataType) -> (Wire, Wire) {
    match data_type {
        DataType::Scalar(scalar) => (of_scalar(scalar), Wire::None),
        DataType::Json => (Wire::Json, Wire::None),
        DataType::Array(element) => (Wire::Array, of_scalar(element)),
        DataType::Vector(kind) => {
            let found = VECTORS.iter().find(|(_, known)| *known == kind);
            (found.map_or(Wire::None, |(wire, _)| *wire), Wire::None)
        }
    }
}

/// The dimension of a dense vector field, 0 of any other.
pub(crate) fn dim(spec: &FieldSpec) -> usize {
    spec.dim.map_or(0, |dim| dim as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_there_and_back() {
        for (wire, element) in SCALARS.iter().map(|(wire, _)| (*wire, Wire::None)).chain([
            (Wire::Json, Wire::None),
            (Wire::Array, Wire::VarChar),
            (Wire::FloatVector, Wire::None),
            (Wire::SparseFloatVector, Wire::None),
        ]) {
            let data_type = from_wire(wire as i32, element as i32).unwrap();
            assert_eq!(to_wire(data_type), (wire, element));
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let refused = |number, element| from_wire(number, element).unwrap_err().reason;
        assert!(refused(Wire::Geometry as i32, 0).contains("Geometry"));
        assert!(refused(999, 0).contains("999"));
        assert!(refused(Wire::Array as i32, Wire::Json as i32).contains("JSON"));
    }
}
