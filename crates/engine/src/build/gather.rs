//! Reading rows of a source: all in pieces, or some of them.

use super::error::BuildError;
use super::source::RowSource;
use crate::types::VectorSet;

/// Bytes of rows that are read together.
const PIECE_BYTES: usize = 4 << 20;
/// Rows between which all are read where enough of them are wanted.
const SPAN: usize = 1024;
/// One row wanted of so many is enough for that.
const DENSE: usize = 16;

/// Hands out all rows in pieces of some megabytes, each with the number of its first row.
pub(crate) fn in_pieces(
    source: &dyn RowSource,
    mut take: impl FnMut(usize, VectorSet<'_>) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let row_bytes = source.vector_type().vector_bytes(source.dim());
    let step = (PIECE_BYTES / row_bytes).max(1);
    let mut buffer = vec![0; step.min(source.rows()) * row_bytes];
    for first in (0..source.rows()).step_by(step) {
        let bytes = &mut buffer[..step.min(source.rows() - first) * row_bytes];
        read(source, first, bytes)?;
        take(first, view(source, bytes))?;
    }
    Ok(())
}

/// The bytes of some rows, which ascend, one after the other.
pub(crate) fn gather(source: &dyn RowSource, rows: &[u32]) -> Result<Vec<u8>, BuildError> {
    let row_bytes = source.vector_type().vector_bytes(source.dim());
    let mut bytes = super::huge::with_capacity(rows.len() * row_bytes);
    let mut span = Vec::new();
    for rows in rows.chunk_by(|a, b| *a as usize / SPAN == *b as usize / SPAN) {
        let first = rows[0] as usize;
        let len = rows[rows.len() - 1] as usize - first + 1;
        let dense = rows.len() * DENSE >= len;
        span.resize(if dense { len } else { 1 } * row_bytes, 0);
        if dense {
            read(source, first, &mut span)?;
        }
        for &row in rows {
            let at = if dense { row as usize - first } else { 0 };
            if !dense {
                read(source, row as usize, &mut span)?;
            }
            bytes.extend_from_slice(&span[at * row_bytes..(at + 1) * row_bytes]);
        }
    }
    Ok(bytes)
}

/// Rows of a source as a set.
pub(crate) fn view<'a>(source: &dyn RowSource, bytes: &'a [u8]) -> VectorSet<'a> {
    VectorSet::new(bytes, source.dim(), source.vector_type()).expect("whole rows are a set")
}

/// Fills `out` with rows from `first` on.
pub(crate) fn read(source: &dyn RowSource, first: usize, out: &mut [u8]) -> Result<(), BuildError> {
    source.read(first, out).map_err(|e| BuildError::Source { row: first as u64, source: e })
}
