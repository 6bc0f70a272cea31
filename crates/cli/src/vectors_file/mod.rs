//! Vector files: which format a path names, and reading any of them as one [`VectorSet`].
//!
//! The extension decides the format; nothing is guessed from the content. Formats whose rows
//! lie back to back (`.fbin` and its kin, `.npy`) are mapped and borrowed; `.fvecs` and `.bvecs`
//! repeat the dimension before every row, and are copied into memory where they are wanted as a set.
//! Every length is checked before a row is handed out, so a truncated file is refused when it is
//! opened.

mod bin;
mod file_shape;
mod format;
mod mapped;
mod npy;
mod number;
mod numbers;
mod prefixed_copies;
mod rows;
mod texmex;
mod whole_file;
mod write;

pub use format::Format;
pub use mapped::map;
pub(crate) use number::ColumnNumber;
pub(crate) use numbers::NumbersFile;
pub use texmex::{IntegerRows, read_ivecs, write_ivecs};
pub use whole_file::WholeFile;
pub use write::VectorsWriter;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;
use pipeann_engine::types::{VectorSet, VectorType};

use file_shape::FileShape;
use prefixed_copies::PrefixedCopies;
use texmex::DIM_MAX;

enum Bytes {
    /// The file, and where its first row begins.
    Mapped(Mmap, usize),
    /// A file whose rows stand behind their dimensions.
    Prefixed(PrefixedCopies),
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
                let shape =
                    texmex::shape(path, ty).with_context(|| format!("{name}: no {format}"))?;
                (shape, Bytes::Prefixed(PrefixedCopies::of(map)))
            }
        };
        ensure!(shape.rows > 0, "{name}: holds no vectors");
        ensure!(shape.dim > 0, "{name}: its vectors have no dimensions");
        ensure!(
            shape.dim <= DIM_MAX,
            "{name}: its vectors have {} dimensions; expected {DIM_MAX} at most",
            shape.dim
        );
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
        let (rows, row_bytes) = (rows.min(self.rows), self.ty.vector_bytes(self.dim));
        let all = match &self.bytes {
            Bytes::Mapped(map, start) => &map[*start..],
            Bytes::Prefixed(copies) => copies.plain(rows, self.rows, row_bytes),
        };
        VectorSet::new(&all[..rows * row_bytes], self.dim, self.ty).expect("a whole number of rows")
    }

    /// Rows in the file.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Components of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Component type.
    pub fn vector_type(&self) -> VectorType {
        self.ty
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
