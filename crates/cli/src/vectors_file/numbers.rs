//! A column of numbers: a one-dimensional `.npy`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;

use super::mapped::map;
use super::npy;
use super::number::{ColumnNumber, NumberType};

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
        let npy::ColumnShape { len, ty, start } = column?;
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
