//! The memtable: vectors in memory that wait to be flushed.
//!
//! Chunks of bounded size, shared with readers: an append copies at most the last chunk, and only
//! where a search still reads it.

use std::sync::Arc;

use crate::ids::RowId;

/// Bytes of vectors at which a chunk is full.
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Clone, Debug, Default)]
pub(super) struct MemtableChunk {
    rows: Vec<RowId>,
    vectors: Vec<u8>,
}

impl MemtableChunk {
    pub(super) fn rows(&self) -> &[RowId] {
        &self.rows
    }

    pub(super) fn vectors(&self) -> &[u8] {
        &self.vectors
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Memtable {
    chunks: Vec<Arc<MemtableChunk>>,
    rows: usize,
    bytes: u64,
}

impl Memtable {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of row ids and vectors.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn chunks(&self) -> &[Arc<MemtableChunk>] {
        &self.chunks
    }

    /// Appends at least one row; `vectors` are back to back.
    pub(super) fn append(&mut self, rows: &[RowId], vectors: &[u8]) {
        let vector_bytes = vectors.len() / rows.len();
        let at_once = (CHUNK_BYTES / vector_bytes).max(1);
        for (rows, vectors) in rows.chunks(at_once).zip(vectors.chunks(at_once * vector_bytes)) {
            if self.chunks.last().is_none_or(|c| c.vectors.len() + vectors.len() > CHUNK_BYTES) {
                self.chunks.push(Arc::default());
            }
            let last = self.chunks.last_mut().expect("a chunk with room was made");
            let chunk = Arc::make_mut(last);
            chunk.rows.extend_from_slice(rows);
            chunk.vectors.extend_from_slice(vectors);
        }
        self.rows += rows.len();
        self.bytes += (size_of_val(rows) + vectors.len()) as u64;
    }

    /// The vector of `row`.
    pub(super) fn get(&self, row: RowId, vector_bytes: usize) -> Option<&[u8]> {
        self.chunks.iter().find_map(|chunk| {
            let at = chunk.rows.iter().position(|&r| r == row)?;
            Some(&chunk.vectors[at * vector_bytes..(at + 1) * vector_bytes])
        })
    }
}
