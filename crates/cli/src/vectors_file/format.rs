//! The formats of vector files, and which one a path names.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use pipeann_engine::types::VectorType;

/// The formats of vectors that this command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// u32 rows, u32 dimension, then the rows; one component type by extension.
    Bin(VectorType),
    /// Each row: u32 dimension, then its components.
    Texmex(VectorType),
    /// NumPy's array file.
    Npy,
}

/// What all messages about an unusable extension end with.
const KNOWN: &str = "known are .fbin, .f16bin, .bf16bin, .u8bin, .i8bin, .bbin (bits, eight in a \
                     byte), .fvecs, .bvecs, .npy";

impl Format {
    /// The format that the extension of `path` names.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        Ok(match extension {
            "u8bin" => Self::Bin(VectorType::U8),
            "fbin" => Self::Bin(VectorType::F32),
            "f16bin" => Self::Bin(VectorType::F16),
            "bf16bin" => Self::Bin(VectorType::BF16),
            "i8bin" => Self::Bin(VectorType::I8),
            "bbin" => Self::Bin(VectorType::Binary),
            "bvecs" => Self::Texmex(VectorType::U8),
            "fvecs" => Self::Texmex(VectorType::F32),
            "npy" => Self::Npy,
            "ivecs" => bail!(
                "{}: .ivecs holds ids, not vectors; it converts to and from a truth file (.bin)",
                path.display()
            ),
            _ => bail!("{}: the extension names no vector format; {KNOWN}", path.display()),
        })
    }

    /// The component type, where the format has only one.
    pub fn vector_type(self) -> Option<VectorType> {
        match self {
            Self::Bin(ty) | Self::Texmex(ty) => Some(ty),
            Self::Npy => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bin(VectorType::U8) => ".u8bin",
            Self::Bin(VectorType::F32) => ".fbin",
            Self::Bin(VectorType::F16) => ".f16bin",
            Self::Bin(VectorType::BF16) => ".bf16bin",
            Self::Bin(VectorType::I8) => ".i8bin",
            Self::Bin(VectorType::Binary) => ".bbin",
            Self::Texmex(VectorType::U8) => ".bvecs",
            Self::Texmex(_) => ".fvecs",
            Self::Npy => ".npy",
        })
    }
}
