//! Rows of a vector file read as they are wanted, so that a build under a limit does not count
//! pages of the file as its own memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use pipeann_engine::build::RowSource;
use pipeann_engine::types::VectorType;

use super::texmex::PrefixedRows;
use super::{Bytes, VectorsFile};

/// The rows of a file in which they lie back to back.
#[derive(Debug)]
pub(super) struct FileRows {
    file: File,
    start: usize,
    rows: usize,
    dim: usize,
    ty: VectorType,
}

impl VectorsFile {
    /// The vectors, to be read where they lie.
    ///
    /// # Errors
    /// Where the file cannot be opened again.
    pub fn source(&self) -> Result<Box<dyn RowSource + '_>> {
        let name = self.path.display();
        let file = File::open(&self.path).with_context(|| format!("{name}: cannot be opened"))?;
        let (rows, dim, ty) = (self.rows, self.dim, self.ty);
        let source: Box<dyn RowSource> = match self.bytes {
            Bytes::Mapped(_, start) => Box::new(FileRows { file, start, rows, dim, ty }),
            Bytes::Prefixed(_) => Box::new(PrefixedRows { file, rows, dim, ty }),
        };
        Ok(source)
    }
}

impl RowSource for FileRows {
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
        let at = self.start + first * self.ty.vector_bytes(self.dim);
        self.file.read_exact_at(out, at as u64)
    }
}
