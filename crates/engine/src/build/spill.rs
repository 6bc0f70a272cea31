//! Adjacency lists in a file, for graphs that are larger than memory.
//!
//! A row has the shape of those in memory: the degree, then room for all edges. The file has no
//! name any more by the time it is written, so that nothing is left of a build that is killed.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::error::BuildError;
use super::reach::EdgeLists;
use super::site::Site;

/// Writes lists one after the other.
pub(crate) struct SpillWriter {
    out: BufWriter<File>,
    path: PathBuf,
    degree: usize,
    rows: usize,
    edges: u64,
}

impl SpillWriter {
    /// A file in the directory under construction, for lists of at most `degree` edges.
    pub(crate) fn create(site: &Site, name: &str, degree: usize) -> Result<Self, BuildError> {
        let (file, path) = site.scratch(name)?;
        Ok(Self { out: BufWriter::with_capacity(1 << 20, file), path, degree, rows: 0, edges: 0 })
    }

    /// Adds a list.
    pub(crate) fn push(
        &mut self,
        edges: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), BuildError> {
        let len = edges.len();
        assert!(len <= self.degree, "a list has at most as many edges as the degree");
        let words = std::iter::once(len as u32).chain(edges);
        let words = words.chain(std::iter::repeat_n(0, self.degree - len));
        for word in words {
            let written = self.out.write_all(&word.to_le_bytes());
            written.map_err(BuildError::io("write", &self.path))?;
        }
        self.rows += 1;
        self.edges += len as u64;
        Ok(())
    }

    /// The lists, to be read.
    pub(crate) fn finish(self) -> Result<Spill, BuildError> {
        let Self { out, path, degree, rows, edges } = self;
        let file = out.into_inner().map_err(|e| BuildError::io("write", &path)(e.into_error()))?;
        Ok(Spill { file, path, degree, rows, edges })
    }
}

/// Lists in a file.
pub(crate) struct Spill {
    file: File,
    path: PathBuf,
    degree: usize,
    rows: usize,
    edges: u64,
}

impl Spill {
    /// A file of so many lists of at most `degree` edges, to be put in their places.
    pub(crate) fn placed(file: File, path: PathBuf, degree: usize, rows: usize) -> Self {
        Self { file, path, degree, rows, edges: 0 }
    }

    /// Puts a list in its place, where none was yet.
    pub(crate) fn put(&mut self, node: u32, edges: &[u32]) -> Result<(), BuildError> {
        let mut row = vec![0; self.row_bytes()];
        let words = std::iter::once(edges.len() as u32).chain(edges.iter().copied());
        for (place, word) in row.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let at = u64::from(node) * row.len() as u64;
        self.file.write_all_at(&row, at).map_err(BuildError::io("write", &self.path))?;
        self.edges += edges.len() as u64;
        Ok(())
    }

    fn row_bytes(&self) -> usize {
        (self.degree + 1) * 4
    }

    fn row(&self, node: u32) -> Result<Vec<u8>, BuildError> {
        let mut row = vec![0; self.row_bytes()];
        let at = u64::from(node) * row.len() as u64;
        let read = self.file.read_exact_at(&mut row, at);
        read.map_err(BuildError::io("read", &self.path))?;
        Ok(row)
    }

    /// Reads from the first list on.
    pub(crate) fn reader(&self) -> Result<SpillReader<'_>, BuildError> {
        use std::io::{Seek, SeekFrom};
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(BuildError::io("read", &self.path))?;
        let row = vec![0; self.row_bytes()];
        Ok(SpillReader { file: BufReader::with_capacity(1 << 18, file), spill: self, row })
    }
}

/// The words of a row: the degree and the edges.
fn words(row: &[u8]) -> impl Iterator<Item = u32> {
    row.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}

fn parse(row: &[u8], out: &mut Vec<u32>) {
    let mut words = words(row);
    let len = words.next().map_or(0, |len| len as usize);
    out.extend(words.take(len));
}

impl EdgeLists for Spill {
    fn nodes(&self) -> usize {
        self.rows
    }

    fn edges(&self) -> u64 {
        self.edges
    }

    fn max_degree(&self) -> usize {
        self.degree
    }

    fn read(&self, node: u32, out: &mut Vec<u32>) -> Result<(), BuildError> {
        parse(&self.row(node)?, out);
        Ok(())
    }

    fn replace(&mut self, node: u32, edges: &[u32]) -> Result<(), BuildError> {
        let mut row = self.row(node)?;
        let before = words(&row).next().unwrap_or(0);
        let new = std::iter::once(edges.len() as u32).chain(edges.iter().copied());
        for (place, word) in row.as_chunks_mut::<4>().0.iter_mut().zip(new) {
            *place = word.to_le_bytes();
        }
        let at = u64::from(node) * row.len() as u64;
        self.file.write_all_at(&row, at).map_err(BuildError::io("write", &self.path))?;
        self.edges = self.edges - u64::from(before) + edges.len() as u64;
        Ok(())
    }
}

/// Reads lists in their order.
pub(crate) struct SpillReader<'a> {
    file: BufReader<&'a File>,
    spill: &'a Spill,
    row: Vec<u8>,
}

impl SpillReader<'_> {
    /// Appends the next list to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<u32>) -> Result<(), BuildError> {
        let read = self.file.read_exact(&mut self.row);
        read.map_err(BuildError::io("read", &self.spill.path))?;
        parse(&self.row, out);
        Ok(())
    }
}
