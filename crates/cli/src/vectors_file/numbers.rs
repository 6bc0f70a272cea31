//! A column of numbers: a one-dimensional `.npy`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;

use super::{map, npy};

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

    fn read(self, bytes: &[u8]) -> ColumnNumber {
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

/// An opened column, mapped.
pub(crate) struct NumbersFile {
    map: Mmap,
    len: usize,
    ty: NumberType,
    start: usize,
}

impl NumbersFile {
    /// Opens a column, which must not be empty.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let map = map(path)?;
        let column = npy::column(&map).with_context(|| path.display().to_string());
        let (len, ty, start) = column?;
        ensure!(len > 0, "{}: it has no numbers", path.display());
        Ok(Self { map, len, ty, start })
    }

    /// Number of numbers.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first one.
    pub(crate) fn first(&self) -> ColumnNumber {
        self.get(0)
    }

    /// The number of a row.
    ///
    /// # Panics
    /// Beyond the last one.
    pub(crate) fn get(&self, row: usize) -> ColumnNumber {
        let bytes = self.ty.bytes();
        self.ty.read(&self.map[self.start + row * bytes..][..bytes])
    }
}
