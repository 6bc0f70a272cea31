//! Rows that come piece by piece and only once, kept in a file until the build is done with them.
//!
//! A build reads rows several times and in the order of their pages; who can hand them out only from
//! front to back puts them here. The file has no name, so that nothing is left of a build that is
//! killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::source::RowSource;
use crate::types::{VectorSet, VectorType};

/// Rows of one shape in a file without a name.
#[derive(Debug)]
pub struct SpooledRows {
    file: File,
    path: PathBuf,
    rows: usize,
    dim: usize,
    ty: VectorType,
}

impl SpooledRows {
    /// No rows yet; the file is beside the directory `index`, where the index will need as much.
    ///
    /// # Errors
    /// [`BuildError::Io`].
    pub fn create(index: &Path, dim: usize, ty: VectorType) -> Result<Self, BuildError> {
        let (file, path) = unnamed(index, "rows")?;
        Ok(Self { file, path, rows: 0, dim, ty })
    }

    /// Adds rows behind the others.
    ///
    /// # Errors
    /// [`BuildError::Io`].
    ///
    /// # Panics
    /// Where the rows have another shape.
    pub fn push(&mut self, rows: VectorSet<'_>) -> Result<(), BuildError> {
        let shape = (rows.dim(), rows.vector_type());
        assert_eq!(shape, (self.dim, self.ty), "all rows are of one shape");
        self.file.write_all(rows.bytes()).map_err(BuildError::io("write", &self.path))?;
        self.rows += rows.rows();
        Ok(())
    }
}

impl SpooledRows {
    /// Puts a row in its place, wherever others are.
    pub(super) fn put(&mut self, row: usize, vector: &[u8]) -> Result<(), BuildError> {
        debug_assert_eq!(vector.len(), self.ty.vector_bytes(self.dim), "all rows are of one shape");
        let at = (row * vector.len()) as u64;
        self.file.write_all_at(vector, at).map_err(BuildError::io("write", &self.path))?;
        self.rows = self.rows.max(row + 1);
        Ok(())
    }
}

/// A file beside the directory `index` that has no name, to be written to and read from.
pub(super) fn unnamed(index: &Path, what: &str) -> Result<(File, PathBuf), BuildError> {
    let index = std::path::absolute(index).map_err(BuildError::io("resolve", index))?;
    if let Some(parent) = index.parent() {
        fs::create_dir_all(parent).map_err(BuildError::io("create", parent))?;
    }
    let mut path = index.into_os_string();
    path.push(format!(".{what}-{}", std::process::id()));
    let path = PathBuf::from(path);
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(BuildError::io("create", &path))?;
    fs::remove_file(&path).map_err(BuildError::io("remove", &path))?;
    Ok((file, path))
}

impl RowSource for SpooledRows {
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
        self.file.read_exact_at(out, (first * self.ty.vector_bytes(self.dim)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_added_and_leave_no_file() {
        let temp = tempfile::tempdir().expect("a directory");
        let bytes: Vec<u8> = (0..60).collect();
        let set = |range: std::ops::Range<usize>| {
            VectorSet::new(&bytes[range], 4, VectorType::U8).expect("whole rows")
        };
        let dir = temp.path().join("deep").join("index");
        let mut rows = SpooledRows::create(&dir, 4, VectorType::U8).expect("a file");
        rows.push(set(0..20)).expect("written");
        rows.push(set(20..60)).expect("written");
        assert_eq!(rows.rows(), 15);
        let mut read = vec![0; 12];
        rows.read(4, &mut read).expect("read");
        assert_eq!(read, bytes[16..28]);
        assert!(rows.read(13, &mut read).is_err(), "only two rows are there");
        assert_eq!(fs::read_dir(temp.path().join("deep")).expect("a directory").count(), 0);
    }
}
