//! Which node holds a row: a table in memory, in chunks, so that ranges of rows that were all
//! deleted cost nothing.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use super::error::UpdateError;
use super::writing::TakeBlockFn;
use crate::filter::{AllowSet, GatheredNodes};
use crate::format::constants::{ABSENT, BLOCK_BYTES};
use crate::format::encode_map;
use crate::types::{NodeId, RowId};

/// Rows of a chunk, which are those of a block of a row map.
const CHUNK: usize = BLOCK_BYTES / 4;
/// Entries that are read before the first of their nodes is noted, so that memory brings several at
/// once.
const AT_ONCE: usize = 64;

#[derive(Clone)]
struct RowChunk {
    nodes: Box<[u32; CHUNK]>,
    live: usize,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct RowTable {
    chunks: RwLock<HashMap<u64, RowChunk, FxBuildHasher>>,
}

fn place(row: RowId) -> (u64, usize) {
    (row.0 / CHUNK as u64, (row.0 % CHUNK as u64) as usize)
}

impl RowTable {
    /// The table of rows 0 and up, as a row map has them.
    pub(super) fn from_map(nodes: &[u32]) -> Self {
        let mut chunks = HashMap::default();
        for (number, some) in nodes.chunks(CHUNK).enumerate() {
            let live = some.iter().filter(|&&node| node != ABSENT).count();
            if live > 0 {
                let mut nodes = Box::new([ABSENT; CHUNK]);
                nodes[..some.len()].copy_from_slice(some);
                chunks.insert(number as u64, RowChunk { nodes, live });
            }
        }
        Self { chunks: RwLock::new(chunks) }
    }

    /// Bytes that a table of `rows` consecutive rows takes.
    pub(super) fn bytes_for(rows: u64) -> u64 {
        rows.div_ceil(CHUNK as u64) * (CHUNK as u64 * 4 + 48)
    }

    /// The node of `row`.
    pub(super) fn get(&self, row: RowId) -> Option<NodeId> {
        let (chunk, at) = place(row);
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let node = chunks.get(&chunk)?.nodes[at];
        (node != ABSENT).then_some(NodeId(node))
    }

    /// The nodes, below `slots`, of those of these about `expected` rows that the table has.
    pub(super) fn allow_set(
        &self,
        slots: u32,
        expected: u64,
        rows: impl FnOnce(&mut dyn FnMut(&[RowId])),
    ) -> AllowSet {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let mut gathered = GatheredNodes::new(slots, expected);
        let mut last = (u64::MAX, None);
        let mut found = [ABSENT; AT_ONCE];
        rows(&mut |batch: &[RowId]| {
            for rows in batch.chunks(AT_ONCE) {
                for (node, &row) in found.iter_mut().zip(rows) {
                    let (chunk, at) = place(row);
                    if chunk != last.0 {
                        last = (chunk, chunks.get(&chunk).map(|chunk| &*chunk.nodes));
                    }
                    *node = last.1.map_or(ABSENT, |nodes| nodes[at]);
                }
                gathered.add(&found[..rows.len()]);
            }
        });
        gathered.finish()
    }

    /// Enters a row; false where it is there already, which changes nothing.
    pub(super) fn insert(&self, row: RowId, node: NodeId) -> bool {
        let (chunk, at) = place(row);
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        let chunk = chunks
            .entry(chunk)
            .or_insert_with(|| RowChunk { nodes: Box::new([ABSENT; CHUNK]), live: 0 });
        if chunk.nodes[at] != ABSENT {
            return false;
        }
        chunk.nodes[at] = node.0;
        chunk.live += 1;
        true
    }

    /// Takes a row out.
    pub(super) fn remove(&self, row: RowId) -> Option<NodeId> {
        let (number, at) = place(row);
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        let chunk = chunks.get_mut(&number)?;
        let node = std::mem::replace(&mut chunk.nodes[at], ABSENT);
        if node == ABSENT {
            return None;
        }
        chunk.live -= 1;
        if chunk.live == 0 {
            chunks.remove(&number);
        }
        Some(NodeId(node))
    }

    /// Rows in the table.
    pub(super) fn len(&self) -> u64 {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        chunks.values().map(|chunk| chunk.live as u64).sum()
    }

    /// Any node that holds a row.
    pub(super) fn any(&self) -> Option<NodeId> {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let chunk = chunks.values().next()?;
        chunk.nodes.iter().find(|&&node| node != ABSENT).map(|&node| NodeId(node))
    }

    /// All rows, ascending.
    pub(super) fn ids(&self) -> Vec<RowId> {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let mut numbers: Vec<u64> = chunks.keys().copied().collect();
        numbers.sort_unstable();
        let mut ids = Vec::new();
        for number in numbers {
            let first = number * CHUNK as u64;
            let nodes = chunks[&number].nodes.iter().zip(first..);
            ids.extend(nodes.filter(|(node, _)| **node != ABSENT).map(|(_, row)| RowId(row)));
        }
        ids
    }

    /// The table at this instant.
    pub(super) fn snapshot(&self) -> Self {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        Self { chunks: RwLock::new(chunks.clone()) }
    }

