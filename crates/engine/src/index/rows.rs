//! From row ids to nodes: allow-sets for searches.
//!
//! The row map stays on disk; only the blocks that hold the rows asked for are read and checked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::Index;
use super::error::QueryError;
use super::open::blocked;
use super::pages::Partition;
use crate::filter::AllowSet;
use crate::format::constants::{ABSENT, BLOCK_BYTES};
use crate::format::{BlockChecksums, FileKind, decode_row_map};
use crate::search::SearchError;
use crate::types::{NodeId, RowId};

const ROWS_PER_BLOCK: u64 = BLOCK_BYTES as u64 / 4;

/// The row map of one partition, open.
pub(super) struct RowMapFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// A row map with its checksums.
struct RowMap<'i> {
    path: &'i PathBuf,
    file: &'i File,
    checksums: BlockChecksums,
    body_bytes: u64,
}

impl Index {
    /// The nodes of these rows, for searching among them only.
    ///
    /// # Errors
    /// [`QueryError::UnknownRow`] where a row does not exist; [`QueryError::Search`] where the
    /// row map cannot be read or is damaged.
    pub fn allow_rows(&self, rows: &[RowId]) -> Result<AllowSet, QueryError> {
        self.check_process()?;
        let mut rows: Vec<u64> = rows.iter().map(|r| r.0).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut nodes = vec![ABSENT; rows.len()];
        for partition in &self.pages.partitions {
            match self.row_map(partition)? {
                Some(map) => self.look_up(&map, &rows, &mut nodes)?,
                None => {
                    for (node, &row) in nodes.iter_mut().zip(&rows) {
                        *node = u32::try_from(row).unwrap_or(ABSENT);
                    }
                }
            }
        }
        if let Some(at) = nodes.iter().position(|&n| n == ABSENT) {
            return Err(QueryError::UnknownRow(rows[at]));
        }
        Ok(AllowSet::new(nodes.into_iter().map(NodeId)))
    }

    fn row_map<'i>(&self, partition: &'i Partition) -> Result<Option<RowMap<'i>>, QueryError> {
        let Some(RowMapFile { path, file }) = &partition.row_map else { return Ok(None) };
        let (header, checksums) = blocked(path, file, FileKind::RowMap, &self.pages.identity)
            .map_err(|e| QueryError::Search(SearchError::Unreadable(e.to_string())))?;
        Ok(Some(RowMap { path, file, checksums, body_bytes: header.body_bytes }))
    }

    /// Fills in the nodes of the rows that this map knows.
    fn look_up(&self, map: &RowMap<'_>, rows: &[u64], nodes: &mut [u32]) -> Result<(), QueryError> {
        let known = map.body_bytes / 4;
        let mut at = 0;
        while at < rows.len() && rows[at] < known {
            let block = rows[at] / ROWS_PER_BLOCK;
            let entries = self.row_map_block(map, block)?;
            while at < rows.len() && rows[at] < known && rows[at] / ROWS_PER_BLOCK == block {
                let node = entries[(rows[at] % ROWS_PER_BLOCK) as usize];
                if node != ABSENT {
                    nodes[at] = node;
                }
                at += 1;
            }
        }
        Ok(())
    }

    fn row_map_block(&self, map: &RowMap<'_>, block: u64) -> Result<Vec<u32>, QueryError> {
        let damaged = |why: String| {
            let why = format!("{}: {why}", map.path.display());
            QueryError::Search(SearchError::Unreadable(why))
        };
        let from = block * BLOCK_BYTES as u64;
        let length = (map.body_bytes - from).min(BLOCK_BYTES as u64) as usize;
        let mut bytes = vec![0; length];
        map.file
            .read_exact_at(&mut bytes, FileKind::RowMap.body_offset() + from)
            .map_err(|e| damaged(e.to_string()))?;
        map.checksums.verify(block, &bytes).map_err(|e| damaged(e.to_string()))?;
        decode_row_map(&bytes, self.manifest.slots()).map_err(|e| damaged(e.to_string()))
    }

    /// All entries of the row map of a partition, for verification.
    pub(super) fn whole_row_map(
        &self,
        partition: &Partition,
    ) -> Result<Option<Vec<u32>>, QueryError> {
        let Some(map) = self.row_map(partition)? else { return Ok(None) };
        let mut all = Vec::new();
        for block in 0..map.body_bytes.div_ceil(BLOCK_BYTES as u64) {
            all.extend(self.row_map_block(&map, block)?);
        }
        Ok(Some(all))
    }
}
