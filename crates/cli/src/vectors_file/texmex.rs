//! `.fvecs`, `.bvecs` and `.ivecs`: each row is a u32 dimension followed by its components.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pipeann_engine::build::RowSource;
use pipeann_engine::types::VectorType;

use super::file_shape::FileShape;
use super::mapped::map;
use super::whole_file::WholeFile;

/// No data set comes near; a larger number means that the file is something else.
pub(super) const DIM_MAX: usize = 1 << 20;

/// Bytes of the dimension in front of a row.
const PREFIX_BYTES: usize = 4;
/// Rows are read in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

/// Looks at the dimension of every row of `.fvecs` or `.bvecs`, and keeps nothing.
pub(super) fn shape(path: &Path, ty: VectorType) -> Result<FileShape> {
    let PrefixedShape { rows, dim } = prefixed(path, ty.vector_bytes(1))?;
    Ok(FileShape { rows, dim, ty, start: 0 })
}

/// The first `rows` rows of a file of them without their dimensions.
pub(super) fn plain(bytes: &[u8], row_bytes: usize, rows: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows * row_bytes);
    let all = bytes.chunks_exact(PREFIX_BYTES + row_bytes).take(rows);
    all.for_each(|row| out.extend_from_slice(&row[PREFIX_BYTES..]));
    out
}

/// Rows of one dimension, each behind it.
#[derive(Default)]
struct PrefixedShape {
    rows: usize,
    dim: usize,
}

/// What the dimension in front of a row says; the bytes begin with it.
fn dim_of(bytes: &[u8]) -> Option<usize> {
    let word = bytes.first_chunk::<PREFIX_BYTES>()?;
    Some(u32::from_le_bytes(*word) as usize)
}

fn prefixed(path: &Path, component_bytes: usize) -> Result<PrefixedShape> {
    let file = File::open(path).context("it cannot be opened")?;
    let length = file.metadata().context("its length is not known")?.len();
    if length == 0 {
        return Ok(PrefixedShape::default());
    }
    let mut piece = vec![0; PREFIX_BYTES.min(usize::try_from(length).unwrap_or(PREFIX_BYTES))];
    file.read_exact_at(&mut piece, 0).context("it cannot be read")?;
    let dim =
        dim_of(&piece).context("truncated: the file ends within the first row's dimension")?;
    ensure!(
        (1..=DIM_MAX).contains(&dim),
        "the first row says that it has {dim} dimensions; expected 1 to {DIM_MAX}"
    );
    let row_bytes = PREFIX_BYTES + dim * component_bytes;
    let step = (PIECE_BYTES / row_bytes).max(1) * row_bytes;
    let mut rows = 0;
    for at in (0..length).step_by(step) {
        piece.resize(usize::try_from(length - at).unwrap_or(step).min(step), 0);
        file.read_exact_at(&mut piece, at).context("it cannot be read")?;
        for row in piece.chunks(row_bytes) {
            match dim_of(row) {
                Some(d) if d == dim => {}
                Some(d) => bail!("ragged: row {rows} says {d} dimensions, row 0 has {dim}"),
                None => bail!("truncated: the file ends within the dimension of row {rows}"),
            }
            ensure!(
                row.len() == row_bytes,
                "truncated: row {rows} takes {row_bytes} bytes, but only {} are left",
                row.len()
            );
            rows += 1;
        }
    }
    Ok(PrefixedShape { rows, dim })
}

/// The rows of a file in which each stands behind its dimension, read as they are wanted.
#[derive(Debug)]
pub(super) struct PrefixedRows {
    pub(super) file: File,
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) ty: VectorType,
}

impl RowSource for PrefixedRows {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn vector_type(&self) -> VectorType {
        self.ty
    }

    fn read(&self, first: usize, out: &mut [u8]) -> io::Result<()> {
        let vector_bytes = self.ty.vector_bytes(self.dim);
        let row_bytes = PREFIX_BYTES + vector_bytes;
        let step = (PIECE_BYTES / row_bytes).max(1);
        let mut at = (first * row_bytes) as u64;
        let mut piece = vec![0; step.min(out.len() / vector_bytes) * row_bytes];
        for out in out.chunks_mut(step * vector_bytes) {
            let piece = &mut piece[..out.len() / vector_bytes * row_bytes];
            self.file.read_exact_at(piece, at)?;
            at += piece.len() as u64;
            for (row, out) in piece.chunks_exact(row_bytes).zip(out.chunks_exact_mut(vector_bytes))
            {
                if dim_of(row) != Some(self.dim) {
                    let why = "a row says another dimension than when the file was opened";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                out.copy_from_slice(&row[PREFIX_BYTES..]);
            }
        }
        Ok(())
    }
}

/// What `.ivecs` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegerRows {
    /// Rows in it.
    pub rows: usize,
    /// Numbers in each.
    pub columns: usize,
    /// The numbers, row after row.
    pub numbers: Vec<u32>,
}

/// Reads `.ivecs`.
pub fn read_ivecs(path: &Path) -> Result<IntegerRows> {
    let map = map(path)?;
    let PrefixedShape { rows, dim: columns } =
        prefixed(path, 4).with_context(|| format!("{}: no .ivecs", path.display()))?;
    ensure!(rows > 0, "{}: holds no rows", path.display());
    let bytes = plain(&map, columns * 4, rows);
    let numbers =
        bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    Ok(IntegerRows { rows, columns, numbers })
}

/// Writes `.ivecs` from rows of `columns` numbers.
pub fn write_ivecs(path: &Path, columns: usize, numbers: &[u32]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    for row in numbers.chunks_exact(columns) {
        file.write(&(columns as u32).to_le_bytes())?;
        for number in row {
            file.write(&number.to_le_bytes())?;
        }
    }
    file.finish()
}
