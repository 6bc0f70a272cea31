//! Which nodes a builder's search has seen lately: a small lossy table.
//!
//! An insertion sees a few thousand nodes of millions. A table of that size stays in the
//! near caches, where a stamp per node of the whole set would miss on every look-up and cost
//! memory per thread and node. A place holds one node and forgets it for another, so a node
//! may be reported new twice; it is then scored again, and the candidate list, which never
//! takes a node twice, comes out the same. In return a look-up has no loop and no branch.

const EMPTY: u32 = u32::MAX;
const BITS: u32 = 14;

/// A set of node numbers that may forget.
pub(crate) struct GreedyVisited {
    table: Box<[u32; 1 << BITS]>,
}

impl GreedyVisited {
    pub(crate) fn new() -> Self {
        Self { table: Box::new([EMPTY; 1 << BITS]) }
    }

    pub(crate) fn clear(&mut self) {
        self.table.fill(EMPTY);
    }

    /// Adds `id`; false only where it was added before. `u32::MAX` is no valid id.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        let at = (id.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize;
        std::mem::replace(&mut self.table[at], id) != id
    }
}

#[cfg(test)]
mod tests {
    use super::GreedyVisited;

    #[test]
    fn never_takes_a_new_node_for_a_seen_one() {
        let mut set = GreedyVisited::new();
        for id in (0..50_000).map(|i| i * 7) {
            assert!(set.insert(id));
            assert!(!set.insert(id));
        }
        set.clear();
        assert!(set.insert(7));
    }
}
