//! The types of fields, and their names in the catalogue and in messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::VectorType;

/// A type whose values stand alone or as elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// True or false.
    Bool,
    /// Signed integer of 8 bits.
    Int8,
    /// Signed integer of 16 bits.
    Int16,
    /// Signed integer of 32 bits.
    Int32,
    /// Signed integer of 64 bits.
    Int64,
    /// IEEE 754 single precision.
    Float,
    /// IEEE 754 double precision.
    Double,
    /// An instant: microseconds since 1970-01-01T00:00:00 UTC, negative before.
    Timestamptz,
    /// UTF-8 text.
    VarChar,
}

impl ScalarType {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float,
        Self::Double,
        Self::Timestamptz,
        Self::VarChar,
    ];

    /// Bytes of a value; `None` where values differ in length.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Int8 => Some(1),
            Self::Int16 => Some(2),
            Self::Int32 | Self::Float => Some(4),
            Self::Int64 | Self::Double | Self::Timestamptz => Some(8),
            Self::VarChar => None,
        }
    }

    /// Smallest and largest value, of an integer type.
    pub const fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            Self::Int8 => Some((i8::MIN as i64, i8::MAX as i64)),
            Self::Int16 => Some((i16::MIN as i64, i16::MAX as i64)),
            Self::Int32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::Int64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Timestamptz => "timestamptz",
            Self::VarChar => "varchar",
        }
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the components of a vector are stored. All of these can be stored; those with an
/// [`engine_type`](Self::engine_type) can be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorKind {
    /// IEEE 754 single precision, little-endian.
    Float,
    /// Unsigned bytes.
    UInt8,
    /// Signed bytes.
    Int8,
    /// IEEE 754 half precision, little-endian.
    Float16,
    /// The upper half of a single, little-endian.
    BFloat16,
    /// Eight components per byte.
    Binary,
    /// Pairs of index (u32) and value (f32), little-endian, by ascending index.
    Sparse,
}

impl VectorKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Float,
        Self::UInt8,
        Self::Int8,
        Self::Float16,
        Self::BFloat16,
        Self::Binary,
        Self::Sparse,
    ];

    /// Bytes of a vector of `dim` components; `None` for sparse ones, which differ in length.
    /// A binary dimension is rounded down to whole bytes.
    pub const fn row_bytes(self, dim: usize) -> Option<usize> {
        match self {
            Self::Float => Some(dim * 4),
            Self::UInt8 | Self::Int8 => Some(dim),
            Self::Float16 | Self::BFloat16 => Some(dim * 2),
            Self::Binary => Some(dim / 8),
            Self::Sparse => None,
        }
    }

    /// The engine's name for it, where the engine can index it.
    pub const fn engine_type(self) -> Option<VectorType> {
        match self {
            Self::Float => Some(VectorType::F32),
            Self::UInt8 => Some(VectorType::U8),
            Self::Int8 => Some(VectorType::I8),
            Self::Float16 => Some(VectorType::F16),
            Self::BFloat16 => Some(VectorType::BF16),
            Self::Binary => Some(VectorType::Binary),
            Self::Sparse => None,
        }
    }

    /// The kind that the engine knows by this name.
    pub const fn of_engine(vector_type: VectorType) -> Self {
        match vector_type {
            VectorType::F32 => Self::Float,
            VectorType::U8 => Self::UInt8,
            VectorType::F16 => Self::Float16,
            VectorType::BF16 => Self::BFloat16,
            VectorType::I8 => Self::Int8,
            VectorType::Binary => Self::Binary,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Float => "float_vector",
            Self::UInt8 => "uint8_vector",
            Self::Int8 => "int8_vector",
            Self::Float16 => "float16_vector",
            Self::BFloat16 => "bfloat16_vector",
            Self::Binary => "binary_vector",
            Self::Sparse => "sparse_float_vector",
        }
    }
}

impl fmt::Display for VectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a field: what decides how its values are stored. Limits such as the length of
/// a text or the dimension of a vector belong to the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DataType {
    /// One scalar.
    Scalar(ScalarType),
    /// JSON text, kept as it was given.
    Json,
    /// Any number of scalars of one type.
    Array(ScalarType),
    /// A vector.
    Vector(VectorKind),
}

impl DataType {
    /// Bytes of a value inside the fixed part of a row; `None` where values differ in length
    /// or, as vectors, stand in the variable part.
    pub const fn fixed_width(self) -> Option<usize> {
        match self {
            Self::Scalar(scalar) => scalar.width(),
            Self::Json | Self::Array(_) | Self::Vector(_) => None,
        }
    }

    /// The kind of vector, of a vector type.
    pub const fn vector_kind(self) -> Option<VectorKind> {
        match self {
            Self::Vector(kind) => Some(kind),
            _ => None,
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let scalars = ScalarType::ALL.into_iter();
        scalars
            .clone()
            .map(Self::Scalar)
            .chain([Self::Json])
            .chain(scalars.map(Self::Array))
            .chain(VectorKind::ALL.into_iter().map(Self::Vector))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Json => f.write_str("json"),
            Self::Array(element) => write!(f, "array<{element}>"),
            Self::Vector(kind) => kind.fmt(f),
        }
    }
}

/// The name of no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown field type `{name}`")]
pub struct UnknownType {
    name: String,
}

impl FromStr for DataType {
    type Err = UnknownType;

    fn from_str(name: &str) -> Result<Self, UnknownType> {
        Self::all()
            .find(|known| known.to_string() == name)
            .ok_or_else(|| UnknownType { name: name.into() })
    }
}

impl TryFrom<String> for DataType {
    type Error = UnknownType;

    fn try_from(name: String) -> Result<Self, UnknownType> {
        name.parse()
    }
}

impl From<DataType> for String {
    fn from(data_type: DataType) -> Self {
        data_type.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_name() {
        for data_type in DataType::all() {
            assert_eq!(data_type.to_string().parse(), Ok(data_type));
        }
        assert_eq!(
            "int128".parse::<DataType>().unwrap_err().to_string(),
            "unknown field type `int128`"
        );
    }

    #[test]
    fn kinds_that_the_engine_knows_go_there_and_back() {
        for vector_type in VectorType::ALL {
            let kind = VectorKind::of_engine(vector_type);
            assert_eq!(kind.engine_type(), Some(vector_type));
            assert_eq!(kind.row_bytes(64), Some(vector_type.vector_bytes(64)));
        }
    }
}