    /// The same rows, with other nodes.
    pub(super) fn renumbered(&self, new_of: impl Fn(u32) -> u32) -> Self {
        let mut table = self.snapshot();
        let chunks = table.chunks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for node in chunks.values_mut().flat_map(|chunk| chunk.nodes.iter_mut()) {
            if *node != ABSENT {
                *node = new_of(*node);
            }
        }
        table
    }

    /// The nodes of all rows, in no order.
    pub(super) fn nodes(&mut self) -> impl Iterator<Item = NodeId> {
        let chunks = self.chunks.get_mut().unwrap_or_else(PoisonError::into_inner);
        let nodes = chunks.values().flat_map(|chunk| chunk.nodes.iter());
        nodes.filter(|&&node| node != ABSENT).map(|&node| NodeId(node))
    }

    /// Hands out the row map of rows 0 to `rows`, block by block, so that it is never in memory whole.
    pub(super) fn map_blocks(
        &self,
        rows: u64,
        take: &mut TakeBlockFn<'_>,
    ) -> Result<(), UpdateError> {
        const ALL_ABSENT: [u32; CHUNK] = [ABSENT; CHUNK];
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        for number in 0..rows.div_ceil(CHUNK as u64) {
            let nodes = chunks.get(&number).map_or(&ALL_ABSENT, |chunk| &*chunk.nodes);
            let count = (rows - number * CHUNK as u64).min(CHUNK as u64) as usize;
            take(&encode_map(&nodes[..count]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::decode_row_map;

    fn map_of(table: &RowTable, rows: u64) -> Vec<u32> {
        let mut map = Vec::new();
        let mut take = |block: &[u8]| {
            map.extend(decode_row_map(block, 1 << 32).unwrap());
            Ok(())
        };
        table.map_blocks(rows, &mut take).unwrap();
        map
    }

    #[test]
    fn rows_come_and_go_once() {
        let table = RowTable::from_map(&[7, ABSENT, 9]);
        assert_eq!((table.get(RowId(0)), table.get(RowId(1))), (Some(NodeId(7)), None));
        assert!(table.insert(RowId(5000), NodeId(1)) && !table.insert(RowId(5000), NodeId(2)));
        assert_eq!((table.len(), table.get(RowId(5000))), (3, Some(NodeId(1))));
        let map = map_of(&table, 5001);
        assert_eq!((map.len(), map[0], map[1], map[5000]), (5001, 7, ABSENT, 1));
        assert_eq!(table.ids(), [RowId(0), RowId(2), RowId(5000)]);
        assert_eq!(table.remove(RowId(5000)), Some(NodeId(1)));
        assert_eq!((table.remove(RowId(5000)), table.remove(RowId(1))), (None, None));
        assert_eq!(map_of(&table, 3), [7, ABSENT, 9]);
        assert!(table.any().is_some());
    }

    #[test]
    fn a_snapshot_stays_as_it_is_and_numbers_nodes_anew() {
        let table = RowTable::from_map(&[7, ABSENT, 9]);
        let (mut before, other) = (table.snapshot(), table.renumbered(|node| node * 10));
        table.remove(RowId(0));
        table.insert(RowId(1), NodeId(3));
        assert_eq!((map_of(&before, 3), before.len()), (vec![7, ABSENT, 9], 2));
        assert_eq!(map_of(&other, 3), [70, ABSENT, 90]);
        let mut nodes: Vec<_> = before.nodes().collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [NodeId(7), NodeId(9)]);
    }

    #[test]
    fn a_map_of_far_apart_rows_is_written_in_blocks() {
        let (table, far) = (RowTable::default(), 10 * CHUNK as u64 + 5);
        table.insert(RowId(far), NodeId(4));
        let mut lengths = Vec::new();
        let mut take = |block: &[u8]| {
            lengths.push(block.len());
            Ok(())
        };
        table.map_blocks(far + 1, &mut take).unwrap();
        assert_eq!((lengths.len(), lengths[0], lengths[10]), (11, BLOCK_BYTES, 6 * 4));
        let map = map_of(&table, far + 1);
        assert_eq!((map.len() as u64, map[far as usize]), (far + 1, 4));
        assert!(map[..far as usize].iter().all(|&node| node == ABSENT));
    }

    #[test]
    fn many_rows_are_found_at_once_and_none_that_is_absent() {
        let rows = 3 * CHUNK as u32;
        let map: Vec<u32> =
            (0..rows).map(|row| if row % 5 == 0 { ABSENT } else { row ^ 1 }).collect();
        let table = RowTable::from_map(&map);
        for step in [1, 3, CHUNK - 1] {
            let asked = (0..rows + 200).step_by(step);
            let ids: Vec<_> = asked.clone().map(|row| RowId(row.into())).collect();
            let expected = if step == 1 { u64::from(rows) } else { 10 };
            let found = table.allow_set(rows, expected, |batch| ids.chunks(100).for_each(batch));
            let mut expected: Vec<_> = asked
                .filter_map(|row| table.get(RowId(row.into())))
                .filter(|node| node.0 < rows)
                .collect();
            expected.sort_unstable();
            assert_eq!(found.to_vec(), expected);
        }
    }
}
