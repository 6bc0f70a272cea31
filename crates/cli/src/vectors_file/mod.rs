//! Vector files: which format a path names, and reading any of them as one [`VectorSet`].
//!
//! The extension decides the format; nothing is guessed from the content. Formats whose rows
//! lie back to back (`.fbin` and its kin, `.npy`) are mapped and borrowed; `.fvecs` and `.bvecs`
//! repeat the dimension before every row and are copied into memory. Every length is checked
//! before a row is handed out, so a truncated file is refused when it is opened.

mod bin;
mod npy;
mod numbers;
mod rows;
mod texmex;
mod write;

pub(crate) use numbers::{ColumnNumber, NumbersFile};
pub use texmex::{read_ivecs, write_ivecs};
pub use write::{VectorsWriter, WholeFile};

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use memmap2::Mmap;
use pipeann_engine::types::{VectorSet, VectorType};

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

/// A file mapped for reading.
#[expect(unsafe_code, reason = "memmap2 makes mapping unsafe, since others may change the file")]
pub fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).with_context(|| format!("{}: cannot be opened", path.display()))?;
    ensure!(
        file.metadata().map(|m| m.is_file()).unwrap_or(false),
        "{}: not a regular file",
        path.display()
    );
    // SAFETY: the map is read-only and its bytes are only ever viewed as plain integers and
    // floats, for which every bit pattern is valid; inputs are documented as not to be changed
    // or cut while a command runs.
    let map = unsafe { Mmap::map(&file) };
    map.with_context(|| format!("{}: cannot be mapped into memory", path.display()))
}

enum Bytes {
    /// The file, and where its first row begins.
    Mapped(Mmap, usize),
    Copied(Vec<u8>),
}

/// An opened vector file.
pub struct VectorsFile {
    path: PathBuf,
    bytes: Bytes,
    rows: usize,
    dim: usize,
    ty: VectorType,
}

impl fmt::Debug for VectorsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} x {} {})", self.path.display(), self.rows, self.dim, self.ty)
    }
}

/// What a format's parser finds: rows, dimension, type, and where the rows begin.
struct FileShape {
    rows: usize,
    dim: usize,
    ty: VectorType,
    start: usize,
}

impl VectorsFile {
    /// Opens a vector file of any known format and checks its length.
    ///
    /// # Errors
    /// Unknown extension, unreadable, truncated, ragged, empty, or another component type than
    /// its format allows; the message names the file and what was expected.
    pub fn open(path: &Path) -> Result<Self> {
        let format = Format::of(path)?;
        let map = map(path)?;
        let name = path.display();
        let (shape, bytes) = match format {
            Format::Bin(ty) => {
                let shape = bin::shape(&map, ty).with_context(|| format!("{name}: no {format}"))?;
                let start = shape.start;
                (shape, Bytes::Mapped(map, start))
            }
            Format::Npy => {
                let shape = npy::shape(&map).with_context(|| format!("{name}: no usable .npy"))?;
                let start = shape.start;
                (shape, Bytes::Mapped(map, start))
            }
            Format::Texmex(ty) => {
                let (shape, bytes) =
                    texmex::read(&map, ty).with_context(|| format!("{name}: no {format}"))?;
                (shape, Bytes::Copied(bytes))
            }
        };
        ensure!(shape.rows > 0, "{name}: holds no vectors");
        ensure!(shape.dim > 0, "{name}: its vectors have no dimensions");
        ensure!(
            shape.ty.takes_dim(shape.dim),
            "{name}: binary vectors have a multiple of 8 dimensions, not {}",
            shape.dim
        );
        let FileShape { rows, dim, ty, .. } = shape;
        Ok(Self { path: path.to_owned(), bytes, rows, dim, ty })
    }

    /// The vectors.
    pub fn set(&self) -> VectorSet<'_> {
        self.first(self.rows)
    }

    /// The first `rows` vectors, or all where there are fewer.
    pub fn first(&self, rows: usize) -> VectorSet<'_> {
        let all = match &self.bytes {
            Bytes::Mapped(map, start) => &map[*start..],
            Bytes::Copied(bytes) => bytes,
        };
        let bytes = rows.min(self.rows) * self.ty.vector_bytes(self.dim);
        VectorSet::new(&all[..bytes], self.dim, self.ty).expect("a whole number of rows")
    }

    /// Rows in the file.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses queries whose type or dimension differ from those of what they are asked against.
pub fn check_same_shape(
    queries: &VectorsFile,
    (dim, ty): (usize, VectorType),
    other: &Path,
) -> Result<()> {
    ensure!(
        queries.ty == ty,
        "{} holds {} vectors, but {} holds {ty}; `pipeann convert` changes the type",
        queries.path.display(),
        queries.ty,
        other.display()
    );
    ensure!(
        queries.dim == dim,
        "{} has {} dimensions, but {} has {dim}",
        queries.path.display(),
        queries.dim,
        other.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
