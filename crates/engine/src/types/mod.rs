//! The vocabulary that all rooms share: ids, element types, metrics and borrowed vectors.
//!
//! Ids are newtypes so that a node, a page and a row are never confused. Nothing here
//! allocates or does I/O.

mod error_class;
mod vectors;

pub use error_class::ErrorClass;
pub use vectors::{VectorSet, VectorSetError, to_f32};

use std::fmt;
use std::str::FromStr;

/// A node of the graph: logical page x records per page + slot.
///
/// 32 bits address 4.29 billion slots in one index; `docs/decisions/` says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// A logical page: the unit of reading, holding several node records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct PageId(pub u32);

/// A row as the caller knows it: its position in the input of a build, or what `db` assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct RowId(pub u64);

/// The type of a vector's components. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum VectorType {
    /// IEEE 754 single precision, little-endian.
    F32 = 1,
    /// Unsigned bytes.
    U8 = 2,
}

impl VectorType {
    /// Bytes of one component.
    pub const fn component_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::U8 => 1,
        }
    }

    /// The type with this number on disk, if this version knows it.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::F32),
            2 => Some(Self::U8),
            _ => None,
        }
    }

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U8 => "u8",
        }
    }
}

impl fmt::Display for VectorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How two vectors are compared. A smaller distance is nearer, for every metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2 = 1,
    /// The negated inner product, so that smaller is nearer.
    InnerProduct = 2,
    /// 1 - cosine similarity.
    Cosine = 3,
}

impl Metric {
    /// The metric with this number on disk, if this version knows it.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::L2),
            2 => Some(Self::InnerProduct),
            3 => Some(Self::Cosine),
            _ => None,
        }
    }

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`; known are {}", self.what, self.name, self.known)
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for Metric {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        match s.to_ascii_lowercase().as_str() {
            "l2" => Ok(Self::L2),
            "ip" => Ok(Self::InnerProduct),
            "cosine" => Ok(Self::Cosine),
            _ => Err(UnknownName { what: "metric", name: s.into(), known: "l2, ip, cosine" }),
        }
    }
}

impl FromStr for VectorType {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        match s.to_ascii_lowercase().as_str() {
            "f32" | "float32" => Ok(Self::F32),
            "u8" | "uint8" => Ok(Self::U8),
            _ => Err(UnknownName { what: "vector type", name: s.into(), known: "f32, u8" }),
        }
    }
}
