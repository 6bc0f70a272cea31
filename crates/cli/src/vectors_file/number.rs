//! A number of a column, and how it is stored.

/// A number of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ColumnNumber {
    /// A whole one.
    Integer(i64),
    /// A broken one.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

/// How a column's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberType {
    I32,
    I64,
    F32,
    F64,
    Bool,
}

impl NumberType {
    /// By NumPy's name.
    pub(super) fn of(descr: &str) -> Option<Self> {
        Some(match descr {
            "<i4" => Self::I32,
            "<i8" => Self::I64,
            "<f4" => Self::F32,
            "<f8" => Self::F64,
            "|b1" => Self::Bool,
            _ => return None,
        })
    }

    /// Bytes of a number.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// The number that these bytes are.
    pub(super) fn read(self, bytes: &[u8]) -> ColumnNumber {
        let four = || bytes.try_into().expect("four bytes");
        let eight = || bytes.try_into().expect("eight bytes");
        match self {
            Self::I32 => ColumnNumber::Integer(i32::from_le_bytes(four()).into()),
            Self::I64 => ColumnNumber::Integer(i64::from_le_bytes(eight())),
            Self::F32 => ColumnNumber::Float(f32::from_le_bytes(four()).into()),
            Self::F64 => ColumnNumber::Float(f64::from_le_bytes(eight())),
            Self::Bool => ColumnNumber::Bool(bytes[0] != 0),
        }
    }
}
