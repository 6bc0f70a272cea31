//! One value, borrowed or owned.

use serde::{Deserialize, Serialize};

use super::array::{Array, ArrayRef};
use super::types::ScalarType;

/// A value, borrowed from a column or a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Signed integer of 8 bits.
    Int8(i8),
    /// Signed integer of 16 bits.
    Int16(i16),
    /// Signed integer of 32 bits.
    Int32(i32),
    /// Signed integer of 64 bits.
    Int64(i64),
    /// IEEE 754 single precision.
    Float(f32),
    /// IEEE 754 double precision.
    Double(f64),
    /// Microseconds since 1970-01-01T00:00:00 UTC.
    Timestamptz(i64),
    /// UTF-8 text.
    VarChar(&'a str),
    /// JSON text, as it was given.
    Json(&'a str),
    /// Scalars of one type.
    Array(ArrayRef<'a>),
    /// The bytes of a vector, as its kind lays them out.
    Vector(&'a [u8]),
}

impl ValueRef<'_> {
    /// Whether there is no value.
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// The scalar type; `None` of null, JSON, arrays and vectors.
    pub fn scalar_type(self) -> Option<ScalarType> {
        Some(match self {
            Self::Bool(_) => ScalarType::Bool,
            Self::Int8(_) => ScalarType::Int8,
            Self::Int16(_) => ScalarType::Int16,
            Self::Int32(_) => ScalarType::Int32,
            Self::Int64(_) => ScalarType::Int64,
            Self::Float(_) => ScalarType::Float,
            Self::Double(_) => ScalarType::Double,
            Self::Timestamptz(_) => ScalarType::Timestamptz,
            Self::VarChar(_) => ScalarType::VarChar,
            Self::Null | Self::Json(_) | Self::Array(_) | Self::Vector(_) => return None,
        })
    }

    /// The number, of an integer of any width; `None` of everything else.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Int8(v) => Some(v.into()),
            Self::Int16(v) => Some(v.into()),
            Self::Int32(v) => Some(v.into()),
            Self::Int64(v) => Some(v),
            _ => None,
        }
    }

    /// The same integer in another width; `None` where it does not fit, or one of the two
    /// types is no integer. Other values of the very same type come back as they are.
    #[must_use]
    pub fn with_type(self, wanted: ScalarType) -> Option<Self> {
        let Some(integer) = self.integer() else {
            return (self.scalar_type() == Some(wanted)).then_some(self);
        };
        match wanted {
            ScalarType::Int8 => integer.try_into().ok().map(Self::Int8),
            ScalarType::Int16 => integer.try_into().ok().map(Self::Int16),
            ScalarType::Int32 => integer.try_into().ok().map(Self::Int32),
            ScalarType::Int64 => Some(Self::Int64(integer)),
            _ => None,
        }
    }

    /// An owned copy.
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(v) => Value::Bool(v),
            Self::Int8(v) => Value::Int8(v),
            Self::Int16(v) => Value::Int16(v),
            Self::Int32(v) => Value::Int32(v),
            Self::Int64(v) => Value::Int64(v),
            Self::Float(v) => Value::Float(v),
            Self::Double(v) => Value::Double(v),
            Self::Timestamptz(v) => Value::Timestamptz(v),
            Self::VarChar(v) => Value::VarChar(v.into()),
            Self::Json(v) => Value::Json(v.into()),
            Self::Array(v) => Value::Array(v.to_array()),
            Self::Vector(v) => Value::Vector(v.into()),
        }
    }
}

/// A value on its own. As a default in the catalogue it is written by name of its type, for
/// instance `{"int64":5}`; arrays and vectors have no such form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Signed integer of 8 bits.
    Int8(i8),
    /// Signed integer of 16 bits.
    Int16(i16),
    /// Signed integer of 32 bits.
    Int32(i32),
    /// Signed integer of 64 bits.
    Int64(i64),
    /// IEEE 754 single precision.
    Float(f32),
    /// IEEE 754 double precision.
    Double(f64),
    /// Microseconds since 1970-01-01T00:00:00 UTC.
    Timestamptz(i64),
    /// UTF-8 text.
    VarChar(String),
    /// JSON text, as it was given.
    Json(String),
    /// Scalars of one type.
    #[serde(skip)]
    Array(Array),
    /// The bytes of a vector, as its kind lays them out.
    #[serde(skip)]
    Vector(Vec<u8>),
}

impl Value {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let apart = match self {
            Self::VarChar(text) | Self::Json(text) => text.len(),
            Self::Array(array) => array.as_ref().bytes().len(),
            Self::Vector(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Self>() + apart
    }

    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(v) => ValueRef::Bool(*v),
            Self::Int8(v) => ValueRef::Int8(*v),
            Self::Int16(v) => ValueRef::Int16(*v),
            Self::Int32(v) => ValueRef::Int32(*v),
            Self::Int64(v) => ValueRef::Int64(*v),
            Self::Float(v) => ValueRef::Float(*v),
            Self::Double(v) => ValueRef::Double(*v),
            Self::Timestamptz(v) => ValueRef::Timestamptz(*v),
            Self::VarChar(v) => ValueRef::VarChar(v),
            Self::Json(v) => ValueRef::Json(v),
            Self::Array(v) => ValueRef::Array(v.as_ref()),
            Self::Vector(v) => ValueRef::Vector(v),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_change_their_width_where_they_fit() {
        let wide = ValueRef::Int64(-128);
        assert_eq!(wide.with_type(ScalarType::Int8), Some(ValueRef::Int8(-128)));
        assert_eq!(ValueRef::Int32(128).with_type(ScalarType::Int8), None);
        assert_eq!(ValueRef::Int8(5).with_type(ScalarType::Int64), Some(ValueRef::Int64(5)));
        assert_eq!(wide.with_type(ScalarType::Timestamptz), None);
        assert_eq!(ValueRef::Timestamptz(1).with_type(ScalarType::Int64), None);
        let text = ValueRef::VarChar("a");
        assert_eq!(text.with_type(ScalarType::VarChar), Some(text));
    }
}
