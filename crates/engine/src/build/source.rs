//! Rows that are read when they are wanted, so that a build need not hold all of them.

use std::io;

use crate::types::{VectorSet, VectorType};

/// Vectors by row, in memory or in a file.
pub trait RowSource: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Components of a row.
    fn dim(&self) -> usize;

    /// Component type.
    fn vector_type(&self) -> VectorType;

    /// Fills `out` with the rows from `first` on; its length is a whole number of rows, and all of
    /// them exist.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, first: usize, out: &mut [u8]) -> io::Result<()>;
}

impl RowSource for VectorSet<'_> {
    fn rows(&self) -> usize {
        VectorSet::rows(self)
    }

    fn dim(&self) -> usize {
        VectorSet::dim(self)
    }

    fn vector_type(&self) -> VectorType {
        VectorSet::vector_type(self)
    }

    fn read(&self, first: usize, out: &mut [u8]) -> io::Result<()> {
        let from = first * self.row_bytes();
        out.copy_from_slice(&self.bytes()[from..from + out.len()]);
        Ok(())
    }
}
