//! All vectors in turn, and as one file for a bulk build.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use pipeann_engine::types::VectorSet;

use super::{FlatError, FlatVectors};
use crate::ids::RowId;

/// Blocks read at once.
const BLOCKS_AT_ONCE: usize = 8;

impl FlatVectors {
    /// Calls `each` with all rows and their vectors as of now, some at a time: first what is on
    /// disk, then what is in memory, each row once, in the order in which they were appended.
    ///
    /// # Errors
    /// A failed read, a damaged block, or what `each` returns; `each` has seen what came before.
    pub fn scan<E: From<FlatError>>(
        &self,
        mut each: impl FnMut(&[RowId], VectorSet<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let view = self.view();
        let (mut buffer, mut rows) = (Vec::new(), Vec::new());
        for segment in view.segments.iter() {
            for first in (0..segment.blocks()).step_by(BLOCKS_AT_ONCE) {
                let count = BLOCKS_AT_ONCE.min(segment.blocks() - first);
                let mut done = Ok(());
                segment.read_blocks(first, count, &mut buffer, |block| {
                    if done.is_ok() {
                        rows.clear();
                        rows.extend(block.rows());
                        done = each(&rows, self.set(block.vectors()));
                    }
                })?;
                done?;
            }
        }
        for chunk in view.sealed.chunks().iter().chain(view.active.chunks()) {
            each(chunk.rows(), self.set(chunk.vectors()))?;
        }
        Ok(())
    }

    fn set<'a>(&self, vectors: &'a [u8]) -> VectorSet<'a> {
        VectorSet::new(vectors, self.shape.dim(), self.shape.vector_type())
            .expect("blocks and chunks hold whole vectors")
    }

    /// Writes the vectors of the rows that `keep` lets pass into a new file `path`, as a bulk
    /// build reads them (`.fbin` or `.u8bin`: rows and dimension as u32, then the vectors), and
    /// returns the row at each position. The file is not synced: it is an intermediate result.
    ///
    /// # Errors
    /// A failed read or write, a damaged block, a file that exists, or more rows than 2^32 - 1;
    /// a file that was begun is left for the caller to remove.
    pub fn export(
        &self,
        path: &Path,
        keep: impl Fn(RowId) -> bool,
    ) -> Result<Vec<RowId>, FlatError> {
        let file = File::create_new(path).map_err(FlatError::io("create", path))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let write = |e| FlatError::io("write", path)(e);
        file.write_all(&[0; 8]).map_err(write)?;
        let mut kept = Vec::new();
        self.scan(|rows, vectors| {
            for (i, &row) in rows.iter().enumerate() {
                if keep(row) {
                    file.write_all(vectors.row(i)).map_err(write)?;
                    kept.push(row);
                }
            }
            Ok::<(), FlatError>(())
        })?;
        let too_many = |_| write(io::Error::other("the format counts rows in 32 bits"));
        let rows = u32::try_from(kept.len()).map_err(too_many)?;
        let dim = u32::try_from(self.shape.dim()).expect("dimensions are below 2^32");
        file.seek(SeekFrom::Start(0)).map_err(write)?;
        file.write_all(&rows.to_le_bytes()).map_err(write)?;
        file.write_all(&dim.to_le_bytes()).map_err(write)?;
        file.flush().map_err(write)?;
        Ok(kept)
    }
}
