//! From row ids to nodes: allow-sets for searches.
//!
//! The row map stays on disk; only the blocks that hold the rows asked for are read and checked.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Index;
use super::error::{OpenError, QueryError};
use super::open::blocked;
use super::pages::{Partition, RowMapFile};
use crate::filter::AllowSet;
use crate::format::constants::{ABSENT, BLOCK_BYTES};
use crate::format::{BlockChecksums, FileHeader, FileKind, decode_row_map, decode_row_pairs};
use crate::io::ReadFault;
use crate::search::{ReadFailure, SearchError};
use crate::types::{NodeId, RowId};

const ROWS_PER_BLOCK: u64 = BLOCK_BYTES as u64 / 4;

/// Is told of a block of a row map: its rows with their nodes.
type TellRows<'a> = dyn FnMut(Result<Vec<(u32, u32)>, QueryError>) -> ControlFlow<()> + 'a;

/// A row map with its checksums.
struct CheckedRowMap<'i> {
    path: &'i PathBuf,
    file: &'i File,
    /// A map of all rows, or of some.
    kind: FileKind,
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
        for partition in self.pages.partitions_here() {
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

    /// The rows whose pages can be read here, each with its node, in no order.
    ///
    /// # Errors
    /// [`QueryError::Search`] where a row map cannot be read or is damaged.
    pub fn rows_here(&self) -> Result<Vec<(RowId, NodeId)>, QueryError> {
        self.check_process()?;
        let mut rows = Vec::new();
        for partition in self.pages.partitions_here() {
            match self.whole_row_map(partition)? {
                Some(pairs) => rows.extend(pairs.into_iter().map(|(r, n)| (u64::from(r), n))),
                // Rows are nodes.
                None => rows.extend((0..self.rows()).zip(0..)),
            }
        }
        Ok(rows.into_iter().map(|(row, node)| (RowId(row), NodeId(node))).collect())
    }

    /// The set of about `expected` of these nodes, all of them here, as a filter allows them: about
    /// nodes of other servers it knows nothing.
    pub fn allow_here(&self, expected: u64, nodes: impl IntoIterator<Item = NodeId>) -> AllowSet {
        let slots = self.node_slots();
        let allow = AllowSet::below(slots, expected, nodes);
        let Some(owned) = &self.pages.owned else { return allow };
        let first = |page: u32| {
            let node = u64::from(page) * self.layout().records_per_page() as u64;
            u32::try_from(node).unwrap_or(u32::MAX).min(slots)
        };
        let known: Vec<_> =
            owned.ranges().iter().map(|pages| first(pages.start)..first(pages.end)).collect();
        allow.of_part(&known, slots)
    }

    fn row_map<'i>(
        &self,
        partition: &'i Partition,
    ) -> Result<Option<CheckedRowMap<'i>>, QueryError> {
        let Some(RowMapFile { path, file }) = &partition.row_map else { return Ok(None) };
        let mut start = [0; FileHeader::BYTES];
        file.read_exact_at(&mut start, 0).map_err(|e| unread(path, &e))?;
        let some = FileHeader::decode(&start, FileKind::RowPairs, &self.pages.identity).is_ok();
        let kind = if some { FileKind::RowPairs } else { FileKind::RowMap };
        let opened = blocked(path, file, kind, &self.pages.identity);
        let (header, checksums) = opened.map_err(|e| match e {
            OpenError::File { path, source } => unread(&path, &source),
            other => unreadable(ReadFailure::damaged(other.to_string())),
        })?;
        Ok(Some(CheckedRowMap { path, file, kind, checksums, body_bytes: header.body_bytes }))
    }

    /// Fills in the nodes of the rows that this map knows.
    fn look_up(
        &self,
        map: &CheckedRowMap<'_>,
        rows: &[u64],
        nodes: &mut [u32],
    ) -> Result<(), QueryError> {
        if map.kind == FileKind::RowPairs {
            return self.look_up_pairs(map, rows, nodes);
        }
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

    /// The same, of a map of some rows: they are in order, so blocks before the first one asked for
    /// and those without any are found by halving.
    fn look_up_pairs(
        &self,
        map: &CheckedRowMap<'_>,
        rows: &[u64],
        nodes: &mut [u32],
    ) -> Result<(), QueryError> {
        let blocks = map.body_bytes.div_ceil(BLOCK_BYTES as u64);
        let (mut from, mut at) = (0, 0);
        while at < rows.len() && from < blocks {
            // The last block that begins no later than the row.
            let (mut low, mut high) = (from, blocks);
            let mut pairs = self.row_pairs_block(map, low)?;
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                let there = self.row_pairs_block(map, middle)?;
                if there.first().is_some_and(|(row, _)| u64::from(*row) <= rows[at]) {
                    (low, pairs) = (middle, there);
                } else {
                    high = middle;
                }
            }
            // All that could be in this block: what is asked for before the next block's first row.
            let next = low + 1;
            let until = if next < blocks {
                let first = self.row_pairs_block(map, next)?.first().map_or(0, |(row, _)| *row);
                rows.partition_point(|row| *row < u64::from(first)).max(at + 1)
            } else {
                rows.len()
            };
            for (row, node) in rows[at..until].iter().zip(&mut nodes[at..until]) {
                if let Ok(found) = pairs.binary_search_by_key(row, |(row, _)| u64::from(*row)) {
                    *node = pairs[found].1;
                }
            }
            (at, from) = (until, next);
        }
        Ok(())
    }

    fn row_map_block(&self, map: &CheckedRowMap<'_>, block: u64) -> Result<Vec<u32>, QueryError> {
        let bytes = map.block(block)?;
        decode_row_map(&bytes, self.manifest.slots()).map_err(|e| map.damaged(e.to_string()))
    }

    fn row_pairs_block(
        &self,
        map: &CheckedRowMap<'_>,
        block: u64,
    ) -> Result<Vec<(u32, u32)>, QueryError> {
        let bytes = map.block(block)?;
        decode_row_pairs(&bytes, self.manifest.slots()).map_err(|e| map.damaged(e.to_string()))
    }

    /// The node of each row from row 0 up, for an index of one partition, which has a map of all.
    pub(super) fn dense_row_map(
        &self,
        partition: &Partition,
    ) -> Result<Option<Vec<u32>>, QueryError> {
        let Some(map) = self.row_map(partition)? else { return Ok(None) };
        if map.kind != FileKind::RowMap {
            return Err(map.damaged("a map of some rows, where one of all is needed"));
        }
        let mut all = Vec::new();
        for block in 0..map.body_bytes.div_ceil(BLOCK_BYTES as u64) {
            all.extend(self.row_map_block(&map, block)?);
        }
        Ok(Some(all))
    }

    /// All entries of the row map of a partition: row and node.
    pub(super) fn whole_row_map(
        &self,
        partition: &Partition,
    ) -> Result<Option<Vec<(u32, u32)>>, QueryError> {
        let (mut all, mut damaged) = (Vec::new(), None);
        let has_map = self.each_row_block(partition, &mut |block| match block {
            Ok(rows) => {
                all.extend(rows);
                ControlFlow::Continue(())
            }
            Err(e) => {
                damaged = Some(e);
                ControlFlow::Break(())
            }
        })?;
        match damaged {
            Some(e) => Err(e),
            None => Ok(has_map.then_some(all)),
        }
    }

    /// Tells of each block of the row map of a partition, in the order of rows: its rows, ascending,
    /// with their nodes, or why they cannot be had. Whether there is a map.
    pub(super) fn each_row_block(
        &self,
        partition: &Partition,
        tell: &mut TellRows<'_>,
    ) -> Result<bool, QueryError> {
        let Some(map) = self.row_map(partition)? else { return Ok(false) };
        for block in 0..map.body_bytes.div_ceil(BLOCK_BYTES as u64) {
            if tell(self.rows_of_block(&map, block)).is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn rows_of_block(
        &self,
        map: &CheckedRowMap<'_>,
        block: u64,
    ) -> Result<Vec<(u32, u32)>, QueryError> {
        if map.kind == FileKind::RowPairs {
            return self.row_pairs_block(map, block);
        }
        let first = block * ROWS_PER_BLOCK;
        let entries = self.row_map_block(map, block)?.into_iter();
        let rows = (first..).map(|row| u32::try_from(row).unwrap_or(ABSENT));
        Ok(rows.zip(entries).filter(|(_, node)| *node != ABSENT).collect())
    }
}

impl CheckedRowMap<'_> {
    fn damaged(&self, why: impl std::fmt::Display) -> QueryError {
        unreadable(ReadFailure::damaged(format!("{}: {why}", self.path.display())))
    }

    /// The bytes of a block, checked.
    fn block(&self, block: u64) -> Result<Vec<u8>, QueryError> {
        let from = block * BLOCK_BYTES as u64;
        let length = (self.body_bytes - from).min(BLOCK_BYTES as u64) as usize;
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, self.kind.body_offset() + from)
            .map_err(|e| unread(self.path, &e))?;
        self.checksums.verify(block, &bytes).map_err(|e| self.damaged(e))?;
        Ok(bytes)
    }
}

fn unreadable(failure: ReadFailure) -> QueryError {
    QueryError::Search(SearchError::Unreadable(failure))
}

/// A row map that the file system did not give.
fn unread(path: &Path, error: &std::io::Error) -> QueryError {
    let why = format!("{}: {error}", path.display());
    unreadable(ReadFailure { why, fault: ReadFault::of(error) })
}
