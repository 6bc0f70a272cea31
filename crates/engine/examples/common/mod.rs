//! Vectors and truth of files, for examples that measure.

#![allow(dead_code, reason = "no example needs all of it")]

use std::error::Error;
use std::path::Path;

/// A table of a file with a header of its rows and columns, both u32.
pub(crate) struct Table {
    /// Rows.
    pub(crate) rows: usize,
    /// Columns: the dimension, or neighbours of a truth.
    pub(crate) columns: usize,
    /// What follows the header.
    pub(crate) bytes: Vec<u8>,
}

impl Table {
    /// Reads a `.u8bin`, `.fbin` or truth file.
    pub(crate) fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let mut bytes = std::fs::read(Path::new(path))?;
        let number = |at: usize| {
            let four = bytes.get(at..at + 4).ok_or(format!("{path}: too short"))?;
            Ok::<_, Box<dyn Error>>(u32::from_le_bytes(four.try_into()?) as usize)
        };
        let (rows, columns) = (number(0)?, number(4)?);
        bytes.drain(..8);
        Ok(Self { rows, columns, bytes })
    }
}

/// Exact neighbours: ids, then distances.
pub(crate) struct Truth(pub(crate) Table);

impl Truth {
    /// The nearest rows of a query, in their order.
    pub(crate) fn rows(&self, query: usize) -> impl Iterator<Item = u64> {
        self.words(query).map(|word| u64::from(u32::from_le_bytes(word)))
    }

    /// Their distances.
    pub(crate) fn distances(&self, query: usize) -> impl Iterator<Item = f32> {
        self.words(self.0.rows + query).map(f32::from_le_bytes)
    }

    fn words(&self, row: usize) -> impl Iterator<Item = [u8; 4]> {
        let bytes = 4 * self.0.columns;
        self.0.bytes[row * bytes..][..bytes]
            .chunks_exact(4)
            .map(|four| four.try_into().expect("four bytes"))
    }
}
