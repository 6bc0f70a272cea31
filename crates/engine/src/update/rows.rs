//! Which node holds a row: a table in memory, in chunks, so that ranges of rows that were all
//! deleted cost nothing.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use crate::filter::{AllowSet, GatheredNodes};
use crate::format::constants::ABSENT;
use crate::types::{NodeId, RowId};

const CHUNK: usize = 1024;
/// Entries that are read before the first of their nodes is noted, so that memory brings several at
/// once.
const AT_ONCE: usize = 64;

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

    /// The row map of rows 0 to `rows`.
    pub(super) fn to_map(&self, rows: u64) -> Vec<u32> {
        let mut map = vec![ABSENT; usize::try_from(rows).expect("a map fits the address space")];
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        for (number, chunk) in chunks.iter() {
            let from = *number as usize * CHUNK;
            let to = map.len().min(from + CHUNK);
            map[from..to].copy_from_slice(&chunk.nodes[..to - from]);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_and_go_once() {
        let table = RowTable::from_map(&[7, ABSENT, 9]);
        assert_eq!((table.get(RowId(0)), table.get(RowId(1))), (Some(NodeId(7)), None));
        assert!(table.insert(RowId(5000), NodeId(1)) && !table.insert(RowId(5000), NodeId(2)));
        assert_eq!((table.len(), table.get(RowId(5000))), (3, Some(NodeId(1))));
        let map = table.to_map(5001);
        assert_eq!((map.len(), map[0], map[1], map[5000]), (5001, 7, ABSENT, 1));
        assert_eq!(table.ids(), [RowId(0), RowId(2), RowId(5000)]);
        assert_eq!(table.remove(RowId(5000)), Some(NodeId(1)));
        assert_eq!((table.remove(RowId(5000)), table.remove(RowId(1))), (None, None));
        assert_eq!(table.to_map(3), [7, ABSENT, 9]);
        assert!(table.any().is_some());
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
