//! The vocabulary that all rooms share: ids, element types, metrics and borrowed vectors.
//!
//! Ids are newtypes so that a node, a page and a row are never confused. Nothing here
//! allocates or does I/O.

mod components;
mod error_class;
mod random;
mod vectors;

pub use components::{
    Unfit, find_component, fit_squared_norm, from_f32, part_to_f32, to_f32, unfit,
};
pub use error_class::ErrorClass;
pub use random::SplitMix64;
pub use vectors::{VectorSet, VectorSetError};

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
    /// IEEE 754 half precision, little-endian.
    F16 = 3,
    /// The upper half of a single precision number (bfloat16), little-endian.
    BF16 = 4,
    /// Signed bytes.
    I8 = 5,
    /// One bit a component: component `i` is bit `7 - i % 8` of byte `i / 8`, as numpy packs
    /// bits. The dimension is a multiple of 8.
    Binary = 6,
}

impl VectorType {
    /// All types.
    pub const ALL: [Self; 6] = [Self::F32, Self::U8, Self::F16, Self::BF16, Self::I8, Self::Binary];

    /// Bits of one component.
    const fn component_bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 | Self::BF16 => 16,
            Self::U8 | Self::I8 => 8,
            Self::Binary => 1,
        }
    }

    /// Bytes of a vector of `dim` components; the most there can be where no number counts them.
    pub const fn vector_bytes(self, dim: usize) -> usize {
        match self {
            Self::Binary => dim.div_ceil(8),
            _ => dim.saturating_mul(self.component_bits() / 8),
        }
    }

    /// Components in `bytes` bytes; those of a remainder are not counted.
    pub const fn dim_of(self, bytes: usize) -> usize {
        match self {
            Self::Binary => bytes * 8,
            _ => bytes / (self.component_bits() / 8),
        }
    }

    /// Whether vectors may have `dim` components, 0 aside.
    pub const fn takes_dim(self, dim: usize) -> bool {
        !matches!(self, Self::Binary) || dim.is_multiple_of(8)
    }

    /// Whether components are floating point numbers, which may be NaN or infinite.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }

    /// Whether vectors of this type are compared by `metric`: binary ones by Hamming and
    /// Jaccard, all others by the rest.
    pub const fn takes_metric(self, metric: Metric) -> bool {
        matches!(self, Self::Binary) == matches!(metric, Metric::Hamming | Metric::Jaccard)
    }

    /// The type with this number on disk, if this version knows it.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::F32),
            2 => Some(Self::U8),
            3 => Some(Self::F16),
            4 => Some(Self::BF16),
            5 => Some(Self::I8),
            6 => Some(Self::Binary),
            _ => None,
        }
    }

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::Binary => "binary",
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
    /// How many bits differ.
    Hamming = 4,
    /// 1 - the share of the bits set in either vector that are set in both; 1 where none is.
    Jaccard = 5,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 5] =
        [Self::L2, Self::InnerProduct, Self::Cosine, Self::Hamming, Self::Jaccard];

    /// Whether lengths are left out, so that codes and means are of normalised vectors. True of
    /// the Jaccard distance as well: among sets of one size it orders as the cosine does.
    pub const fn normalises(self) -> bool {
        matches!(self, Self::Cosine | Self::Jaccard)
    }

    /// The metric with this number on disk, if this version knows it.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::L2),
            2 => Some(Self::InnerProduct),
            3 => Some(Self::Cosine),
            4 => Some(Self::Hamming),
            5 => Some(Self::Jaccard),
            _ => None,
        }
    }

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
            Self::Hamming => "hamming",
            Self::Jaccard => "jaccard",
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

impl UnknownName {
    /// `name` is none of the names of a `what`, which `known` lists.
    pub fn new(what: &'static str, name: &str, known: &'static str) -> Self {
        Self { what, name: name.to_owned(), known }
    }
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
        let known = "l2, ip, cosine, hamming, jaccard";
        let name = s.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|metric| metric.name() == name);
        found.ok_or_else(|| UnknownName { what: "metric", name: s.into(), known })
    }
}

impl FromStr for VectorType {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        match s.to_ascii_lowercase().as_str() {
            "f32" | "float32" => Ok(Self::F32),
            "u8" | "uint8" => Ok(Self::U8),
            "f16" | "float16" => Ok(Self::F16),
            "bf16" | "bfloat16" => Ok(Self::BF16),
            "i8" | "int8" => Ok(Self::I8),
            "binary" => Ok(Self::Binary),
            _ => Err(UnknownName {
                what: "vector type",
                name: s.into(),
                known: "f32, f16, bf16, u8, i8, binary",
            }),
        }
    }
}
