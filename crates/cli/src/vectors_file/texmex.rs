//! `.fvecs`, `.bvecs` and `.ivecs`: each row is a u32 dimension followed by its components.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pipeann_engine::types::VectorType;

use super::file_shape::FileShape;
use super::mapped::map;
use super::whole_file::WholeFile;

/// No data set comes near; a larger number means that the file is something else.
const DIM_MAX: usize = 1 << 20;

/// Copies the rows of `.fvecs` or `.bvecs` without their prefixes.
pub(super) fn read(bytes: &[u8], ty: VectorType) -> Result<(FileShape, Vec<u8>)> {
    let PlainRows { rows, dim, bytes } = plain_rows(bytes, ty.vector_bytes(1))?;
    Ok((FileShape { rows, dim, ty, start: 0 }, bytes))
}

/// Rows without their prefixes.
#[derive(Default)]
struct PlainRows {
    rows: usize,
    dim: usize,
    /// Back to back.
    bytes: Vec<u8>,
}

fn plain_rows(bytes: &[u8], component_bytes: usize) -> Result<PlainRows> {
    if bytes.is_empty() {
        return Ok(PlainRows::default());
    }
    let dim_at = |at: usize| -> Option<usize> {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().expect("four bytes")) as usize)
    };
    let dim = dim_at(0).context("truncated: the file ends within the first row's dimension")?;
    ensure!(
        (1..=DIM_MAX).contains(&dim),
        "the first row says that it has {dim} dimensions; expected 1 to {DIM_MAX}"
    );
    let row_bytes = 4 + dim * component_bytes;
    let mut out = Vec::with_capacity(bytes.len() / row_bytes * (row_bytes - 4));
    let mut at = 0;
    let mut row = 0;
    while at < bytes.len() {
        match dim_at(at) {
            Some(d) if d == dim => {}
            Some(d) => bail!("ragged: row {row} says {d} dimensions, row 0 has {dim}"),
            None => bail!("truncated: the file ends within the dimension of row {row}"),
        }
        let Some(components) = bytes.get(at + 4..at + row_bytes) else {
            bail!(
                "truncated: row {row} takes {row_bytes} bytes, but only {} are left",
                bytes.len() - at
            );
        };
        out.extend_from_slice(components);
        at += row_bytes;
        row += 1;
    }
    Ok(PlainRows { rows: row, dim, bytes: out })
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
    let PlainRows { rows, dim: columns, bytes } =
        plain_rows(&map, 4).with_context(|| format!("{}: no .ivecs", path.display()))?;
    ensure!(rows > 0, "{}: holds no rows", path.display());
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
