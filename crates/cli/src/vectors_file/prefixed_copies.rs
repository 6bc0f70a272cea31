//! Rows that stand behind their dimensions in a file, copied without these when somebody wants them
//! back to back.

use std::sync::OnceLock;

use memmap2::Mmap;

use super::texmex::plain;

/// A mapped file of such rows, and what was copied of it.
pub(super) struct PrefixedCopies {
    map: Mmap,
    /// As many as were wanted first, where these are not all.
    first: OnceLock<Vec<u8>>,
    all: OnceLock<Vec<u8>>,
}

impl PrefixedCopies {
    /// Nothing is copied yet.
    pub(super) fn of(map: Mmap) -> Self {
        Self { map, first: OnceLock::new(), all: OnceLock::new() }
    }

    /// The first `wanted` of `rows` rows of `row_bytes` bytes, and perhaps more.
    pub(super) fn plain(&self, wanted: usize, rows: usize, row_bytes: usize) -> &[u8] {
        if self.all.get().is_none() && wanted < rows {
            let first = self.first.get_or_init(|| plain(&self.map, row_bytes, wanted));
            if first.len() >= wanted * row_bytes {
                return first;
            }
        }
        self.all.get_or_init(|| plain(&self.map, row_bytes, rows))
    }

    /// Bytes that were copied.
    #[cfg(test)]
    pub(super) fn copied(&self) -> usize {
        [&self.first, &self.all].into_iter().filter_map(OnceLock::get).map(Vec::len).sum()
    }
}
