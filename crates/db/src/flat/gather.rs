//! The vectors of many rows at once, with each block read once.

use super::{FlatError, FlatVectors};
use crate::ids::RowId;

impl FlatVectors {
    /// The vectors of `rows`, one after the other in that order. Rows that follow each other share
    /// the reads of their blocks.
    ///
    /// # Errors
    /// [`FlatError::Missing`] for a row that was never appended, a failed read, a damaged block.
    pub fn gather(&self, rows: &[RowId]) -> Result<Vec<u8>, FlatError> {
        let bytes = self.shape.vector_bytes();
        let mut out = vec![0; rows.len() * bytes];
        // Positions in `rows` that still lack their vector, by row.
        let mut wanted: Vec<usize> = (0..rows.len()).collect();
        wanted.sort_unstable_by_key(|&at| rows[at]);
        let mut put = |at: usize, vector: &[u8]| {
            out[at * bytes..(at + 1) * bytes].copy_from_slice(vector);
        };
        let view = self.view();
        for tail in [&view.active, &view.sealed] {
            wanted.retain(|&at| match tail.get(rows[at], bytes) {
                Some(vector) => {
                    put(at, vector);
                    false
                }
                None => true,
            });
        }
        let mut buffer = Vec::new();
        for segment in view.segments.iter().rev() {
            if wanted.is_empty() {
                break;
            }
            segment.find_all(rows, &mut wanted, &mut buffer, &mut put)?;
        }
        match wanted.first() {
            None => Ok(out),
            Some(&at) => Err(FlatError::Missing { dir: self.dir.clone(), row: rows[at] }),
        }
    }
}
