//! A set of nodes that is read without a lock: the deleted ones.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::NodeId;

/// One bit for each node id below a limit.
pub(super) struct NodeBitmap {
    words: Box<[AtomicU64]>,
}

impl NodeBitmap {
    /// An empty set of nodes below `limit`.
    pub(super) fn new(limit: u64) -> Self {
        let words = usize::try_from(limit.div_ceil(64)).expect("a bit for each node fits");
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Nodes that it has room for, rounded up to whole words.
    pub(super) fn limit(&self) -> usize {
        self.words.len() * 64
    }

    #[inline]
    pub(super) fn contains(&self, node: NodeId) -> bool {
        let word = self.words.get(node.0 as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) & 1 << (node.0 % 64) != 0)
    }

    /// Adds a node; false where it was there.
    ///
    /// # Panics
    /// Where the node is not below the limit.
    pub(super) fn insert(&self, node: NodeId) -> bool {
        let bit = 1 << (node.0 % 64);
        self.words[node.0 as usize / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// The nodes, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut bits = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(NodeId(at as u32 * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_once() {
        let set = NodeBitmap::new(100);
        assert!([99, 3, 64].into_iter().all(|node| set.insert(NodeId(node))));
        assert!(!set.insert(NodeId(3)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 99].map(NodeId));
        assert!(set.contains(NodeId(64)) && !set.contains(NodeId(65)));
        assert!(!set.contains(NodeId(100_000)), "beyond the limit nothing is in the set");
    }
}
