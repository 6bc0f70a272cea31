//! The node of each row by row maps, of which some blocks may be damaged: nothing is said against the
//! rows of these, since what they are mapped to cannot be told.

use std::ops::Range;

use crate::format::constants::ABSENT;

/// Nodes of rows, as far as they are known.
#[derive(Default)]
pub(super) struct KnownRows {
    node_of: Vec<u32>,
    /// Rows of damaged blocks, with what lies between known ones.
    unknown: Vec<Range<u64>>,
}

impl KnownRows {
    /// Notes the node of a row.
    fn put(&mut self, row: u32, node: u32) {
        let at = row as usize;
        if at >= self.node_of.len() {
            self.node_of.resize(at + 1, ABSENT);
        }
        self.node_of[at] = node;
    }

    /// Whether a row can be that of a node, and was not found before.
    pub(super) fn takes(&mut self, row: u64, node: u32) -> bool {
        let mapped = usize::try_from(row).ok().and_then(|row| self.node_of.get_mut(row));
        match mapped {
            Some(mapped) if *mapped == node => {
                *mapped = ABSENT;
                true
            }
            Some(mapped) if *mapped != ABSENT => false,
            _ => self.unknown.iter().any(|rows| rows.contains(&row)),
        }
    }

    /// Rows that no record was found of, with the nodes that they are mapped to.
    pub(super) fn left(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let nodes = self.node_of.iter().copied().enumerate();
        nodes.filter(|(_, node)| *node != ABSENT)
    }
}

/// The rows of one map, block after block.
pub(super) struct MapRows<'a> {
    known: &'a mut KnownRows,
    /// Row ids are below this.
    limit: u64,
    /// Behind the last row that is known.
    after: u64,
    /// Whether blocks behind that row are damaged.
    damaged: bool,
    beyond: Option<u32>,
}

impl<'a> MapRows<'a> {
    /// None yet, of rows below `limit`.
    pub(super) fn new(known: &'a mut KnownRows, limit: u64) -> Self {
        Self { known, limit, after: 0, damaged: false, beyond: None }
    }

    /// The next block, rows ascending.
    pub(super) fn block(&mut self, rows: &[(u32, u32)]) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        self.close(u64::from(first.0));
        self.after = u64::from(last.0) + 1;
        for &(row, node) in rows {
            if u64::from(row) < self.limit {
                self.known.put(row, node);
            } else {
                self.beyond = self.beyond.max(Some(row));
            }
        }
    }

    /// The next block, which is damaged.
    pub(super) fn damaged_block(&mut self) {
        self.damaged = true;
    }

    /// After the last block: the last of the rows that there cannot be, where the map names some.
    pub(super) fn finish(mut self) -> Option<u32> {
        self.close(u64::MAX);
        self.beyond
    }

    fn close(&mut self, until: u64) {
        if std::mem::take(&mut self.damaged) {
            self.known.unknown.push(self.after..until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_damaged_blocks_may_have_any_node_and_others_their_own_once() {
        let mut known = KnownRows::default();
        let mut map = MapRows::new(&mut known, 100);
        map.block(&[(0, 7), (3, 8)]);
        map.damaged_block();
        map.damaged_block();
        map.block(&[(20, 9), (101, 3)]);
        assert_eq!(map.finish(), Some(101));
        assert!(known.takes(0, 7) && !known.takes(0, 7), "once");
        assert!(!known.takes(3, 7) && !known.takes(1, 5), "another node, and no row");
        assert!(known.takes(4, 1) && known.takes(19, 1));
        assert!(!known.takes(101, 3) && !known.takes(50, 1));
        assert_eq!(known.left().collect::<Vec<_>>(), [(3, 8), (20, 9)]);
        let mut map = MapRows::new(&mut known, 100);
        map.damaged_block();
        assert_eq!(map.finish(), None);
        assert!(known.takes(50, 1) && !known.takes(3, 7), "a map that is not known at all");
    }
}
